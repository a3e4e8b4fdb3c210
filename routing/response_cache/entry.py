"""What the response cache keeps of one answer, and under which name."""

import hashlib
import time
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from orjson import loads

from gateway.http.jsonio import JsonObject, dumps, dumps_sorted
from gateway.sealing import UnsealError, seal_bytes, unseal_bytes

_PURPOSE = "response-cache"
# Streams repeat themselves, and a little effort finds most of it.
_EFFORT = 1
# To write and hash larger bodies would hold up everybody else.
BODY_CHARS_MAX = 1_048_576
# A value takes at least as long as so many characters.
_VALUE_CHARS = 32


class Entry(NamedTuple):
    """An answer as its caller had it, in full, and what its record said of it. Times are Unix
    seconds."""

    generation_id: str
    stored_at: float
    ttl_s: int
    model: str
    provider_name: str | None
    endpoint_tag: str | None
    finish_reason: str | None
    native_finish: str | None
    content: bytes

    @property
    def age_s(self) -> int:
        return max(0, int(time.time() - self.stored_at))

    @property
    def left_s(self) -> int:
        return max(0, self.ttl_s - self.age_s)


def build_entry_name(
    owner: object,
    *,
    is_sorted: bool = False,
    kind: str,
    model: str,
    stream: bool,
    bodies: tuple[Mapping[str, Any] | None, ...],
    beside: str = "",
) -> str:
    """The name of the answer to one request: whoever asks as another owner, at another endpoint or
    with another body has another one. The order of a body's properties counts unless it is to be
    sorted."""
    digest, write = hashlib.sha256(), dumps_sorted if is_sorted else dumps
    for body in bodies:
        digest.update(hashlib.sha256(write(body)).digest())
    parts = (str(owner), kind, model, str(stream), beside, digest.hexdigest())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def is_small(body: Mapping[str, Any], chars_max: int = BODY_CHARS_MAX) -> bool:
    """Whether it takes a moment to name a body: its characters, and so many for each value, are
    counted up to the bound."""
    chars_left, waiting = chars_max, list[Any]([body])
    while waiting:
        value: Any = waiting.pop()
        if isinstance(value, str):
            chars_left -= len(value)
        elif isinstance(value, dict | list):
            chars_left -= _VALUE_CHARS * len(value)
        elif isinstance(value, int):
            chars_left -= value.bit_length() // 3
        if chars_left < 0:
            return False
        if isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return True


def pack_entry(entry: Entry, name: str) -> bytes:
    """Sealed for that name: what is found under another one does not open."""
    head = dumps(entry._replace(content=b"")._asdict() | {"content": ""})
    return seal_bytes(
        zlib.compress(head + b"\n" + entry.content, _EFFORT), purpose=_PURPOSE, row=name
    )


def unpack_entry(sealed: bytes, name: str) -> Entry | None:
    """None for what was kept under another name, or has run out."""
    try:
        opened = zlib.decompress(unseal_bytes(sealed, purpose=_PURPOSE, row=name))
    except (UnsealError, zlib.error):
        return None
    head, _, content = opened.partition(b"\n")
    entry = Entry(**{**loads(head), "content": content})
    return entry if time.time() < entry.stored_at + entry.ttl_s else None


_DATA: Final = b"data: "
_DONE: Final = b"[DONE]"
_TIMES: Final = ("created", "created_at", "completed_at")
# Where answers stand inside of events.
_INNER: Final = ("message", "response")


def repeat_answer(content: bytes, *, ids: dict[str, str], now: int) -> bytes:
    """A whole answer's body. `ids` are the new ones by the kind of object that has them: "chat",
    "message" and "response"."""
    return dumps(_renew_all(loads(content), ids, now))


def repeat_events(content: bytes, *, ids: dict[str, str], now: int) -> bytes:
    """The events of a stream, its keep-alives left out."""
    events = []
    for block in filter(None, content.split(b"\n\n")):
        lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
        for place, line in enumerate(lines):
            if line.startswith(_DATA) and line != _DATA + _DONE:
                event = _renew_all(loads(line.removeprefix(_DATA)), ids, now)
                lines[place] = _DATA + dumps(event)
        if lines:
            events.append(b"\n".join(lines) + b"\n\n")
    return b"".join(events)


def _renew_all(answer: JsonObject, ids: dict[str, str], now: int) -> JsonObject:
    """An answer or an event, and the answer that stands inside of it."""
    inner = [answer[name] for name in _INNER if isinstance(answer.get(name), dict)]
    for each in (answer, *inner):
        kind = _find_kind(each)
        if kind is not None and "id" in each:
            each["id"] = ids[kind]
        for name in _TIMES:
            if isinstance(each.get(name), int):
                each[name] = now
        each.pop("router_metadata", None)
        if isinstance(each.get("usage"), dict):
            each["usage"] = zero_usage(each["usage"])
    return answer


def _find_kind(answer: JsonObject) -> str | None:
    if str(answer.get("object", "")).startswith("chat.completion"):
        return "chat"
    if answer.get("object") == "response":
        return "response"
    return "message" if answer.get("type") == "message" and "role" in answer else None


def zero_usage(usage: object) -> Any:
    """The same with nothing used and nothing to pay."""
    if isinstance(usage, dict):
        return {name: zero_usage(value) for name, value in usage.items()}
    if isinstance(usage, list):
        return [zero_usage(value) for value in usage]
    if isinstance(usage, bool):
        return False
    return 0 if isinstance(usage, int | float) else usage
