"""Every conformance row of finished work has a test that bears its number.

`i06` is row 6 of the inference reference's section 12, `m40` row 40 of the management reference's
section 19. Whoever finishes a piece of work adds its rows here, and then cannot forget one.
"""

import re
from pathlib import Path

FINISHED = {
    "chat over one wire kind: requests": "i1-16 i23-27 i57-58",
    "chat over one wire kind: streams and breaks": "i49 i51-54 i59",
    "which endpoint a request goes to": "i28-42 i44 i50",
    "who was considered, tried and chosen": "i46-48",
    "three formats at any upstream": "i61-70 i84",
    "money on the way in": "i55 m42-43",
    "the catalogue as callers read it": "i82-83 m68-69",
    "keys, credits, generations": "m1-5 m33-40 m44 m70",
    "manners of every path": "m82-84",
    "workspaces": "i18-19 m6-16 m20",
    "presets": "i60 m21-32",
    "rate limits": "m81",
    "credentials of a team's own": "m77",
    "guardrails": "m74-76",
    "history": "m71-73",
    "limits and budgets": "m17-19 m41",
    "decisions": "i71-81",
    "the life of interns": "m45-58",
    "talking to interns": "m59-63",
    "vaults": "m64-67",
    "server tools": "i20-22",
}
TESTS = Path(__file__).parents[1]
_NAME = re.compile(r"^def test_((?:[im]\d+_)+)", re.MULTILINE)


def expanded(rows: str) -> set[str]:
    """`i1-3 m5` as {"i1", "i2", "i3", "m5"}."""
    found = set()
    for word in rows.split():
        kind, first, last = re.fullmatch(r"([im])(\d+)(?:-(\d+))?", word).groups()  # type: ignore[union-attr]  # A typo here ends the run, as it should.
        found |= {f"{kind}{n}" for n in range(int(first), int(last or first) + 1)}
    return found


def rows_in_names() -> set[str]:
    """The rows that test names bear; one test may bear several."""
    texts = (file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py"))
    marks = (mark for text in texts for name in _NAME.findall(text) for mark in name.split("_"))
    return {f"{mark[0]}{int(mark[1:])}" for mark in marks if mark}


def test_every_row_of_finished_work_has_a_test() -> None:
    wanted = set().union(*map(expanded, FINISHED.values()))

    assert sorted(wanted - rows_in_names()) == []


def test_the_ranges_read_as_meant() -> None:
    assert expanded("i1-3 m5") == {"i1", "i2", "i3", "m5"}
    counted = 32 + 20 + 15 + 11 + 14 + 7 + 1 + 12 + 1 + 1 + 3 + 3 + 4 + 11 + 4 + 14 + 5 + 3
    assert len(set().union(*map(expanded, FINISHED.values()))) == counted
