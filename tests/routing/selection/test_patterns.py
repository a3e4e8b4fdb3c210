"""Patterns of model names: what they match, and that none of them can take long."""

import fnmatch
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.selection.patterns import compiled

NAMES = ("acme/small", "acme/small:free", "acme/large", "other/small", "other/x-small-2")
# Names and patterns of few letters meet often.
NAME = st.text("ab/-", max_size=12)
PATTERN = st.text("ab/-*", max_size=10)
SECONDS_MAX = 1.0


def matching(*patterns: str) -> set[str]:
    return compiled(patterns).matching(NAMES)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("acme/small", {"acme/small"}),
        ("ACME/Small", {"acme/small"}),
        ("acme/*", {"acme/small", "acme/small:free", "acme/large"}),
        ("*/small", {"acme/small", "other/small"}),
        ("*", set(NAMES)),
        ("***", set(NAMES)),
        ("*small*", set(NAMES) - {"acme/large"}),
        ("*/*small*2", {"other/x-small-2"}),
        ("acme/*:free", {"acme/small:free"}),
        ("a*e/l*e", {"acme/large"}),
        # The two parts would have to share a letter.
        ("acme/small*l", set()),
        ("acme", set()),
        ("", set()),
        ("acme/small?", set()),
        ("acme/[s]mall", set()),
        ("acme.small", set()),
        ("nobody/*", set()),
    ],
)
def test_a_star_stands_for_anything_and_nothing_else_does(pattern: str, names: set[str]) -> None:
    assert matching(pattern) == names


def test_one_of_several_is_enough() -> None:
    assert matching("acme/large", "*:free", "other/*", "o*r/*") == {
        *("acme/large", "acme/small:free", "other/small", "other/x-small-2")
    }
    assert matching() == set()


@given(st.lists(PATTERN, max_size=4), st.lists(NAME, max_size=6))
@example(["a*a"], ["a"])
@example(["*ab*ab"], ["abab", "ab", "abb"])
def test_it_is_what_the_shell_would_say(patterns: list[str], names: list[str]) -> None:
    shell = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]

    found = compiled(tuple(patterns)).matching(names)

    assert found == {name for name in names if any(each.fullmatch(name) for each in shell)}


CATALOGUE = [f"{'a' * (n % 40)}/{'ab' * (n % 60)}{n}" for n in range(2000)]
NASTY: dict[str, tuple[str, ...]] = {
    "a star between any two letters": ("*a" * 512,),
    "many of them": ("*a" * 512,) * 64,
    "each another one": tuple("*" + "a*" * 30 + str(n) for n in range(1024)),
    "that fail at the very end": tuple("*" + "a*b*" * 14 + f"{n}!" for n in range(1024)),
    "stars only": ("*" * 1024,) * 64,
    "what a regular expression would choke on": ("(a+)+$", "(a|a)*b", "a{1000}{1000}") * 300,
    "that nearly match": tuple(f"*{'a*b*' * 12}{chr(33 + n % 90)}*{n}" for n in range(1024)),
    "literal and long": ("a" * 1024,) * 64,
    "long parts": (("a" * 100 + "*") * 10,) * 60,
}


@pytest.mark.parametrize("patterns", NASTY.values(), ids=NASTY)
def test_no_patterns_of_a_caller_take_long(patterns: tuple[str, ...]) -> None:
    """All of these are within the bounds of a request, and the catalogue is a large one."""
    assert len(patterns) <= 1024
    assert sum(map(len, patterns)) <= 65_536
    begun = time.process_time()

    compiled(patterns).matching(CATALOGUE)

    assert time.process_time() - begun < SECONDS_MAX
