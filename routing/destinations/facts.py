"""What destinations get of one generation, and how that travels to the worker.

Content is trimmed, and media are left out. A batch is sealed: prompts lie in no queue in the clear.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject, dumps, loads
from gateway.sealing import seal_bytes, unseal_bytes
from routing.history.contents import trim_value

PURPOSE: Final = "destination-batch"
_NANO: Final = 1_000_000_000
_MEDIA: Final = "[{} left out]"
_MEDIA_FIELDS: Final = frozenset({"audio", "images"})
_TRACE_KEYS_MAX: Final = 64
_TRACE_CHARS_MAX: Final = 16_384


class TraceFacts(NamedTuple):
    """One generation. Times are nanoseconds since 1970, durations milliseconds, money nano-USD.

    `model` served, `requested_model` was asked for. `trace` is the caller's object of that name.
    `identity`, `context` and `allocation` are what `broadcast_…` fields of a destination add.
    `input` are chat messages and `output` an assistant's message, both None without content.
    """

    generation_id: str
    started_ns: int
    ended_ns: int
    api_type: str
    model: str
    requested_model: str
    provider: str | None
    status: int
    error_type: str | None
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_tokens: int
    charge_nano: int
    upstream_cost_nano: int
    is_byok: bool
    latency_ms: int | None
    session_id: str | None
    user: str | None
    trace: JsonObject
    api_key_name: str
    identity: JsonObject
    context: JsonObject
    allocation: JsonObject
    input: list[JsonObject] | None = None
    output: JsonObject | None = None

    @property
    def total_cost_usd(self) -> float:
        return self.charge_nano / _NANO

    def without_content(self) -> "TraceFacts":
        return self._replace(input=None, output=None)

    def filter_values(self) -> JsonObject:
        """The value of each field of filter rules."""
        return {
            "model": self.model,
            "provider": self.provider,
            "session_id": self.session_id,
            "user_id": self.user,
            "api_key_name": self.api_key_name,
            "finish_reason": self.finish_reason,
            "input": join_texts(self.input or ()),
            "output": join_texts([self.output] if self.output else ()),
            "total_cost": self.total_cost_usd,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }


class MetadataGroups(NamedTuple):
    """Which groups of metadata a destination gets beside the model, tokens and total cost."""

    cost: bool = False
    cost_allocation: bool = False
    identity: bool = False
    request_context: bool = False


def join_texts(messages: Sequence[Mapping[str, Any]]) -> str:
    """The texts of messages, with line breaks between."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, list):
            texts += [part["text"] for part in content if isinstance(part.get("text"), str)]
    return "\n".join(texts)


def strip_media(messages: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """The messages without images, sounds, videos and files; a word stands for each."""
    stripped: list[JsonObject] = []
    for message in messages:
        kept = {name: value for name, value in message.items() if name not in _MEDIA_FIELDS}
        if isinstance(kept.get("content"), list):
            kept["content"] = [
                {"type": "text", "text": part["text"]}
                if isinstance(part.get("text"), str)
                else {"type": "text", "text": _MEDIA.format(part.get("type", "part"))}
                for part in kept["content"]
                if isinstance(part, dict)
            ]
        stripped.append(kept)
    return stripped


def trim_trace(trace: Mapping[str, Any] | None) -> JsonObject:
    """The caller's `trace`, bounded in keys and characters."""
    first = dict(list((trace or {}).items())[:_TRACE_KEYS_MAX])
    trimmed: JsonObject = trim_value(first, _TRACE_CHARS_MAX)[0]
    return trimmed


# --- Batches --------------------------------------------------------------------------------------


def pack_batch(traces: Sequence[TraceFacts], destination_id: str) -> str:
    """The traces as a message of the queue carries them, for that destination alone."""
    packed = zlib.compress(dumps([trace._asdict() for trace in traces]), 1)
    sealed = seal_bytes(packed, purpose=PURPOSE, row=destination_id)
    return base64.b85encode(sealed).decode()


def unpack_batch(batch: str, destination_id: str) -> list[TraceFacts]:
    """The traces of `pack_batch`. Raises `UnsealError`."""
    sealed = base64.b85decode(batch)
    packed = unseal_bytes(sealed, purpose=PURPOSE, row=destination_id)
    return [TraceFacts(**each) for each in loads(zlib.decompress(packed))]
