"""Matches in order and apart, within their windows and their time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.patterns import Compiled, as_one
from routing.guarding import scanning
from routing.guarding.scanning import CompiledPatterns, Deadline, TooSlow, matches

TEXTS = st.text(st.sampled_from("ab1 é日\n"), max_size=60)
PATTERNS = st.sampled_from(["a+", "b", "(?:ab)+1", "é", "[日é]+", "1*", r"\bb", "a.b", "$", ""])


@given(TEXTS, PATTERNS)
def test_they_are_those_of_another_engine(text: str, pattern: str) -> None:
    data = text.encode()
    expected = [
        (len(text[: each.start()].encode()), len(text[: each.end()].encode()))
        for each in re.finditer(pattern, text, re.ASCII)
        if each.group()
    ]

    assert list(matches(Compiled(pattern), data, Deadline())) == expected


def test_short_matches_are_found_across_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_STEPS_MAX", 0)
    monkeypatch.setattr(scanning, "_WINDOW_BYTES_MIN", 64)
    monkeypatch.setattr(scanning, "_OVERLAP_BYTES", 16)
    text = "".join(f"é{number} secret-{number % 10}! " for number in range(200))
    pattern = Compiled("secret-[0-9]")

    found = [text.encode()[start:end] for start, end in matches(pattern, text.encode(), Deadline())]

    assert found == [f"secret-{number % 10}".encode() for number in range(200)]


def test_the_time_of_a_request_ends() -> None:
    with pytest.raises(TooSlow):
        list(matches(Compiled("a"), b"a" * 10, Deadline(-1)))


def test_compiled_patterns_take_no_more_than_they_may() -> None:
    kept = CompiledPatterns(3 << 20)
    made = {str(number): Compiled(str(number)) for number in range(5)}

    for name, pattern in made.items():
        kept.put(name, pattern)
        kept.get("0")

    assert len(kept) == 3
    assert kept.get("0") is made["0"]
    assert kept.get("4") is made["4"]
    assert kept.get("2") is None


OWN = st.sampled_from(
    ["a+", "(?i)B", "^b", "1$", "(?s)a.b", "(?i:é)b|1", r"[)]", r"\(", r"\Qa\E", "日{2}", "[a-b]1"]
)


@given(st.lists(OWN, min_size=2, max_size=4), TEXTS)
def test_several_patterns_are_found_where_their_one_is(patterns: list[str], text: str) -> None:
    data, made = text.encode(), [Compiled(pattern) for pattern in patterns]
    union = as_one(made)

    assert (union is None) == any("Q" in pattern for pattern in patterns)
    if union is not None:
        found = Compiled(union).find(data, 0, len(data)) is not None
        assert found == any(one.find(data, 0, len(data)) is not None for one in made)


@pytest.mark.parametrize("large", [r"\Qa)|(?:b", "a" * 9_000, "(?:abc){700}"])
def test_what_is_large_or_quotes_to_its_end_stays_apart(large: str) -> None:
    assert as_one([Compiled("b"), Compiled(large)]) is None
