"""Bytes as text, in the charset that a stranger names."""

import codecs
import encodings
import pkgutil
import re
from encodings.aliases import aliases
from typing import Final

from gateway.eventloop import yield_control

PIECE_BYTES: Final = 16_384
# What takes a moment per piece: other codecs are none of texts, or take longer with every byte.
_QUICK: Final = re.compile(
    r"utf_(8|8_sig|(16|32)(_[bl]e)?)|ascii|latin_1|(iso8859|koi8|mac|euc|iso2022|shift)_\w+"
    r"|cp\d+|big5\w*|gb(k|2312|18030)|hz|johab|kz1048|ptcp154|tis_620|hp_roman8"
)
CHARSETS: Final = frozenset(
    each.name for each in pkgutil.iter_modules(encodings.__path__) if _QUICK.fullmatch(each.name)
)
_MARKS: Final = {
    "utf_16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf_32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


def find_charset(name: str) -> str | None:
    """A charset by any of its names, as Python calls it; None where bytes are not read as that."""
    # Python itself would keep in mind every name that it was ever asked for.
    plain = encodings.normalize_encoding(name).lower()
    found = aliases.get(plain, plain)
    return found if found in CHARSETS else None


def decode(data: bytes, charset: str = "utf_8") -> str:
    """The text of bytes in one of `CHARSETS`, what is wrong in them replaced. Decoding lets go of
    nothing, in a thread neither, so others have their turn after each piece."""
    if charset in _MARKS and not data.startswith(_MARKS[charset]):
        charset += "_le"
    decoder = codecs.getincrementaldecoder(charset)("replace")
    view, texts = memoryview(data), list[str]()
    for start in range(0, len(data), PIECE_BYTES):
        if start:
            yield_control()
        texts.append(decoder.decode(view[start : start + PIECE_BYTES]))
    texts.append(decoder.decode(b"", True))
    return "".join(texts)
