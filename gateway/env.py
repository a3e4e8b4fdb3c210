"""Typed readers for settings that come from the environment.

Each reader takes the variable's name and a default, and raises `SettingError` naming the variable
when its value is odd, so that nothing starts on a misunderstanding.
"""

import math
import os
from collections.abc import Collection
from urllib.parse import SplitResult, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class SettingError(ImproperlyConfigured):
    """A setting is missing or odd. The text begins with its name."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


def text(name: str, default: str = "") -> str:
    """The variable, stripped; unset and empty both give the default."""
    return os.environ.get(name, "").strip() or default


def boolean(name: str, default: bool) -> bool:
    value = text(name).lower()
    if not value:
        return default
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise SettingError(name, f"expected 1 or 0, got {value!r}")


def integer(name: str, default: int, *, minimum: int = 0, maximum: int = 2**63 - 1) -> int:
    value = text(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise SettingError(name, f"expected a whole number, got {value!r}") from None
    if not minimum <= number <= maximum:
        raise SettingError(name, f"expected {minimum} to {maximum}, got {number}")
    return number


def optional_integer(name: str, *, minimum: int = 0) -> int | None:
    return integer(name, 0, minimum=minimum) if text(name) else None


def decimal(name: str, default: float, *, minimum: float = 0.0, maximum: float = 1e9) -> float:
    value = text(name)
    if not value:
        return default
    try:
        number = float(value)
    except ValueError:
        raise SettingError(name, f"expected a number, got {value!r}") from None
    if not math.isfinite(number) or not minimum <= number <= maximum:
        raise SettingError(name, f"expected {minimum:g} to {maximum:g}, got {value}")
    return number


def seconds(name: str, default: float) -> float:
    """A duration in seconds, decimals allowed, above zero and at most a week."""
    return decimal(name, default, minimum=0.001, maximum=604_800)


def choice(name: str, default: str, allowed: Collection[str]) -> str:
    value = text(name, default)
    if value not in allowed:
        raise SettingError(name, f"expected one of {', '.join(sorted(allowed))}, got {value!r}")
    return value


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def url(name: str, schemes: Collection[str]) -> SplitResult | None:
    """A URL of one of the schemes, or None when the variable is unset."""
    value = text(name)
    if not value:
        return None
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - Reading it is the check: an odd port raises.
    except ValueError:
        raise SettingError(name, "its host or its port is odd") from None
    if parts.scheme not in schemes:
        raise SettingError(name, f"expected a URL beginning with {' or '.join(schemes)}://")
    return parts


def unquoted(value: str | None) -> str:
    return unquote(value) if value else ""
