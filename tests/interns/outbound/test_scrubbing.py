"""Secrets are found in every spelling, wherever an answer is cut, and nothing else is changed."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interns.outbound import scrubbing
from interns.outbound.scrubbing import Scrubber, build_patterns


def scrub(data: bytes, values: dict[str, str]) -> bytes:
    return scrubbing.scrub_bytes(data, build_patterns(values))


VALUE = 'a/ß"b+c&<d> e'
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=1, max_size=12)

_FEW = st.binary(max_size=4)


@pytest.mark.parametrize(
    "spelled",
    [
        VALUE.encode(),
        VALUE.encode("latin-1"),
        json.dumps(VALUE).encode(),
        json.dumps(VALUE, ensure_ascii=False).encode(),
        json.dumps(VALUE).replace("/", "\\/").encode(),
        quote(VALUE).encode(),
        quote(VALUE, safe="").encode(),
        quote(VALUE, safe="").lower().encode(),
        quote_plus(VALUE).encode(),
        html.escape(VALUE).encode(),
        html.escape(VALUE, quote=False).encode(),
        VALUE.encode().hex().encode(),
        VALUE.encode().hex().upper().encode(),
        VALUE.encode("utf-16-le"),
    ],
)
def test_every_spelling_is_replaced_by_the_name(spelled: bytes) -> None:
    told = scrub(b"before " + spelled + b" after", {"token": VALUE})
    assert told in (b"before [secret:token] after", b'before "[secret:token]" after')


@given(_FEW, st.text("abcdefgh/+", min_size=12, max_size=40), _FEW)
def test_base64_shows_no_more_than_its_ends(before: bytes, value: str, after: bytes) -> None:
    """Of the value at most two characters of four can be told from the text around it."""
    encoded = base64.b64encode(before + value.encode() + after)
    told = scrub(encoded, {"t": value})
    assert b"[secret:t]" in told
    left = told.replace(b"[secret:t]", b"")
    assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 4


@given(
    st.lists(_TEXT, min_size=1, max_size=3),
    st.lists(st.tuples(_TEXT, st.integers(0, 2)), max_size=6),
    st.lists(st.integers(1, 7), max_size=40),
    st.integers(1, 64),
)
def test_pieces_make_no_difference(
    values: list[str], parts: list[tuple[str, int]], cuts: list[int], step: int
) -> None:
    secrets = {f"s{number}": value for number, value in enumerate(values)}
    data = "".join(text + values[at % len(values)] for text, at in parts).encode()
    scrubber = Scrubber(build_patterns(secrets), step_bytes=step)
    out, at = [], 0
    for cut in cuts:
        out.append(scrubber.feed_bytes(data[at : at + cut]))
        at += cut
    out.append(scrubber.feed_bytes(data[at:]))
    out.append(scrubber.finish())
    told = b"".join(out)
    assert told == scrub(data, secrets)
    for value in values:
        if not any(value in f"[secret:s{number}]" for number in range(3)):
            assert value.encode() not in told.replace(b"[secret:s", b"\0[").replace(b"]", b"\0")


@given(st.binary(max_size=200))
def test_without_secrets_nothing_changes(data: bytes) -> None:
    assert scrub(data, {}) == data
    assert scrub(data, {"t": "a value that is nowhere in there"}) == data


def test_values_that_overlap_leave_nothing_of_either() -> None:
    told = scrub(b"xabcdefx", {"one": "abcd", "two": "cdef"})
    assert told == b"x[secret:one]x"
    assert scrub(b"aaaaa", {"a": "aa"}) == b"[secret:a]"
    assert scrubbing.scrub_text("ß", build_patterns({"short": "ß"})) == "[secret:short]"


def test_what_is_held_back_is_never_half_a_secret() -> None:
    value = "0123456789" * 10
    scrubber = Scrubber(build_patterns({"t": value}), step_bytes=1)
    data = b"." * 5000 + value[:70].encode()
    told = b"".join(scrubber.feed_bytes(data[at : at + 1]) for at in range(len(data)))
    assert set(told + scrubber.cut()) == {ord(".")}
    assert len(told) > 4000
    # Nor is a whole one that comes where another may begin.
    scrubber = Scrubber(build_patterns({"t": value, "u": "abc"}), step_bytes=1)
    assert set(scrubber.feed_bytes(b"." * 5000 + b"abc") + scrubber.cut()) == {ord(".")}


def test_a_value_with_a_last_line_break_is_known_without_it() -> None:
    assert scrub(b"token: abc.", {"t": "abc\n"}) == b"token: [secret:t]."
