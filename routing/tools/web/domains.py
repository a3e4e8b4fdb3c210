"""Lists of domains that callers give: `example.com` is the name and all below it, `example.com/a`
what begins with that path there."""

import re
from collections.abc import Iterable, Sequence
from posixpath import normpath
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from gateway.http.errors import InvalidRequest

_WRITTEN: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:\*\.)?(?P<host>[^/:?#]*)(?::[0-9]*)?(?P<path>/[^?#]*)?", re.I
)
_HOST: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.A)
_SLASHES: Final = re.compile(r"[/\\]+")
_HIDDEN_SLASH: Final = re.compile(r"%(2f|5c)", re.I)
_SHOWN_CHARS_MAX: Final = 100


class Paths(NamedTuple):
    """A path as sites may take it: some split it at slashes that are percent-encoded, some do
    not. All else that reads the same is the same."""

    split: str
    kept: str

    def begin_with(self, others: "Paths") -> Sequence[bool]:
        """Whether each is one of the others, or below it."""
        return [
            path.startswith(top)
            and (not top or top.endswith("/") or path[len(top) :][:1] in ("", "/"))
            for path, top in zip(self, others, strict=True)
        ]


class Domain(NamedTuple):
    """`paths` are empty or begin with a slash."""

    host: str
    paths: Paths

    def names(self, host: str) -> bool:
        return host == self.host or host.endswith("." + self.host)


class Domains:
    """What may be seen: all that the one list names, where there is one, but for the other's.
    Raises `InvalidRequest` for what is no domain: a wall with a hole is none."""

    def __init__(self, allowed: Iterable[str] | None, blocked: Iterable[str] | None) -> None:
        self.allowed = list(map(_domain, allowed or ()))
        self.blocked = list(map(_domain, blocked or ()))

    def permit(self, host: str, path: str) -> bool:
        """`host` in lower case, without a last dot; `path` with its query."""
        paths = _paths(path.partition("?")[0])
        blocked = (each.paths for each in self.blocked if each.names(host))
        if any(any(paths.begin_with(each)) for each in blocked):
            return False
        allowed = (each.paths for each in self.allowed if each.names(host))
        return not self.allowed or any(all(paths.begin_with(each)) for each in allowed)

    def permit_url(self, url: str) -> bool:
        """The same of a whole URL; one without a host is none of any list's."""
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            return False
        return host is not None and self.permit(host.rstrip("."), parts.path or "/")


def _domain(text: str) -> Domain:
    """As people write them: with a scheme, an asterisk, a port, letters of their own."""
    parts = _WRITTEN.fullmatch(text.strip())
    host = parts["host"].lower().strip(".") if parts else ""
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        # There is no such name.
        host = ""
    if parts is None or not _HOST.fullmatch(host):
        raise InvalidRequest(f"Not a domain: {text[:_SHOWN_CHARS_MAX]!r}")
    path = parts["path"] or ""
    return Domain(host, Paths("", "") if path in ("", "/") else _paths(path))


def _paths(path: str) -> Paths:
    kept = _HIDDEN_SLASH.sub(lambda found: "%25" + found[1].lower(), path)
    return Paths(_plain(path), _plain(kept))


def _plain(path: str) -> str:
    """Without percent signs, dots and slashes that say the same in more words."""
    folded = _SLASHES.sub("/", "/" + unquote(path, errors="surrogateescape"))
    plain = normpath(folded)
    is_folder = folded.endswith(("/", "/.", "/.."))
    return plain + "/" if is_folder and plain != "/" else plain
