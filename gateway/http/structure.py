"""How deep and how full a JSON text is, found without parsing it.

The text is looked at in pieces of 64 KiB, and `between` is called between two of them, so that
looking at a long one need not hold up whatever else goes on.
"""

from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TypeAlias

Raw: TypeAlias = bytes | bytearray
Between: TypeAlias = Callable[[], object]

_PIECE_BYTES = 65_536
_MARKS = (b"[", b"{", b",", b":")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{},:"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ZEROS = bytes(ord("0") if byte in b"0123456789" else 0 for byte in range(256))


def do_nothing() -> None:
    """For texts that are short, or looked at where nobody waits."""


def is_deeper_than(levels_max: int, raw: Raw, between: Between = do_nothing) -> bool:
    """Whether arrays and objects nest past `levels_max` in this valid JSON."""
    if raw.count(b"[") + raw.count(b"{") <= levels_max:
        return False
    depth = 0
    for piece in _yield_structure(raw, between):
        depths = list(accumulate(array("b", piece.translate(_STEPS, b",:")), initial=depth))
        if max(depths) > levels_max:
            return True
        depth = depths[-1]
    return False


def is_fuller_than(marks_max: int, raw: Raw, between: Between = do_nothing) -> bool:
    """Whether more than `marks_max` commas, colons and opening brackets stand outside strings."""
    marks = 0
    for mark in _MARKS:
        marks += raw.count(mark)
        between()
    if marks <= marks_max:
        return False
    marks = 0
    for piece in _yield_structure(raw, between):
        marks += len(piece) - piece.count(b"]") - piece.count(b"}")
        if marks > marks_max:
            return True
    return False


def has_digits_in_a_row(count: int, raw: Raw, between: Between = do_nothing) -> bool:
    """Whether so many digits stand side by side, in strings too."""
    run = b"0" * count
    return any(run in piece.translate(_ZEROS) for piece in _split(raw, count - 1, between))


def _split(raw: Raw, overlap: int, between: Between) -> Iterator[Raw]:
    if len(raw) <= _PIECE_BYTES:
        yield raw
        return
    for start in range(0, len(raw), _PIECE_BYTES):
        yield raw[start : start + _PIECE_BYTES + overlap]
        between()


def _yield_structure(raw: Raw, between: Between) -> Iterator[Raw]:
    """Brackets, commas and colons outside strings, in order."""
    in_string = False
    for piece in _split_at_escapes(raw):
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.translate(None, _NOT_STRUCTURE).split(b'"')
        yield b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        between()


def _split_at_escapes(raw: Raw) -> Iterator[Raw]:
    """Pieces of the text; none ends between a backslash and what it escapes."""
    start = 0
    while start < len(raw):
        end = start + _PIECE_BYTES
        piece = raw[start:end]
        if piece.endswith(b"\\") and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            end += 1
            piece = raw[start:end]
        yield piece
        start = end
