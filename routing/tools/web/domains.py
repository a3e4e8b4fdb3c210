"""Lists of domains that callers give: `example.com` is the name and all below it, `example.com/a`
what begins with that path there."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_WRITTEN: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:\*\.)?(?P<host>[^/:?#]*)(?::[0-9]*)?(?P<path>/.*)?", re.I
)


class Domain(NamedTuple):
    """`path` is empty or begins with a slash."""

    host: str
    path: str

    def has(self, host: str, path: str) -> bool:
        if host != self.host and not host.endswith("." + self.host):
            return False
        if not path.startswith(self.path):
            return False
        rest = path[len(self.path) :]
        return not self.path or self.path.endswith("/") or rest[:1] in ("", "/", "?")


class Domains:
    """What may be seen: all that the one list names, where there is one, but for the other's."""

    def __init__(self, allowed: Iterable[str] | None, blocked: Iterable[str] | None) -> None:
        given = list(allowed or ())
        # A list of nothing but blanks still is one.
        self.limited = bool(given)
        self.allowed = _domains(given)
        self.blocked = _domains(blocked or ())

    def permit(self, host: str, path: str) -> bool:
        """`host` in lower case, without a last dot; `path` with its query."""
        if any(each.has(host, path) for each in self.blocked):
            return False
        return not self.limited or any(each.has(host, path) for each in self.allowed)

    def permit_url(self, url: str) -> bool:
        """The same of a whole URL; one without a host is none of any list's."""
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            return False
        return host is not None and self.permit(host.rstrip("."), parts.path or "/")


def _domains(texts: Iterable[str]) -> Sequence[Domain]:
    return [domain for text in texts if (domain := _domain(text)) is not None]


def _domain(text: str) -> Domain | None:
    """As people write them: with a scheme, an asterisk, a port, letters of their own."""
    parts = _WRITTEN.fullmatch(text.strip())
    host = parts["host"].lower().strip(".") if parts else ""
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return None
    path = (parts["path"] or "") if parts else ""
    return Domain(host, "" if path == "/" else path) if host else None
