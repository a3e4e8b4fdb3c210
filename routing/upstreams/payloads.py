"""JSON as upstreams send it: whole answers and stream events, which are objects."""

from typing import Any

import orjson

from routing.upstreams.failures import malformed


def parsed_answer(body: bytes, content_type: str) -> dict[str, Any]:
    """Raises `UpstreamFailure` for what is of another type, or no object."""
    if content_type and "json" not in content_type.lower():
        raise malformed(f"an answer of type {content_type[:80]!r}", raw=body)
    return _object(body, "the answer")


def parsed_event(payload: bytes) -> dict[str, Any]:
    """Raises `UpstreamFailure` for what is no object."""
    return _object(payload, "a stream event")


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = orjson.loads(raw)
    except ValueError:
        raise malformed(f"{what} is no JSON", raw=raw) from None
    if type(value) is not dict:
        raise malformed(f"{what} is no object", raw=raw)
    return value
