"""Conversations on the intern's disk, one file each, so that they outlive a suspension."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    BaseToolReturnPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

# A person is asked with it: its arguments and its result are part of the conversation.
ASKING_TOOL = "ask_person"
# The newest turns are given out, each cut at this many characters.
TURNS_MAX = 100
TURN_CHARS_MAX = 8_000


@dataclass
class AgentSession:
    """`always` maps a tool to whether its person allowed or refused it for good."""

    id: str
    messages: list[ModelMessage] = field(default_factory=list)
    always: dict[str, bool] = field(default_factory=dict)


class AgentSessions:
    """The sessions of one intern, kept in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, session_id: str) -> AgentSession:
        """The session, a new one where there is none or its file cannot be read."""
        try:
            saved = json.loads(self._file(session_id).read_bytes())
            messages = ModelMessagesTypeAdapter.validate_python(saved["messages"])
            return AgentSession(session_id, messages, dict(saved["always"]))
        except (OSError, ValueError, KeyError, TypeError):
            return AgentSession(session_id)

    def save(self, session: AgentSession) -> None:
        """Write it whole. Raises `OSError` where the disk does not take it."""
        file = self._file(session.id)
        messages = json.loads(ModelMessagesTypeAdapter.dump_json(session.messages))
        saved = {"session_id": session.id, "always": session.always, "messages": messages}
        temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            json.dump(saved, opened)
        temporary.replace(file)

    def _file(self, session_id: str) -> Path:
        # A caller chooses the id, so it is no file name.
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest[:40]}.json"


def drop_unanswered(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The messages up to the first tool call that nobody answered. A cancellation cut off the rest,
    and no model takes a call without its result."""
    for n, message in enumerate(messages):
        if not isinstance(message, ModelResponse):
            continue
        calls = {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}
        following = messages[n + 1] if n + 1 < len(messages) else None
        if isinstance(following, ModelRequest):
            calls -= {
                part.tool_call_id
                for part in following.parts
                if isinstance(part, BaseToolReturnPart) or part.part_kind == "retry-prompt"
            }
        if calls:
            return list(messages[:n])
    return list(messages)


def list_turns(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """What the two said to each other, the oldest first. Each has `role` (`user`, `assistant`),
    `text`, and `tools`, the names of those that the agent called with it."""
    turns = list(_iterate_turns(messages))[-TURNS_MAX:]
    return [{**turn, "text": turn["text"][:TURN_CHARS_MAX]} for turn in turns]


def _iterate_turns(messages: Sequence[ModelMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    yield {"role": "user", "text": part.content, "tools": []}
                elif isinstance(part, ToolReturnPart) and part.tool_name == ASKING_TOOL:
                    given = part.content if isinstance(part.content, dict) else {}
                    text = ", ".join(map(str, given.values())) or "I do not say."
                    yield {"role": "user", "text": text, "tools": []}
            continue
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        asked = [call.args_as_dict() for call in calls if call.tool_name == ASKING_TOOL]
        texts += [str(each.get("message", "")) for each in asked]
        tools = [call.tool_name for call in calls if call.tool_name != ASKING_TOOL]
        if any(texts) or tools:
            text = "\n\n".join(filter(None, texts))
            yield {"role": "assistant", "text": text, "tools": tools}
