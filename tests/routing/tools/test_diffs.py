"""Diffs without numbers, as models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.tools.diffs import DiffFailed, created, patched

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"


def test_a_place_is_found_by_its_lines() -> None:
    assert patched("a\nb\nc\n", " a\n-b\n+B\n+BB\n c") == "a\nB\nBB\nc\n"


def test_an_anchor_says_which_of_equal_lines() -> None:
    diff = "@@ def two():\n-    return 1\n+    return 2"

    assert patched(TEXT, diff) == TEXT.replace("return 1\n", "return 2\n").replace("2", "1", 1)


def test_places_follow_one_another() -> None:
    diff = "@@ def one():\n-    return 1\n+    return 3\n@@\n-    return 1\n+    return 4"

    assert patched(TEXT, diff) == "def one():\n    return 3\n\n\ndef two():\n    return 4\n"


def test_the_end_of_a_file_is_a_place() -> None:
    assert patched("x\nx\n", "-x\n+y\n*** End of File") == "x\ny\n"
    assert patched("x\n", "+y") == "x\ny\n"


def test_blanks_at_the_ends_do_not_matter_where_nothing_fits_better() -> None:
    assert patched("a  \nb\n", " a\n-b\n+c") == "a\nc\n"
    assert patched("  a\n", "-a\n+b") == "b\n"


def test_line_ends_stay() -> None:
    assert patched("a\r\nb\r\n", "-b\n+c") == "a\r\nc\r\n"
    assert patched("a", "-a\n+b") == "b"


@pytest.mark.parametrize(
    ("diff", "told"),
    [
        ("", "The diff changes nothing"),
        ("@@ x", "The diff changes nothing"),
        ("-nowhere\n+x", "The file has no such lines: 'nowhere'"),
        ("@@ nowhere\n+x", "The file has no such line: 'nowhere'"),
        ("what?", "A line of a diff begins with a space, - or +: 'what?'"),
    ],
)
def test_what_does_not_fit_is_told(diff: str, told: str) -> None:
    with pytest.raises(DiffFailed) as failure:
        patched(TEXT, diff)

    assert str(failure.value) == told


def test_a_new_file_has_new_lines_alone() -> None:
    assert created("+a\n+\n+b") == "a\n\nb\n"
    assert created("") == ""
    with pytest.raises(DiffFailed):
        created(" a")


LINES = st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=3))


@given(LINES, LINES, LINES, LINES)
def test_a_whole_diff_makes_the_other_text(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    diff = [f" {line}" for line in head] + [f"-{line}" for line in old]
    diff += [f"+{line}" for line in new] + [f" {line}" for line in tail]
    before, after = ("\n".join([*head, *middle, *tail, ""]) for middle in (old, new))

    if diff:
        assert patched(before, "\n".join(diff)) == after
