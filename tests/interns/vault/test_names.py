"""Names and hosts, as they are taken and compared."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interns.vault.secrets import canonicalize_host, is_secret_name

_WORD = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=9)
_LABEL = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", fullmatch=True)


@given(
    st.text(string.printable + "äß\0", max_size=300)
    | st.lists(_WORD, max_size=9).map(lambda words: "_".join(["a", *words]))
)
def test_a_name_is_lowercase_words_with_single_underscores(text: str) -> None:
    good = (
        1 <= len(text) <= 255
        and set(text) <= {*string.ascii_lowercase, *string.digits, "_"}
        and text[0] in string.ascii_lowercase
        and not text.endswith("_")
        and "__" not in text
    )
    assert is_secret_name(text) is good


@given(st.lists(_LABEL, min_size=1, max_size=5), st.booleans())
def test_a_host_is_lowercased_and_loses_one_last_dot(labels: list[str], dotted: bool) -> None:
    host = ".".join(labels)
    expected = host.lower() if len(host) <= 253 else None
    assert canonicalize_host(host + "." * dotted) == expected


@given(st.text(max_size=60))
def test_what_comes_out_goes_in_again(text: str) -> None:
    host = canonicalize_host(text)
    if host is not None:
        assert canonicalize_host(host) == host
        assert re.fullmatch(r"[a-z0-9.-]{1,253}", host)
        assert not set("/:*@ ") & set(text)


@pytest.mark.parametrize(
    "host",
    ["x..y", "x.y/z", "-x.y", "x-.y", "x y", "x.y..", f"{'a' * 64}.y", ".".join(["a" * 63] * 4)],
)
def test_what_is_no_host(host: str) -> None:
    assert canonicalize_host(host) is None
