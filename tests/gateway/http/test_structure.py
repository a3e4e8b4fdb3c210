"""Depth and fullness are the same counted in pieces, wherever the pieces end."""

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import structure
from gateway.http.structure import has_digits_in_a_row, is_deeper_than, is_fuller_than

TEXTS = st.text(alphabet='\\"[]{},:a1é', max_size=12)
DOCUMENTS = st.recursive(
    TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def marks_of(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(marks_of, value.values())) + len(value) + max(1, len(value))
    if isinstance(value, list):
        return sum(map(marks_of, value)) + max(1, len(value))
    return 0


@given(document=DOCUMENTS, piece_bytes=st.integers(1, 9), ascii_only=st.booleans())
def test_pieces_make_no_difference(document: Any, piece_bytes: int, ascii_only: bool) -> None:
    raw = json.dumps(document, ensure_ascii=ascii_only).encode()
    depth, marks = depth_of(document), marks_of(document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "_PIECE_BYTES", piece_bytes)

        assert not is_deeper_than(depth, raw)
        assert depth == 0 or is_deeper_than(depth - 1, raw)
        assert not is_fuller_than(marks, raw)
        assert marks == 0 or is_fuller_than(marks - 1, raw)


@given(
    raw=st.text(alphabet="01x", max_size=40).map(str.encode),
    piece_bytes=st.integers(1, 9),
    count=st.integers(1, 6),
)
def test_digits_in_a_row_are_found_across_pieces(raw: bytes, piece_bytes: int, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "_PIECE_BYTES", piece_bytes)

        found = has_digits_in_a_row(count, raw)

    assert found == bool(re.search(rb"\d{%d}" % count, raw))


def test_a_long_run_of_backslashes_costs_no_more_than_its_length() -> None:
    raw = b'["' + b"\\\\" * 1_000_000 + b'",' + b"[" * 200

    assert is_deeper_than(128, raw)
    assert len(list(itertools.islice(structure._whole_escapes(raw), 100))) < 50
