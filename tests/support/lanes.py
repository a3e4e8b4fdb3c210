"""Which files a lane has no test in, found out without an import."""

import re

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
