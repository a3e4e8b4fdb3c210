"""Events of a messages stream as bytes (inference reference 4.7)."""

from typing import Any, Final

from gateway.http.jsonio import dumps

PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
DELTA_END: Final = b"}}\n\n"


def frame(name: str, fields: dict[str, Any]) -> bytes:
    """One event; its type stands first in its data."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps({"type": name, **fields}))


def block_start(index: int, block: dict[str, Any]) -> bytes:
    return frame("content_block_start", {"index": index, "content_block": block})


def block_stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index


def delta_head(index: int, kind: str, field: str) -> bytes:
    """A delta up to the value of its one field; `DELTA_END` follows that value."""
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
        b'"delta":{"type":"%b","%b":' % (index, kind.encode(), field.encode())
    )
