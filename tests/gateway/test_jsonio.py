"""JSON in and out, row by row; its depth and fullness are the same counted in pieces."""

import itertools
import json
import re
import time
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import jsonio
from gateway.http.errors import JsonTooDeep, MalformedJson
from gateway.http.jsonio import (
    DEPTH_MAX,
    dumps,
    format_usd,
    has_digits_in_a_row,
    is_deeper_than,
    is_fuller_than,
    loads,
    usd,
)

READ: list[tuple[bytes, Any]] = [
    (b"0", 0),
    (b"-0", 0),
    (b"9223372036854775807", 2**63 - 1),
    (b"9223372036854775808", 2**63),
    (b"18446744073709551615", 2**64 - 1),
    (b"18446744073709551616", 2**64),
    (b"-9223372036854775809", -(2**63) - 1),
    (b"1" + b"0" * 30, 10**30),
    (b"1" + b"0" * 308, 10**308),
    (b'{"a":[12345678901234567890123]}', {"a": [12345678901234567890123]}),
    (b"1e308", 1e308),
    (b"1e-999", 0.0),
    (b"5.0", 5.0),
    (b"0.1", 0.1),
    (b"1234567890123456789012.5", 1234567890123456789012.5),
    (b'"12345678901234567890123"', "12345678901234567890123"),
    (b'{"a":1,"a":2}', {"a": 2}),
    (b'{"a":{"b":1},"a":[]}', {"a": []}),
    (b'{"a":1,"a":12345678901234567890123}', {"a": 12345678901234567890123}),
    (b'{"a":12345678901234567890123,"a":1}', {"a": 1}),
    (b" \t\r\n[ ]\n", []),
    ('"é漢👩‍🚀"'.encode(), "é漢👩‍🚀"),
    (rb'"\ud83d\ude00"', "😀"),
    (rb'"\\u0000"', "\\u0000"),
    (rb'"\\\\u0000"', "\\\\u0000"),
    (rb'["\\","u0000"]', ["\\", "u0000"]),
    (rb'"\u0001"', "\x01"),
    (b"true", True),
    (b"null", None),
]
NOT_JSON: list[bytes] = [
    *(b"", b" ", b"{", b"[1", b"[1,]", b'{"a":1,}', b"{'a':1}", b"{a:1}", b"[1] [2]", b"[1]x"),
    *(b"// comment\n1", b"01", b"+1", b".5", b"1.", b"0x10", b"1_000", b"nan", b'"open'),
]
OUT_OF_RANGE: list[bytes] = [
    *(b"1e999", b"-1e999", b"[1e400]", b"1" + b"0" * 309, b"1" * 5000, b"-" + b"1" * 5000),
    *(b"NaN", b"Infinity", b"-Infinity", b'[NaN,"12345678901234567890"]'),
]
NOT_TEXT: list[bytes] = [
    *(b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b'"\xff"', b'"\xc3"'),
    *('{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32")),
    b'"\xed\xa0\x80"',  # A surrogate encoded as if it were a character.
    b'"\xc0\x80"',  # An overlong NUL.
    *(rb'"\ud800"', rb'"\udc00\ud800"', rb'{"\ud800":1}'),
    rb'["\ud800","12345678901234567890123"]',
    *(b'"\x00"', b'{"a":1}\x00', b'"\n"', rb'"\u0000"', rb'"a\u0000b"', rb'"\u00000"'),
    *(rb'"\\\u0000"', rb'"\\\\\u0000"', rb'{"\u0000":1}', rb'{"a":[{"b":"\u0000"}]}'),
    *(rb'["\u0000",12345678901234567890123]', rb'"\x41"', rb'"\u12"'),
]


@pytest.mark.parametrize(
    ("raw", "value"), [row for row in READ if b"00000" not in row[0]], ids=repr
)
def test_what_is_read(raw: bytes, value: Any) -> None:
    found = loads(raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("raw", NOT_JSON + OUT_OF_RANGE + NOT_TEXT, ids=lambda raw: repr(raw[:24]))
def test_what_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedJson):
        loads(raw)


@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")]
)
def test_128_levels_are_read_and_129_are_not(opening: bytes, closing: bytes) -> None:
    levels = DEPTH_MAX // len(closing)
    assert loads(opening * levels + b"1" + closing * levels) is not None
    with pytest.raises(JsonTooDeep, match="128"):
        loads(b"[" + opening * levels + b"1" + closing * levels + b"]")


