"""Which files a lane has no test in, found out without an import."""

import re
import tomllib
from fnmatch import fnmatch, translate
from functools import cache
from pathlib import Path, PurePath

_WHOLE_FILE = re.compile(r"^pytestmark = (.*(?:\n    .*|\n\])*)", re.MULTILINE)


def is_left_out(source: str, expression: str) -> bool:
    """Whether no test of a file can match a `-m` expression such as `both and not nightly`.

    Its words are joined by `and`; an expression of another form leaves nothing out.
    """
    terms = [term.strip() for term in expression.split(" and ")] if expression else []
    if any(" or " in term or "(" in term for term in terms):
        return False
    whole_file = "".join(_WHOLE_FILE.findall(source))
    for term in terms:
        if term.startswith("not "):
            if f"mark.{term[4:]}" in whole_file:
                return True
        elif f"mark.{term}" not in source and term != "nightly":
            return True
    return False


@cache
def _load_lanes() -> dict[str, list[str]]:
    return tomllib.loads((Path(__file__).parents[1] / "lanes.toml").read_text(encoding="utf-8"))


def is_dear(file: PurePath, expression: str, store: str) -> bool:
    """Whether a file, named within `tests`, is left to the lanes that run thorough tests too, or
    to the nightly alone."""
    lanes = _load_lanes()
    patterns: list[str] = []
    if "not nightly" in expression:
        patterns += lanes["nightly"] + (lanes["nightly_on_sqlite"] if store == "sqlite" else [])
    if "not thorough" in expression:
        patterns += lanes["thorough"]
    return any(fnmatch(file.as_posix(), pattern) for pattern in patterns)


@cache
def is_for_the_nightly(file: PurePath, test: str) -> bool:
    """Whether a test of a file, named within `tests`, is left to the nightly by name."""
    return bool(_compile_nightly().match(f"{file.as_posix()}::{test}"))


@cache
def _compile_nightly() -> re.Pattern[str]:
    names = [each if "::" in each else f"{each}::*" for each in _load_lanes()["nightly"]]
    return re.compile("|".join(map(translate, names)))
