"""Which files a lane has no test in, found out without an import."""

import re
import tomllib
from fnmatch import fnmatch
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
        elif f"mark.{term}" not in source:
            return True
    return False


@cache
def _load_lanes() -> dict[str, list[str]]:
    return tomllib.loads((Path(__file__).parents[1] / "lanes.toml").read_text(encoding="utf-8"))


def is_dear(file: PurePath, expression: str, store: str) -> bool:
    """Whether a file, named within `tests`, is left to the lanes that run thorough tests too."""
    if "not thorough" not in expression:
        return False
    lanes = _load_lanes()
    patterns = lanes["everywhere"] + (lanes["sqlite"] if store == "sqlite" else [])
    return any(fnmatch(file.as_posix(), pattern) for pattern in patterns)
