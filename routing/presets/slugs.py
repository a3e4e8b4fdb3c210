"""What a preset's slug may be (management reference 4.3)."""

import re
from typing import Final

SLUG_PATTERN: Final = r"^[A-Za-z0-9._~-]{1,100}$"
_SLUG: Final = re.compile(SLUG_PATTERN[1:-1])


def is_slug(text: str) -> bool:
    """Unreserved characters of a URL. The two that mean a folder are no names."""
    return _SLUG.fullmatch(text) is not None and text not in (".", "..")
