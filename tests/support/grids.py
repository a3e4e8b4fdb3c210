"""Cases that differ along several axes: what of them runs with every change."""

from collections.abc import Iterable, Mapping
from zlib import crc32


def diagonal(
    cells: Iterable[Mapping[str, object]], pairs: Iterable[tuple[str, str]] = (), *, name: str = ""
) -> set[int]:
    """The positions of a few cells that have each value of each axis, and of `pairs` each two.

    A cell says its value on every axis: `{"kind": "openai", "fault": "hang"}`. Grids of
    other names take other cells, so that the tests of a file reach more combinations together.
    """
    wanted = [
        {*cell.items(), *((a, b, cell[a], cell[b]) for a, b in pairs if a in cell and b in cell)}
        for cell in cells
    ]
    missing: set[object] = set().union(*wanted)
    shift = crc32(name.encode())
    found = set()
    while missing:
        best = max(
            range(len(wanted)),
            key=lambda place: (len(wanted[place] & missing), (place + shift) % len(wanted)),
        )
        missing -= wanted[best]
        found.add(best)
    return found
