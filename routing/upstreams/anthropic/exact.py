"""JSON of any content and integers of any length: a tool's input is passed on as it was written."""

from typing import Any, Final

import orjson
import pydantic_core

from gateway.http.jsonio import DEPTH_MAX
from gateway.http.structure import has_digits_in_a_row, is_deeper_than

# The fewest digits of an integer past 64 bits, which the first parser takes for a float.
_LONG_DIGITS: Final = 19


def exact_json(raw: bytes) -> Any:
    """The value. Raises `ValueError` for what is no JSON or too deep to be written again."""
    return exactly(orjson.loads(raw), raw)


def exactly(value: Any, raw: bytes) -> Any:
    """What `raw` was parsed to, with its integers as they are written. Raises `ValueError` where it
    is too deep to be written again."""
    if is_deeper_than(DEPTH_MAX, raw):
        raise ValueError
    if has_digits_in_a_row(_LONG_DIGITS, raw):
        return pydantic_core.from_json(raw, allow_inf_nan=False)
    return value
