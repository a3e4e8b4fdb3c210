"""Typed readers for settings that come from the environment.

Each reader takes the variable's name and a default. It raises `SettingError` with that name when
the value is odd, so that nothing starts on a misunderstanding. pydantic-settings would read as
much. But mypy knows the type of `settings.NAME` only where a module assigns that name.
"""

import math
import os
import re
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

# Set by the supervisor of `make run` for what it starts; not a setting.
SUPERVISED = "GATEWAY_SUPERVISED"
# Its process id: what is detached from a worker ends with the run all the same.
SUPERVISOR_PID = "GATEWAY_SUPERVISOR_PID"
# Above what systemd gives to containers and services, below where ids become negative.
_SANDBOX_USERS = "1900000000-1900065535"
_VENDORS = ("openrouter",)
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_TRUE = frozenset({"1", "true", "yes", "on"})
_VISIBLE_ASCII = re.compile(r"[!-~]*")
_KEY_PREFIX = re.compile(r"[!-~]{0,19}-")
_MODEL_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,199}")
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_ORIGIN = re.compile(r"https?://[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ADDRESS = re.compile(r"[0-9a-f:.]{2,45}")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()/-]*)?")
_PLUG_IN = re.compile(r"[a-z][a-z0-9-]{0,63}")
_TOOL = re.compile(r"router:[a-z0-9_]{1,63}|[a-z][a-z0-9-]{0,63}")
_IMPORT_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")
_FALSE = frozenset({"0", "false", "no", "off"})


class SettingError(ImproperlyConfigured):
    """A setting is missing or odd. The text begins with its name."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


RATE_MAX: Final = 10**12  # The shared cache writes no more digits.


def text(name: str, default: str = "") -> str:
    """The variable, else the file that `NAME_FILE` names, stripped; unset and empty both give the
    default."""
    value = os.environ.get(name, "").strip()
    file = os.environ.get(f"{name}_FILE", "").strip()
    if not file:
        return value or default
    if value:
        raise SettingError(name, f"{name}_FILE is set too; keep one of them")
    try:
        return Path(file).read_text(encoding="utf-8").strip() or default
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise SettingError(f"{name}_FILE", f"cannot read {file}: {why}") from None


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


def sandbox_users(name: str = "SANDBOX_UIDS") -> range:
    """A range of the host's users such as `100000-165535`, root not among them."""
    value = text(name, _SANDBOX_USERS)
    first, dash, last = value.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise SettingError(name, f"expected a range of user ids like 100000-165535, got {value!r}")
    found = range(int(first), int(last) + 1)
    if len(found) < 64 or found[0] < 1 or found[-1] >= 2**32 - 1:
        raise SettingError(name, f"expected at least 64 user ids from 1 on, got {value!r}")
    return found


def cgroup(name: str) -> str:
    """A folder of the cgroup v2 tree, `auto` or `off`."""
    value = text(name, "auto")
    if value not in ("auto", "off") and not value.startswith("/"):
        raise SettingError(name, f"expected auto, off or a folder, got {value!r}")
    return value


def seconds(name: str, default: float) -> float:
    """A duration in seconds, decimals allowed, above zero and at most a week."""
    return decimal(name, default, minimum=0.001, maximum=604_800)


def choice(name: str, default: str, allowed: Collection[str]) -> str:
    value = text(name, default)
    if value not in allowed:
        raise SettingError(name, f"expected one of {', '.join(sorted(allowed))}, got {value!r}")
    return value


def log_level(name: str, default: str) -> str:
    """A level's name in capitals, however it was written."""
    value = text(name, default)
    if value.upper() not in LOG_LEVELS:
        raise SettingError(name, f"expected one of {', '.join(LOG_LEVELS)}, got {value!r}")
    return value.upper()


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def origins(name: str, default: str) -> tuple[str, ...]:
    """Web origins with commas between, such as `https://app.example`; `*` is any, `none` none."""
    found = tuple(words(name, default))
    for word in found:
        if word not in ("*", "none") and not _ORIGIN.fullmatch(word):
            raise SettingError(name, f"expected origins like https://app.example, got {word!r}")
    return found


def vendors(name: str, default: str) -> tuple[str, ...]:
    """A comma-separated list of vendors whose names are understood; a variable that is set and
    empty is none of them."""
    found = tuple(words(name, "" if name in os.environ else default))
    for word in found:
        if word not in _VENDORS:
            raise SettingError(name, f"expected {' or '.join(_VENDORS)}, or nothing, got {word!r}")
    return found


def address(name: str, default: str) -> tuple[str, int] | None:
    """An address to listen on, such as `127.0.0.1:9464` or `[::1]:0`; None where the variable is
    set and empty."""
    value = os.environ.get(name, default).strip()
    if not value:
        return None
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingError(name, f"expected an address like 127.0.0.1:9464, got {value!r}")
    return host, int(port)


