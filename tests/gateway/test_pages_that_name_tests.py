"""Pages whose tables say where each row is tested name tests that are there."""

import re

import pytest

from tests.support.manage import PROJECT

PAGES = ("reference/asvs.md", "explanation/failures.md")
NO_TEST = "\N{EN DASH}"
_NAMED = re.compile(r"`([\w./]+)(?:::(\w+))?`")


def list_rows() -> list[tuple[str, str]]:
    """What each row is about and, in its last cell, where it is tested."""
    rows = []
    for page in PAGES:
        lines = (PROJECT / "docs" / page).read_text(encoding="utf-8").splitlines()
        cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        assert len({len(row) for row in cells}) == 1, page
        rows += [(row[0], row[-1]) for row in cells[1:]]
    return rows


@pytest.mark.parametrize(("subject", "tested"), list_rows())
def test_each_row_has_tests_that_are_there(subject: str, tested: str) -> None:
    named = _NAMED.findall(tested)
    assert named or tested == NO_TEST, f"{subject}: no test, and no dash"
    for file, name in named:
        path = PROJECT / file if file.startswith(".ci/") else PROJECT / "tests" / file
        assert path.is_file(), f"{subject}: there is no {file}"
        assert name or file.startswith(".ci/"), f"{subject}: which test of {file}?"
        assert not name or re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), (
            f"{subject}: there is no {name} in {file}"
        )
