"""An upstream's event as bytes, unchanged where its bytes fit into a frame."""

from typing import Any, Final

from routing.entities.exchange import Native
from routing.formats.messages.streaming.frames import frame

_BREAKS: Final = (b"\n", b"\r")


def verbatim(native: Native) -> bytes:
    """The event as it came. Breaks in its data are written anew; an event whose name could end a
    line is none."""
    name, raw = native.name, native.raw
    if not name.isprintable() or any(each in raw for each in _BREAKS):
        return frame(name, fields_of(native)) if name.isprintable() else b""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), raw)


def fields_of(native: Native) -> dict[str, Any]:
    """The data without the type, which `frame` says."""
    return {key: item for key, item in native.value.items() if key != "type"}