def networks(name: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """A comma-separated list of addresses and networks, such as `127.0.0.1,10.0.0.0/8`."""
    try:
        return tuple(ip_network(word) for word in words(name))
    except ValueError as error:
        raise SettingError(name, str(error)) from None


def model_patterns(name: str) -> tuple[str, ...]:
    """A comma-separated list of model ids, aliases, or patterns with `*` for anything."""
    found = words(name)
    for word in found:
        if not _MODEL_PATTERN.fullmatch(word):
            raise SettingError(name, f"expected model ids like author/slug or author/*: {word!r}")
    return tuple(found)


def pairs(name: str, *, key: re.Pattern[str], values: Collection[str] = ()) -> dict[str, str]:
    """`key=value` pairs with commas between, keys in lower case."""
    found: dict[str, str] = {}
    for word in words(name):
        left, equals, right = (part.strip() for part in word.partition("="))
        if not equals or not key.fullmatch(left.lower()) or not right:
            raise SettingError(name, f"expected name=value with commas between, got {word!r}")
        if values and right not in values:
            raise SettingError(name, f"expected one of {', '.join(values)}, got {right!r}")
        found[left.lower()] = right
    return found


def header_pairs(name: str) -> dict[str, str]:
    """`name=value` pairs with commas between, values percent-encoded, names as they are written."""
    found: dict[str, str] = {}
    for word in words(name):
        left, equals, right = (part.strip() for part in word.partition("="))
        # A value may be a secret, so the error does not say it.
        if not equals or not _HEADER_NAME.fullmatch(left):
            raise SettingError(name, "expected name=value with commas between")
        found[left] = unquote(right)
    return found


def host_name(name: str, default: str) -> str:
    """A DNS name without a port, in lower case."""
    value = text(name, default).lower()
    if not _HOST_NAME.fullmatch(value):
        raise SettingError(name, f"expected a host name, got {value!r}")
    return value


def host_names(name: str) -> frozenset[str]:
    """A comma-separated list of host names or addresses, without ports, in lower case."""
    found = frozenset(word.lower() for word in words(name))
    for word in found:
        if not (_HOST_NAME.fullmatch(word) or _ADDRESS.fullmatch(word)):
            raise SettingError(name, f"expected host names with commas between, got {word!r}")
    return found


def archive_store(name: str) -> str:
    """`s3://bucket` or `s3://bucket/prefix`, or empty for the home folder."""
    value = text(name)
    if value and not _BUCKET.fullmatch(value):
        raise SettingError(name, f"expected s3://bucket/prefix, got {value!r}")
    return value.rstrip("/")


def runtime(name: str, default: str, built_in: Collection[str]) -> str:
    """One of those built in, or the import path of another."""
    value = text(name, default)
    if value not in built_in and not _IMPORT_PATH.fullmatch(value):
        known = ", ".join(sorted(built_in))
        raise SettingError(name, f"expected {known}, or an import path, got {value!r}")
    return value


def regional_hosts(name: str) -> dict[str, str]:
    """Host names and the data region of each: `eu.example.com=europe,us.example.com=us`."""
    return pairs(name, key=_HOST_NAME, values=("global", "europe", "us"))


def plug_ins(name: str, allowed: Collection[str]) -> dict[str, str]:
    """Names and the import path of each: `person-name=package.module.function`."""
    found = _paths(name, _PLUG_IN)
    for word in found:
        if word not in allowed:
            raise SettingError(name, f"expected {' or '.join(sorted(allowed))}, got {word!r}")
    return found


def import_path(name: str) -> str:
    """`package.module.name`, or empty when the variable is unset."""
    value = text(name)
    if value and not _IMPORT_PATH.fullmatch(value):
        raise SettingError(name, f"expected an import path like package.module.name: {value!r}")
    return value


def tool_backends(name: str) -> dict[str, str]:
    """Server tools, and plugins by their ids, with the import path of what runs each:
    `router:web_search=package.module.maker`."""
    return _paths(name, _TOOL)


def _paths(name: str, key: re.Pattern[str]) -> dict[str, str]:
    found = pairs(name, key=key)
    for path in found.values():
        if not _IMPORT_PATH.fullmatch(path):
            raise SettingError(name, f"expected an import path like package.module.name: {path!r}")
    return found


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


def base_url(name: str) -> str:
    """An http or https URL without its last slash, or empty when the variable is unset."""
    parts = _plain_url(name, ("http", "https"))
    return parts.geturl().rstrip("/") if parts else ""


def proxy(name: str) -> str:
    """`http://host:port`, or empty when the variable is unset."""
    parts = _plain_url(name, ("http",))
    if parts is None:
        return ""
    if not parts.port or parts.path.strip("/"):
        raise SettingError(name, "expected http://host:port")
    return parts.geturl().rstrip("/")


def _plain_url(name: str, schemes: Collection[str]) -> SplitResult | None:
    """A URL that names a host, without user, query or fragment."""
    parts = url(name, schemes)
    # Parsing drops line breaks, so the text itself is looked at.
    if parts and not _VISIBLE_ASCII.fullmatch(text(name)):
        raise SettingError(name, "expected ASCII without spaces")
    if parts and (not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment):
        raise SettingError(name, "expected a host, and no user, query or fragment")
    return parts


def key_prefix(name: str, default: str) -> str:
    """What key strings begin with: up to 20 ASCII characters, the last one a hyphen."""
    value = text(name, default)
    if not _KEY_PREFIX.fullmatch(value):
        raise SettingError(name, f"expected 1 to 20 visible ASCII characters up to '-': {value!r}")
    return value


def strip_quotes(value: str | None) -> str:
    return unquote(value) if value else ""
