"""Which tests are run: by lane, and for a change."""

from pathlib import Path

import pytest

from tests.support.affected import affected_tests
from tests.support.lanes import is_left_out

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


def test_a_change_touches_what_imports_it_and_what_stands_in_its_folder() -> None:
    found = affected_tests([Path("accounts/keystring.py")])

    assert Path("tests/accounts/test_keystring.py") in found
    assert Path("tests/routing/selection/test_oracle.py") not in found
