"""Which tests are run: by lane, and for a change."""

import tomllib
from pathlib import Path, PurePath

import pytest

from tests.support.affected import affected_tests
from tests.support.grids import diagonal
from tests.support.lanes import is_dear, is_for_the_nightly, is_left_out

WHOLE_FILE = "pytestmark = [\n    pytest.mark.both,\n    pytest.mark.nightly,\n]\n"
ONE_TEST = "@pytest.mark.both\n@pytest.mark.nightly\ndef test_it() -> None: ...\n"


@pytest.mark.parametrize(
    ("source", "expression", "left_out"),
    [
        (WHOLE_FILE, "", False),
        (WHOLE_FILE, "both and not nightly", True),
        (WHOLE_FILE, "both", False),
        (ONE_TEST, "not nightly", False),
        (ONE_TEST, "both and not timed", False),
        (ONE_TEST, "timed", True),
        (ONE_TEST, "timed or nightly", False),
    ],
)
def test_a_file_is_left_out_where_none_of_its_tests_can_match(
    source: str, expression: str, left_out: bool
) -> None:
    assert is_left_out(source, expression) is left_out


@pytest.mark.parametrize(
    ("file", "expression", "store", "is_left"),
    [
        ("console/test_role_matrix.py", "not thorough and not nightly", "postgres", True),
        ("console/test_role_matrix.py", "not nightly", "postgres", False),
        ("console/test_keys.py", "both and not thorough", "postgres", False),
        ("console/test_keys.py", "both and not nightly", "sqlite", True),
        ("console/test_keys.py", "both", "sqlite", False),
        ("faults/test_m1_last_cent.py", "both and not thorough", "sqlite", False),
    ],
)
def test_dear_files_are_left_to_the_whole_lane(
    file: str, expression: str, store: str, is_left: bool
) -> None:
    assert is_dear(PurePath(file), expression, store) is is_left


def test_what_is_left_to_the_whole_lane_is_there() -> None:
    tests = Path(__file__).parents[1]
    lanes = tomllib.loads((tests / "lanes.toml").read_text(encoding="utf-8"))
    names = [one.partition("::") for each in lanes.values() for one in each]
    # A test that got another name would run in each lane again.
    assert [
        (file, test)
        for file, _, test in names
        if not any(not test or f"def {test}(" in path.read_text() for path in tests.glob(file))
    ] == []


def test_what_may_be_skipped_is_what_ci_runs() -> None:
    """CI counts skips: with a line that it never uses, another test may be skipped unseen."""
    tests = Path(__file__).parents[1]
    lines = (tests / "permitted_skips.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            file, _, test = line.split(" ")[0].removeprefix("tests/").partition("::")
            source = (tests / file).read_text(encoding="utf-8")
            assert f"def {test}(" in source, line
            assert not is_left_out(source, "not nightly and not timed"), line
            assert not is_for_the_nightly(PurePath(file), test), line


def test_a_change_touches_what_imports_it_and_what_stands_in_its_folder() -> None:
    found = affected_tests([Path("accounts/keystring.py")])

    assert Path("tests/accounts/test_keycache.py") in found
    assert Path("tests/routing/selection/test_oracle.py") not in found


def test_the_diagonal_has_each_value_and_each_two_of_a_pair() -> None:
    cells = [{"a": a, "b": b, "c": c} for a in range(3) for b in range(3) for c in range(5)]

    kept = [cells[place] for place in diagonal(cells, name="one")]

    assert {axis: {cell[axis] for cell in kept} for axis in "abc"} == {
        "a": {0, 1, 2},
        "b": {0, 1, 2},
        "c": {0, 1, 2, 3, 4},
    }
    assert len(kept) == 5
    assert diagonal(cells, name="one") != diagonal(cells, name="other")
    paired = [cells[place] for place in diagonal(cells, [("a", "b")])]
    assert len({(cell["a"], cell["b"]) for cell in paired}) == 9
