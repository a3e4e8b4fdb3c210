"""How secrets and the hosts they go to are written (management reference 7)."""

import re
from typing import Final

NAME_PATTERN: Final = r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$"
NAME_CHARS_MAX: Final = 255
HOST_CHARS_MAX: Final = 253
_NAME: Final = re.compile(NAME_PATTERN[1:-1])
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_secret_name(text: str) -> bool:
    """Whether a secret can have this name."""
    return len(text) <= NAME_CHARS_MAX and _NAME.fullmatch(text) is not None


def canonicalize_host(text: str) -> str | None:
    """An exact DNS name in lower case without its last dot; None for anything else."""
    if not text.isascii():
        return None
    host = text.lower().removesuffix(".")
    if len(host) > HOST_CHARS_MAX or not all(map(_LABEL.fullmatch, host.split("."))):
        return None
    return host
