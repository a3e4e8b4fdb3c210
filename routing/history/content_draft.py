"""Prompt and answer of a request under way, where its workspace logs them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.formats.chat.request import ChatRequest
from routing.selection.types import Policy

_SHARES: Final = 2**64


@dataclass(slots=True)
class ContentDraft:
    """The content of one generation as it arrives. `chars_left` bounds what is recorded of the
    answer, and `truncated` says that some is missing. `stored` is the event of its being stored, or
    dropped. One that is not `is_logged` is never stored: it is for destinations alone."""

    generation_id: str
    account_id: UUID
    created_at: datetime
    messages: list[JsonObject]
    media_parts: int
    chars_left: int
    hides_reasoning: bool = False
    is_logged: bool = True
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: list[Any] = field(default_factory=list)
    error: JsonObject | None = None
    truncated: bool = False
    stored: Any = None

    def begin(self) -> None:
        """Drop the answer so far, because another endpoint begins one."""
        self.text, self.reasoning, self.tool_calls = [], [], []

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add one delta of a stream, or a complete message."""
        if content := delta.get("content"):
            self._add_text(self.text, content)
        if not self.hides_reasoning:
            self._add_text(self.reasoning, delta.get("reasoning") or delta.get("reasoning_content"))
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            size = sum(len(str(call)) for call in calls)
            if size > self.chars_left:
                self.truncated = True
                return
            self.chars_left -= size
            for call in calls:
                self._add_call(call)

    def set_answer(self, message: Mapping[str, Any]) -> None:
        """Take the complete message that the caller gets."""
        self.begin()
        self.add(message)

    def set_error(self, error: GatewayError) -> None:
        """Take the error that the caller gets instead, or at the end of a partial answer."""
        metadata = error.metadata
        self.error = {
            "message": error.text,
            "status": error.status,
            "provider_name": metadata.get("provider_name"),
            "raw": metadata.get("raw"),
            "previous_errors": metadata.get("previous_errors", []),
        }

    def _add_text(self, parts: list[str], text: object) -> None:
        if type(text) is not str or not text:
            return
        if len(text) > self.chars_left:
            text, self.truncated = text[: self.chars_left], True
        self.chars_left -= len(text)
        parts.append(text)

    def _add_call(self, call: object) -> None:
        """Add a part of a tool call; the arguments of parts with one index are joined."""
        if not isinstance(call, dict):
            return
        index, function = call.get("index"), call.get("function")
        known = [each for each in self.tool_calls if index is not None and each["index"] == index]
        if not known:
            self.tool_calls.append({**call, "index": index, "function": dict(function or {})})
        elif isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function_so_far = known[0]["function"]
            function_so_far["arguments"] = (function_so_far.get("arguments") or "") + function[
                "arguments"
            ]


def start_draft(
    caller: Caller,
    chat: ChatRequest,
    policy: Policy,
    *,
    generation_id: str,
    created_at: datetime,
    bytes_max: int,
    is_sent: bool = False,
) -> ContentDraft | None:
    """Start a draft where the key's workspace logs content and this request is in its sample, or
    where it `is_sent` to a destination.

    Content without data retention, and on a regional host, is neither logged nor sent.
    """
    if policy.zdr or policy.region is not None:
        return None
    io_logging = caller.io_logging
    is_logged = io_logging is not None and is_sampled(
        chat.session_id or generation_id, io_logging.sampling_rate
    )
    if not (is_logged or is_sent):
        return None
    return ContentDraft(
        generation_id,
        caller.account_id,
        created_at,
        chat.body["messages"],
        chat.media_parts,
        bytes_max // 4,
        hides_reasoning=chat.reasoning is not None and chat.reasoning.exclude,
        is_logged=is_logged,
    )


def is_sampled(identity: str, rate: float) -> bool:
    """Whether a session, or a generation without one, is in the logged sample. The result is the
    same for every request of one identity."""
    share = int.from_bytes(hashlib.sha256(identity.encode("utf-8", "replace")).digest()[:8], "big")
    return rate >= 1 or share < rate * _SHARES
