"""What a caller says about the application it is."""

import re

CATEGORIES_MAX = 2
CATEGORY_CHARS_MAX = 30
_CATEGORY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def categories(header: str) -> tuple[str, ...]:
    """The first two well-formed words of a comma list; what is not well-formed is left out."""
    if not header:
        return ()
    words = (word.strip() for word in header.split(","))
    return tuple(word for word in words if _well_formed(word))[:CATEGORIES_MAX]


def _well_formed(word: str) -> bool:
    return len(word) <= CATEGORY_CHARS_MAX and _CATEGORY.fullmatch(word) is not None
