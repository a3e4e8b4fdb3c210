"""The counters of all endpoints over a sliding window, which consists of slices of time.

The newest slice grows. Older slices are sealed, which takes a hundredth of the memory, until they
leave the window and are subtracted from the sums. That work is done in pieces, so that an event
loop can serve requests between them.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import orjson

from routing.selection.measurements.endpoint_counter import EndpointCounter, parse_counter

PIECE_ENDPOINTS: Final = 200
Pairs = Iterable[tuple[int, EndpointCounter]]
_QUICKLY: Final = 1
# More than counters of `PIECE_ENDPOINTS` endpoints can take.
_PIECE_BYTES_MAX: Final = 4 * 1024 * 1024
_NOBODY: Final[tuple[int, ...]] = ()


class Window:
    """`slices` of `slice_s` each, the current one included. Slices are numbered by the clock.

    `totals` are the sums over the whole window, by endpoint; an endpoint without any is not there.
    """

    def __init__(self, *, slice_s: float, slices: int) -> None:
        self.totals: dict[int, EndpointCounter] = {}
        self._slice_s = slice_s
        self._slices = slices
        self._newest = -1
        self._open: dict[int, dict[int, EndpointCounter]] = {}
        self._sealed: dict[int, list[bytes]] = {}

    def number_at(self, moment: float) -> int:
        """The slice of a moment of the clock, in seconds."""
        return int(moment // self._slice_s)

    def add(self, number: int, pairs: Pairs) -> None:
        """Add counters to a slice; a slice that is older than the window is ignored."""
        if number <= self._newest - self._slices:
            return
        self._newest = max(self._newest, number)
        slice_ = self._open.setdefault(number, {})
        for endpoint, tally in pairs:
            _add(slice_, endpoint, tally)
            _add(self.totals, endpoint, tally)

    def advance(self, number: int) -> Iterator[Collection[int]]:
        """Make `number` the newest slice. Each step yields the endpoints whose sums became less.

        Callers run it to its end; between its steps `add` may be called.
        """
        self._newest = max(self._newest, number)
        for old in [each for each in self._open if each < self._newest]:
            for piece in _pieces(list(self._open.pop(old, {}).items())):
                self._sealed.setdefault(old, []).append(zlib.compress(piece, _QUICKLY))
                yield _NOBODY
        for old in [each for each in self._sealed if each <= self._newest - self._slices]:
            for piece in self._sealed.pop(old, ()):
                gone = dict(map(parse_counter, orjson.loads(zlib.decompress(piece))))
                for endpoint, tally in gone.items():
                    total = self.totals[endpoint]
                    total.subtract(tally)
                    if total.is_empty:
                        del self.totals[endpoint]
                yield gone

    def dump_pieces(self) -> Iterator[tuple[int, bytes]]:
        """The present slices in packed pieces, each with the number of its slice, for
        `unpack_piece`. The window may change while this runs."""
        sealed = [(number, list(pieces)) for number, pieces in self._sealed.items()]
        growing = [(number, list(slice_.items())) for number, slice_ in self._open.items()]
        for number, pieces in sealed:
            for piece in pieces:
                yield number, piece
        for number, pairs in growing:
            for piece in _pieces(pairs):
                yield number, zlib.compress(piece, _QUICKLY)


def unpack_piece(packed: bytes) -> list[tuple[int, EndpointCounter]]:
    """Endpoint and counter of a piece of `Window.dump_pieces`. Raises `ValueError`."""
    unpacking = zlib.decompressobj()
    try:
        piece = unpacking.decompress(packed, _PIECE_BYTES_MAX)
    except zlib.error as error:
        raise ValueError("no packed piece") from error
    if not unpacking.eof:
        raise ValueError("too large a piece, or a part of one")
    return parse_counters(orjson.loads(piece))


def parse_counters(rows: object) -> list[tuple[int, EndpointCounter]]:
    """Endpoint and counter of each row. Raises `ValueError`."""
    if not isinstance(rows, list):
        raise ValueError("no list of tallies")
    return [parse_counter(row) for row in rows]


def _add(tallies: dict[int, EndpointCounter], endpoint: int, tally: EndpointCounter) -> None:
    known = tallies.get(endpoint)
    if known is None:
        known = tallies[endpoint] = EndpointCounter()
    known.add(tally)


def _pieces(pairs: list[tuple[int, EndpointCounter]]) -> Iterator[bytes]:
    for start in range(0, len(pairs), PIECE_ENDPOINTS):
        part = pairs[start : start + PIECE_ENDPOINTS]
        yield orjson.dumps([tally.serialize(endpoint) for endpoint, tally in part])
