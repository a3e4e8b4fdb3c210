"""Work on long texts in pieces, between which other threads run. Copying one of megabytes in one go
would hold them all up, the event loop's among them."""

import base64
import codecs
from collections.abc import Iterable
from typing import Final

from gateway.http.jsonio import Raw

# Characters or bytes: about a millisecond. A multiple of four, as base64 has it.
_PIECE: Final = 1 << 20
_BLANKS: Final = b" \t\r\n"
_PIECE_OF_BASE64: Final = _PIECE // 4 * 3


def encode(text: str) -> Raw:
    """UTF-8."""
    if len(text) <= _PIECE:
        return text.encode("utf-8", "surrogatepass")
    out = bytearray()
    for start in range(0, len(text), _PIECE):
        out += text[start : start + _PIECE].encode("utf-8", "surrogatepass")
    return out


def decode(data: Raw, errors: str = "surrogatepass") -> str:
    """Of UTF-8."""
    if len(data) <= _PIECE:
        return data.decode("utf-8", errors)
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    pieces = (decoder.decode(data[start : start + _PIECE]) for start in range(0, len(data), _PIECE))
    return _join_pieces([*pieces, decoder.decode(b"", True)])


def append(out: bytearray, data: Raw, start: int, end: int) -> None:
    """Put a part of the data behind what is there."""
    for at in range(start, end, _PIECE):
        out += data[at : min(end, at + _PIECE)]


def decode_base64(text: str, start: int) -> str:
    """What stands in base64 from there on, in lines or not. Raises `ValueError`."""
    out, rest = bytearray(), b""
    for at in range(start, len(text), _PIECE):
        piece = rest + text[at : at + _PIECE].encode("ascii").translate(None, _BLANKS)
        whole = len(piece) // 4 * 4
        out += base64.b64decode(piece[:whole])
        rest = piece[whole:]
    out += base64.b64decode(rest)
    return decode(out, "strict")


def encode_base64(head: str, text: str) -> str:
    """The head and the text in base64 behind it."""
    data = encode(text)
    steps = range(0, len(data), _PIECE_OF_BASE64)
    pieces = [base64.b64encode(data[at : at + _PIECE_OF_BASE64]).decode() for at in steps]
    return _join_pieces([head, *pieces])


def _join_pieces(pieces: Iterable[str]) -> str:
    """A text that grows in its place, which nothing else refers to: `join` is one long copy."""
    text = ""
    for piece in pieces:
        text += piece
    return text