BRACKETS_IN_STRINGS = [
    b'"' + b"[" * 1000 + b'"',
    rb'["\"' + b"[{" * 500 + rb'\"", 1]',
    rb'["\\", "' + b"[" * 500 + rb'\\"]',
    rb'{"' + b"{" * 500 + rb'\\\"": "]"}',
    b"[" + b'"[",' * 500 + b"[]]",
    '["é漢\\u005b'.encode() + b"[" * 500 + b'"]',
]


def test_brackets_inside_strings_do_not_nest_and_hide_no_real_depth() -> None:
    for raw in BRACKETS_IN_STRINGS:
        assert loads(raw) == orjson.loads(raw)
    for inside in (rb'"]]]"', rb'"\"]"', rb'"\\"', rb'"\\\"]"'):
        with pytest.raises(MalformedJson):
            loads(b"[" + inside + b",[" * 128 + b"]" * 129)


def test_a_hundred_thousand_brackets_are_refused_at_once() -> None:
    many = 100_000
    deep = (
        b"[" * many,
        b"[" * (many // 2) + b"]" * (many // 2),
        b'{"a":' * many,
        b'["' + b"[" * many,
    )
    began = time.process_time()
    for raw in deep:
        with pytest.raises(MalformedJson):
            loads(raw)
    assert time.process_time() - began < 0.4
    # A wide document is not taken for a deep one.
    assert len(loads(b"[" + b",".join([b'{"a":[]}'] * 50_000) + b"]")) == 50_000


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
NUMBERS = st.integers() | st.integers(-(10**300), 10**300)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_is_read_back_the_same(value: Any) -> None:
    written = dumps(value)
    assert loads(written) == value
    assert json.loads(written) == value
    if not isinstance(value, float):
        assert loads(json.dumps(value).encode()) == value


@given(st.binary(max_size=60))
def test_whatever_comes_it_is_read_or_refused(raw: bytes) -> None:
    try:
        loads(raw)
    except MalformedJson:
        return


def test_integers_of_any_length_are_written_exactly() -> None:
    for number in (2**63, -(2**63) - 1, 2**64, 10**100, -(10**100)):
        assert dumps({"n": [number]}) == f'{{"n":[{number}]}}'.encode()


def test_usd_is_written_plainly() -> None:
    for nano, text in (
        (0, "0"),
        (1, "0.000000001"),
        (10, "0.00000001"),
        (1_200, "0.0000012"),
        (100_500_000_000, "100.5"),
        (25_750_000_000, "25.75"),
        (10**9, "1"),
        (10**18, "1000000000"),
        (-1, "-0.000000001"),
        (-1_500_000_000, "-1.5"),
    ):
        assert format_usd(nano) == text
        assert dumps({"cost": usd(nano)}) == f'{{"cost":{text}}}'.encode()


@given(st.integers(-(2**63), 2**63 - 1))
def test_usd_is_exact_has_nine_places_at_most_and_never_an_exponent(nano: int) -> None:
    text = format_usd(nano)
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d{0,8}[1-9])?", text)
    assert Decimal(text) * 10**9 == nano
    assert orjson.loads(dumps([usd(nano)])) == [float(text)]


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
        patch.setattr(jsonio, "_PIECE_BYTES", piece_bytes)

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
        patch.setattr(jsonio, "_PIECE_BYTES", piece_bytes)
        found = has_digits_in_a_row(count, raw)
    assert found == bool(re.search(rb"\d{%d}" % count, raw))


def test_a_long_run_of_backslashes_costs_no_more_than_its_length() -> None:
    raw = b'["' + b"\\\\" * 1_000_000 + b'",' + b"[" * 200
    assert is_deeper_than(128, raw)
    assert len(list(itertools.islice(jsonio._yield_structure(raw, jsonio.do_nothing), 100))) < 50
