"""What a request said and was answered, while it is under way, where it is to be kept at all."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from accounts.caller import Caller
from gateway.http.errors import GatewayError
from routing.formats.chat.request import ChatRequest
from routing.ledger.tickets import new_event
from routing.selection.types import Policy

_SHARES: Final = 2**64
# How long an answer waits for its content to be stored; mostly it is there before the charge is.
_WAIT_S: Final = 0.25


@dataclass(slots=True)
class ContentDraft:
    """One generation's content as it comes. `chars_left` bounds what is kept of the answer; what
    was left out makes it `truncated`. `kept` is set once it was stored, or given up."""

    generation_id: str
    account_id: UUID
    created_at: datetime
    messages: list[dict[str, Any]]
    media_parts: int
    chars_left: int
    hides_reasoning: bool = False
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: list[Any] = field(default_factory=list)
    error: dict[str, Any] | None = None
    truncated: bool = False
    stored: Any = None

    def begin(self) -> None:
        """Another endpoint answers: forget what the one before it said."""
        self.text, self.reasoning, self.tool_calls = [], [], []

    def add(self, delta: Mapping[str, Any]) -> None:
        """One delta of a stream, or a whole message."""
        if content := delta.get("content"):
            self._add_text(self.text, content)
        if not self.hides_reasoning:
            self._add_text(self.reasoning, delta.get("reasoning") or delta.get("reasoning_content"))
        if calls := delta.get("tool_calls"):
            self._add_calls(calls)

    def set_answer(self, message: Mapping[str, Any]) -> None:
        """The whole message that the caller gets."""
        self.begin()
        self.add(message)

    def set_error(self, error: GatewayError) -> None:
        """What the caller is told instead, or at the end of what there was."""
        told = error.metadata
        self.error = {
            "message": error.text,
            "status": error.status,
            "provider_name": told.get("provider_name"),
            "raw": told.get("raw"),
            "previous_errors": told.get("previous_errors", []),
        }

    def wait(self) -> None:
        """For as long as an answer may be kept waiting: whoever asks for the content next is to
        find it."""
        if self.stored is not None:
            self.stored.wait(_WAIT_S)

    def mark_queued(self) -> None:
        self.stored = new_event()

    def mark_stored(self) -> None:
        if self.stored is not None:
            self.stored.set()

    def _add_text(self, parts: list[str], text: Any) -> None:
        if type(text) is not str or not text:
            return
        if len(text) > self.chars_left:
            text, self.truncated = text[: self.chars_left], True
        self.chars_left -= len(text)
        parts.append(text)

    def _add_calls(self, calls: Any) -> None:
        if not isinstance(calls, list):
            return
        size = sum(len(str(call)) for call in calls)
        if size > self.chars_left:
            self.truncated = True
            return
        self.chars_left -= size
        for call in calls:
            self._add_call(call)

    def _add_call(self, call: Any) -> None:
        """A streamed call comes in parts: the arguments of one index belong together."""
        if not isinstance(call, dict):
            return
        index, function = call.get("index"), call.get("function")
        known = [each for each in self.tool_calls if index is not None and each["index"] == index]
        if not known:
            self.tool_calls.append({**call, "index": index, "function": dict(function or {})})
        elif isinstance(function, dict) and isinstance(function.get("arguments"), str):
            whole = known[0]["function"]
            whole["arguments"] = (whole.get("arguments") or "") + function["arguments"]


def start_draft(
    caller: Caller,
    chat: ChatRequest,
    policy: Policy,
    *,
    generation_id: str,
    created_at: datetime,
    bytes_max: int,
) -> ContentDraft | None:
    """A draft where the key's workspace logs and this request is among the share that is logged.

    Nothing is kept of requests without data retention, nor of those on a regional host.
    """
    wish = caller.io_logging
    if wish is None or policy.zdr or policy.region is not None:
        return None
    if not is_sampled(chat.session_id or generation_id, wish.sampling_rate):
        return None
    return ContentDraft(
        generation_id,
        caller.account_id,
        created_at,
        chat.body["messages"],
        chat.media_parts,
        bytes_max // 4,
        hides_reasoning=chat.reasoning is not None and chat.reasoning.exclude,
    )


def is_sampled(identity: str, rate: float) -> bool:
    """Whether a session, or a generation without one, is among the share that is logged: always
    the same of one identity."""
    share = int.from_bytes(hashlib.sha256(identity.encode("utf-8", "replace")).digest()[:8], "big")
    return rate >= 1 or share < rate * _SHARES
