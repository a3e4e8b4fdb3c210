"""An answer told once more: with an id and a time of its own, as one that cost nothing."""

from typing import Any, Final

from orjson import loads

from gateway.http.jsonio import JsonObject, dumps

_DATA: Final = b"data: "
_DONE: Final = b"[DONE]"
_TIMES: Final = ("created", "created_at", "completed_at")
# Where answers stand inside of events.
_INNER: Final = ("message", "response")


def retold(content: bytes, *, ids: dict[str, str], now: int) -> bytes:
    """A whole answer's body. `ids` are the new ones by the kind of object that has them: "chat",
    "message" and "response"."""
    return dumps(_renewed(loads(content), ids, now))


def retold_events(content: bytes, *, ids: dict[str, str], now: int) -> bytes:
    """The events of a stream, its keep-alives left out."""
    blocks = (_block(block, ids, now) for block in content.split(b"\n\n") if block)
    return b"".join(blocks)


def _block(block: bytes, ids: dict[str, str], now: int) -> bytes:
    lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
    told = [_line(line, ids, now) for line in lines]
    return b"\n".join(told) + b"\n\n" if told else b""


def _line(line: bytes, ids: dict[str, str], now: int) -> bytes:
    if not line.startswith(_DATA) or line == _DATA + _DONE:
        return line
    return _DATA + dumps(_renewed(loads(line.removeprefix(_DATA)), ids, now))


def _renewed(said: JsonObject, ids: dict[str, str], now: int) -> JsonObject:
    """An answer or an event, and the answer that stands inside of it."""
    inner = [said[name] for name in _INNER if isinstance(said.get(name), dict)]
    for each in (said, *inner):
        _renew(each, ids, now)
    return said


def _renew(said: JsonObject, ids: dict[str, str], now: int) -> None:
    kind = _kind(said)
    if kind is not None and "id" in said:
        said["id"] = ids[kind]
    for name in _TIMES:
        if isinstance(said.get(name), int):
            said[name] = now
    said.pop("router_metadata", None)
    if isinstance(said.get("usage"), dict):
        said["usage"] = zeroed(said["usage"])


def _kind(said: JsonObject) -> str | None:
    if str(said.get("object", "")).startswith("chat.completion"):
        return "chat"
    if said.get("object") == "response":
        return "response"
    return "message" if said.get("type") == "message" and "role" in said else None


def zeroed(usage: Any) -> Any:
    """The same with nothing used and nothing to pay."""
    if isinstance(usage, dict):
        return {name: zeroed(value) for name, value in usage.items()}
    if isinstance(usage, list):
        return [zeroed(value) for value in usage]
    if isinstance(usage, bool):
        return False
    return 0 if isinstance(usage, int | float) else usage
