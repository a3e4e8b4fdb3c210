"""Diffs without numbers, as models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.tools.sandbox import diffs
from routing.tools.sandbox.diffs import DiffFailed, create_text, find_places, patch_text

TEXT = "def one():\n    return 1\n\n\ndef two():\n    return 1\n"


def test_a_place_is_found_by_its_lines() -> None:
    assert patch_text("a\nb\nc\n", " a\n-b\n+B\n+BB\n c") == "a\nB\nBB\nc\n"


def test_an_anchor_says_which_of_equal_lines() -> None:
    diff = "@@ def two():\n-    return 1\n+    return 2"
    assert patch_text(TEXT, diff) == TEXT.replace("return 1\n", "return 2\n").replace("2", "1", 1)


def test_places_follow_one_another() -> None:
    diff = "@@ def one():\n-    return 1\n+    return 3\n@@\n-    return 1\n+    return 4"
    assert patch_text(TEXT, diff) == "def one():\n    return 3\n\n\ndef two():\n    return 4\n"


def test_the_end_of_a_file_is_a_place() -> None:
    assert patch_text("x\nx\n", "-x\n+y\n*** End of File") == "x\ny\n"
    assert patch_text("x\n", "+y") == "x\ny\n"


def test_blanks_at_the_ends_do_not_matter_where_nothing_fits_better() -> None:
    assert patch_text("a  \nb\n", " a\n-b\n+c") == "a\nc\n"
    assert patch_text("  a\n", "-a\n+b") == "b\n"


def test_line_ends_stay() -> None:
    assert patch_text("a\r\nb\r\n", "-b\n+c") == "a\r\nc\r\n"
    assert patch_text("a", "-a\n+b") == "b"


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
        patch_text(TEXT, diff)
    assert str(failure.value) == told


def test_a_new_file_has_new_lines_alone() -> None:
    assert create_text("+a\n+\n+b") == "a\n\nb\n"
    assert create_text("") == ""
    with pytest.raises(DiffFailed):
        create_text(" a")


LINES = st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=3))


@given(LINES, LINES, LINES, LINES)
def test_a_whole_diff_makes_the_other_text(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    diff = [f" {line}" for line in head] + [f"-{line}" for line in old]
    diff += [f"+{line}" for line in new] + [f" {line}" for line in tail]
    before, after = ("\n".join([*head, *middle, *tail, ""]) for middle in (old, new))
    if diff:
        assert patch_text(before, "\n".join(diff)) == after


@given(
    st.lists(st.sampled_from("ab"), max_size=12),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=5),
    st.integers(0, 13),
)
def test_every_place_is_found(lines: list[str], old: list[str], at: int) -> None:
    everywhere = range(at, len(lines) - len(old) + 1)
    assert list(find_places(lines, old, at)) == [
        n for n in everywhere if lines[n:][: len(old)] == old
    ]


class Line(str):
    """One that counts how often such lines were looked at."""

    __slots__ = ()
    looked_at = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Line.looked_at += 1
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def test_lines_that_are_all_alike_are_looked_at_a_few_times() -> None:
    Line.looked_at = 0
    assert list(find_places([Line("x")] * 2000, [Line("x")] * 500 + [Line("y")], 0)) == []
    assert Line.looked_at <= 4 * 2500


def test_a_diff_of_endless_places_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is found only where blanks do not matter, after the whole file was read."""
    monkeypatch.setattr(diffs, "LOOKED_AT_MAX", 10_000)
    file = "x \n" * 1000
    assert patch_text(file, "@@\n-x\n+y\n" * 5).startswith("y\n" * 5 + "x \n")
    with pytest.raises(DiffFailed, match="too many places"):
        patch_text(file, "@@\n-x\n+y\n" * 20)


def test_a_file_is_made_alike_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()

    def count_line(line: str) -> str:
        made.append(line)
        return line

    monkeypatch.setattr(diffs, "_LIKE", (count_line,))
    patch_text("x\n" * 100, "@@\n-x\n+y\n" * 20)
    assert len(made) == 101 + 20
