"""The security checklist names tests that are there."""

import re

import pytest

from tests.support.manage import PROJECT

CHECKLIST = PROJECT / "docs" / "reference" / "asvs.md"
NO_TEST = "\N{EN DASH}"
_NAMED = re.compile(r"`([\w./]+)(?:::(\w+))?`")


def list_rows() -> list[tuple[str, str]]:
    """Subject and where it is tested, of each row."""
    lines = CHECKLIST.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert all(len(row) == 3 for row in rows)
    return [(subject, tested) for subject, _, tested in rows[1:]]


@pytest.mark.parametrize(("subject", "tested"), list_rows())
def test_each_subject_has_tests_that_are_there(subject: str, tested: str) -> None:
    named = _NAMED.findall(tested)
    assert named or tested == NO_TEST, f"{subject}: no test, and no dash"
    for file, name in named:
        path = PROJECT / file if file.startswith(".ci/") else PROJECT / "tests" / file
        assert path.is_file(), f"{subject}: there is no {file}"
        assert name or file.startswith(".ci/"), f"{subject}: which test of {file}?"
        assert not name or re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), (
            f"{subject}: there is no {name} in {file}"
        )
