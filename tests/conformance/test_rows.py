"""Every row of the references has a test that proves it, and `rows.toml` says which."""

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROWS = 84


def test_every_row_is_proved_by_tests_that_are_there() -> None:
    index = tomllib.loads((HERE / "rows.toml").read_text(encoding="utf-8"))
    proved = {f"{kind[0]}{row}" for kind in ("inference", "management") for row in index[kind]}
    named = {
        test
        for kind in ("inference", "management")
        for each in index[kind].values()
        for test in each
    }

    assert proved | index["not_built"].keys() == {
        f"{k}{n}" for k in "im" for n in range(1, ROWS + 1)
    }
    assert sorted(test for test in named if not is_there(test)) == []


def is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    source = HERE.parent / file
    return source.exists() and bool(re.search(rf"^def {name}\b", source.read_text("utf-8"), re.M))
