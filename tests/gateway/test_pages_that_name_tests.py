"""Pages whose tables say where each row is tested name tests that are there."""

import re

from tests.support.manage import PROJECT

PAGES = ("reference/asvs.md", "explanation/failures.md")
NO_TEST = "\N{EN DASH}"
_TABLE = re.compile(r"^(\| .*\n)\|-.*\n((?:\| .*\n)+)", re.MULTILINE)
_NAMED = re.compile(r"`([\w./]+)(?:::(\w+))?`")


def list_rows() -> list[tuple[str, str]]:
    """What each row is about and, in its last cell, where it is tested."""
    rows = []
    for page in PAGES:
        text = (PROJECT / "docs" / page).read_text(encoding="utf-8")
        for head, body in _TABLE.findall(text):
            cells = [line.strip("| ").split(" | ") for line in (head + body).splitlines()]
            assert len({len(row) for row in cells}) == 1, page
            if cells[0][-1] == "Tested in":
                rows += [(row[0], row[-1]) for row in cells[1:]]
    return rows


# How many requirements of levels 1 and 2 each section of the standard has; those of level 3 come
# last in each.
ASVS = {
    "V1": (2, 9, 11, 3, 2),
    "V2": (3, 3, 4, 1),
    "V3": (0, 2, 4, 6, 5, 0, 2),
    "V4": (3, 1, 2, 4),
    "V5": (1, 3, 2, 3),
    "V6": (3, 12, 4, 4, 5, 3, 0, 4),
    "V7": (3, 4, 2, 5, 2, 2),
    "V8": (2, 3, 1, 1),
    "V9": (3, 4),
    "V10": (2, 2, 4, 11, 5, 2, 3),
    "V11": (2, 3, 3, 4, 1, 1),
    "V12": (3, 2, 4),
    "V13": (1, 5, 2, 5),
    "V14": (2, 4, 3),
    "V15": (3, 3, 7),
    "V16": (1, 5, 4, 3, 3),
    "V17": (1, 4, 2),
}


def test_the_security_checklist_has_each_requirement_once() -> None:
    named = [each for subject, _ in list_rows() for each in re.findall(r"V\d+\.\d+\.\d+", subject)]

    assert sorted(named) == sorted(
        f"{chapter}.{section}.{number}"
        for chapter, counts in ASVS.items()
        for section, count in enumerate(counts, start=1)
        for number in range(1, count + 1)
    )


def test_each_row_has_tests_that_are_there() -> None:
    for subject, tested in list_rows():
        named = _NAMED.findall(tested)
        assert named or tested == NO_TEST, f"{subject}: no test, and no dash"
        for file, name in named:
            path = PROJECT / file if file.startswith(".ci/") else PROJECT / "tests" / file
            assert path.is_file(), f"{subject}: there is no {file}"
            assert name or file.startswith(".ci/"), f"{subject}: which test of {file}?"
            assert not name or f"def {name}(" in path.read_text(), f"{subject}: no {name} in {file}"
