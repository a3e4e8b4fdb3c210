"""What a caller may call its application."""

import pytest

from routing.serving.app_facts import categories


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("", ()),
        ("cli-agent", ("cli-agent",)),
        (" cli-agent , ide2 ", ("cli-agent", "ide2")),
        ("one,two,three", ("one", "two")),
        ("Upper,not ok,under_score,-a,a-,a--b,,fine", ("fine",)),
        ("a" * 31 + "," + "b" * 30, ("b" * 30,)),
        ("é,٣,ok\n", ("ok",)),
    ],
)
def test_the_first_two_lower_case_hyphenated_words_are_kept(
    header: str, kept: tuple[str, ...]
) -> None:
    assert categories(header) == kept
