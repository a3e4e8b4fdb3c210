"""Texts in charsets that strangers name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.fetching import charsets
from routing.fetching.charsets import CHARSETS, PIECE_BYTES, decode, find_charset


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("UTF-8", "utf_8"),
        ("ISO-8859-1", "latin_1"),
        ("iso-8859-15", "iso8859_15"),
        ("Shift_JIS", "shift_jis"),
        *[("gb2312", "gb2312"), ("koi8-r", "koi8_r")],
        *[(name, None) for name in ("punycode", "idna", "utf-7", "unicode-escape", "base64")],
        *[(name, None) for name in ("raw_unicode_escape", "zip", "undefined", "nonsense", "")],
        ("utf-8\0", "utf_8"),
    ],
)
def test_charsets_are_those_of_texts(name: str, known: str | None) -> None:
    assert find_charset(name) == known


def test_what_is_not_known_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("codecs.lookup", asked.append)
    assert find_charset("nobody-has-this-one") is None
    assert asked == []


def test_every_charset_turns_any_bytes_into_text() -> None:
    for charset in CHARSETS:
        assert isinstance(decode(bytes(range(1, 256)), charset), str), charset
        assert decode(b"", charset) == ""


def in_pieces(data: bytes, charset: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charsets, "PIECE_BYTES", 3)
        return decode(data, charset)


@given(
    st.text(max_size=200), st.sampled_from(["utf_8", "utf_16", "utf_16_be", "gb18030"]), st.binary()
)
def test_pieces_are_the_whole_and_wrong_ones_are_replaced_alike(
    text: str, charset: str, wrong: bytes
) -> None:
    data = text.encode(charset, "replace")
    assert in_pieces(data, charset) == data.decode(charset, "replace")
    assert in_pieces(wrong, "utf_8") == wrong.decode("utf-8", "replace")


def test_without_a_mark_it_is_little_endian() -> None:
    assert decode("Grüße".encode("utf-16-le"), "utf_16") == "Grüße"
    assert decode("Grüße".encode("utf-32-le"), "utf_32") == "Grüße"


def test_others_have_their_turn_after_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[Any] = []
    monkeypatch.setattr(charsets, "yield_control", lambda: turns.append(None))
    decode(b"x" * PIECE_BYTES)
    assert len(turns) == 0
    decode(b"x" * (4 * PIECE_BYTES + 1))
    assert len(turns) == 4
