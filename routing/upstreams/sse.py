"""Server-sent events, cut out of bytes that arrive in any pieces."""

import io
from enum import Enum

Event = tuple[str | None, bytes]

_BOM = b"\xef\xbb\xbf"
# This much of a line tells which field it is.
_READABLE_BYTES = len(b"event:")
# No format has names near this length; the rest of a longer one is dropped.
_NAME_BYTES_MAX = 1024


class EventTooLarge(Exception):
    """An event's data is over the limit."""


class _Line(Enum):
    """Where the bytes of the line in progress go."""

    UNKNOWN = 0
    DATA = 1
    NAME = 2
    IGNORED = 3


class SseParser:
    """Turns a stream of bytes into events, by the rules browsers follow.

    A payload is an event's ``data`` lines joined by line feeds, as bytes. Comments, ``id`` and
    ``retry`` are ignored. Whole events take a short cut; anything else goes line by line into one
    growing buffer, so that time is linear and memory stays near ``event_bytes_max``. After
    EventTooLarge the parser is spent.
    """

    __slots__ = (
        "_bytes_max",
        "_data",
        "_data_bytes",
        "_held",
        "_is_clean",
        "_is_first",
        "_line",
        "_name",
        "_skip_lf",
    )

    def __init__(self, event_bytes_max: int) -> None:
        self._bytes_max = event_bytes_max
        self._is_first = True
        self._skip_lf = False
        self._held = b""
        self._data: io.BytesIO | None = None
        self._data_bytes = 0
        self._name: bytes | None = None
        self._line = _Line.UNKNOWN
        self._is_clean = True

    def feed_bytes(self, data: bytes) -> list[bytes]:
        """The payloads of the events that ``data`` completes. Raises EventTooLarge."""
        if self._is_clean and not (self._is_first or self._skip_lf):
            # One whole event, as a model that says a word at a time sends it.
            start = 6 if data[:6] == b"data: " else _find_named_payload(data)
            end = len(data) - 2
            is_whole = start and data.find(b"\n", start) == end and data[end:] == b"\n\n"
            if is_whole and b"\r" not in data:
                if end - start > self._bytes_max:
                    raise EventTooLarge
                return [data[start:end]]
        return [payload for _, payload in self.feed_typed(data)]

    def feed_typed(self, data: bytes) -> list[Event]:
        """As ``feed_bytes``, each payload with its event name; None where the event has none."""
        if self._is_first or self._skip_lf or b"\r" in data:
            data = self._normalize(data)
        events: list[Event] = []
        if not self._is_clean:
            data = self._finish_event(data, events)
        if data:
            bytes_max = self._bytes_max
            blocks = data.split(b"\n\n")
            remainder = blocks.pop()
            for block in blocks:
                if block.startswith(b"data: ") and b"\n" not in block:
                    payload = block[6:]
                    if len(payload) > bytes_max:
                        raise EventTooLarge
                    events.append((None, payload))
                else:
                    self._take_block(block, events)
            self._begin(remainder)
        return events

    def finish(self) -> list[bytes]:
        """The payload of a last event that was not terminated, if it has any."""
        return [payload for _, payload in self.finish_typed()]

    def finish_typed(self) -> list[Event]:
        """As ``finish``, with the event name."""
        events: list[Event] = []
        if not self._is_clean:
            self._dispatch(events)
        return [event for event in events if event[1]]

    def _normalize(self, data: bytes) -> bytes:
        """Line feeds only, and no byte-order mark at the beginning of the stream."""
        if self._is_first:
            data = self._held + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._held = data
                return b""
            self._is_first, self._held = False, b""
            data = data.removeprefix(_BOM)
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            # A line feed that follows in the next piece belongs to this carriage return.
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _finish_event(self, data: bytes, events: list[Event]) -> bytes:
        """Go on with the event in progress; returns what follows its end."""
        is_line_start = self._line is _Line.UNKNOWN and not self._held
        if is_line_start and data.startswith(b"\n"):
            self._dispatch(events)
            return data[1:]
        end = data.find(b"\n\n")
        if end < 0:
            self._take_lines(data)
            return b""
        self._take_lines(data[:end])
        self._dispatch(events)
        return data[end + 2 :]

    def _take_block(self, block: bytes, events: list[Event]) -> None:
        name_end = block.find(b"\n")
        payload_start = name_end + 7
        if (
            block.startswith(b"event: ")
            and block.startswith(b"\ndata: ", name_end)
            and block.find(b"\n", payload_start) < 0
            and 7 < name_end < _NAME_BYTES_MAX
            and len(block) - payload_start <= self._bytes_max
        ):
            events.append((block[7:name_end].decode("utf-8", "replace"), block[payload_start:]))
            return
        self._begin(block)
        if not self._is_clean:
            self._dispatch(events)

    def _begin(self, text: bytes) -> None:
        """Start an event; blank lines before it mean nothing."""
        text = text.lstrip(b"\n")
        if text:
            self._is_clean = False
            self._take_lines(text)

    def _take_lines(self, text: bytes) -> None:
        start = 0
        while (end := text.find(b"\n", start)) >= 0:
            self._take_piece(text[start:end])
            self._end_line()
            start = end + 1
        if start < len(text):
            self._take_piece(text[start:])

    def _take_piece(self, piece: bytes) -> None:
        """Some bytes of one line; its beginning is held back until it tells the field."""
        if self._line is _Line.UNKNOWN:
            piece = self._held + piece
            if len(piece) < _READABLE_BYTES:
                self._held = piece
                return
            piece = self._open_line(piece)
        self._write(piece)

    def _open_line(self, beginning: bytes) -> bytes:
        """Decide where the line goes; returns the part of its value that is known."""
        self._held = b""
        if beginning.startswith(b"data:"):
            self._line = _Line.DATA
            if self._data is None:
                self._data = io.BytesIO()
            else:
                self._write(b"\n")
            return beginning[6:] if beginning.startswith(b"data: ") else beginning[5:]
        if beginning.startswith(b"event:"):
            self._line = _Line.NAME
            self._name = b""
            return beginning[6:]
        self._line = _Line.IGNORED
        return b""

    def _end_line(self) -> None:
        if self._held:
            # A field name without a colon is a field with an empty value.
            colon = b":" if self._held in (b"data", b"event") else b""
            self._write(self._open_line(self._held + colon))
        self._line = _Line.UNKNOWN

    def _write(self, piece: bytes) -> None:
        if self._line is _Line.DATA and self._data is not None:
            self._data_bytes += len(piece)
            if self._data_bytes > self._bytes_max:
                raise EventTooLarge
            self._data.write(piece)
        elif self._line is _Line.NAME and self._name is not None:
            self._name += piece[: _NAME_BYTES_MAX - len(self._name)]

    def _dispatch(self, events: list[Event]) -> None:
        self._end_line()
        if self._data is not None:
            name = self._name.removeprefix(b" ").decode("utf-8", "replace") if self._name else None
            # getvalue hands over the buffer itself, so a large event is never held twice.
            events.append((name or None, self._data.getvalue()))
        self._data = None
        self._data_bytes = 0
        self._name = None
        self._line = _Line.UNKNOWN
        self._is_clean = True


def _find_named_payload(data: bytes) -> int:
    """Where the data of an event begins whose name is in front of it; 0 where this is none."""
    if data[:7] != b"event: ":
        return 0
    name_end = data.find(b"\n")
    start = name_end + 7
    return start if data[name_end:start] == b"\ndata: " else 0
