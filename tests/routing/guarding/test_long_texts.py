"""Long texts in pieces are what they are in one."""

import base64
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.guarding import long_texts
from routing.guarding.long_texts import append, closed, decoded, encoded, opened

texts = st.text(max_size=60)


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    """So that a few characters are a long text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_texts, "_PIECE", 8)
        patch.setattr(long_texts, "_PIECE_OF_BASE64", 6)
        yield


@given(st.text(st.characters(codec=None), max_size=60))
def test_there_and_back(text: str) -> None:
    assert encoded(text) == text.encode("utf-8", "surrogatepass")
    assert decoded(bytearray(encoded(text))) == text


@given(texts, texts)
def test_base64(head: str, text: str) -> None:
    made = closed(head, text)

    assert made == head + base64.b64encode(text.encode()).decode()
    assert opened(made, len(head)) == text


@given(texts, st.integers(1, 30), st.sampled_from(("\n", "\r\n", " ")))
def test_base64_in_lines(text: str, chars: int, end: str) -> None:
    data = base64.b64encode(text.encode()).decode()
    lines = [data[at : at + chars] for at in range(0, len(data), chars)]

    assert opened(end.join(lines), 0) == text


@pytest.mark.parametrize("said", ["a", "aaaaaaaaaaaaaaaaa", "é", "////", "_w==" * 5 + "é"])
def test_what_is_no_text_in_base64(said: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        opened(said, 0)


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_part_behind_what_is_there(data: bytes, start: int, end: int) -> None:
    out = bytearray(b"there")
    append(out, data, start, min(end, len(data)))
    assert out == b"there" + data[start : min(end, len(data))]
