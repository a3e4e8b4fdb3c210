"""An intern's request to the outside, through the guarded door: secrets are put in on the way out
and taken out on the way back."""

import codecs
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

from django.conf import settings

from gateway.outbound.doors import door_for
from gateway.outbound.errors import (
    ConnectTimeout,
    DeadlineExceeded,
    FirstByteTimeout,
    IdleTimeout,
    NotAllowed,
    OutboundError,
)
from gateway.outbound.http_client import Limits, Reply
from gateway.outbound.targets import Target, TargetRefused, same_origin, split_url, target_of
from gateway.sealing import UnsealError
from interns.errors import InternError, InvalidBody
from interns.models import Intern
from interns.outbound.fetch_request import FetchRequest
from interns.outbound.scrubbing import (
    Patterns,
    Scrubber,
    build_patterns,
    scrub_bytes,
    scrub_text,
)
from interns.outbound.secret_release import (
    SecretRelease,
    choose_body_encoding,
    encode_header,
    find_names,
)
from routing.fetching.following import Followed, Ready, TooManyRedirects, follow

log = logging.getLogger("gateway.interns")
HOPS_MAX: Final = 5
_CONNECT_S: Final = 10.0
# More than anybody waits for: what is too much is cut here, not refused.
_ENDLESS_BYTES: Final = 2**50
_TOO_SLOW: Final = (ConnectTimeout, DeadlineExceeded, FirstByteTimeout, IdleTimeout)
# They go to nobody but whom they were written for.
_OF_ONE_ORIGIN: Final = frozenset({"authorization", "cookie"})
_OF_A_BODY: Final = frozenset({"content-type", "content-language", "content-location"})
# Of the transport, or no longer true of the body that is handed on.
_NOT_HANDED_ON: Final = frozenset(
    {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
)
_CHARSETS: Final = frozenset({"utf-8", "iso8859-1", "cp1252", "ascii", "iso8859-15"})


class TargetNotAllowed(InternError):
    status, reason = 403, "target_not_allowed"
    message = "This URL cannot be fetched"


class SiteUnreachable(InternError):
    status, reason, retryable = 502, "site_unreachable", True
    message = "The site could not be reached"


class SiteTooSlow(InternError):
    status, reason, retryable = 504, "timeout", True
    message = "The site took too long"


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a site answered, without any secret's value in it."""

    status: int
    url: str
    headers: dict[str, str]
    body: bytes
    text: str | None
    truncated: bool
    redirects: list[str]
    secrets: list[str]


def fetch(intern: Intern, request: FetchRequest) -> FetchResult:
    """Send it and read what comes, within its own bounds. Raises `InternError`s, and `UnsealError`
    where the vault's master key is another one."""
    deadline = time.monotonic() + request.timeout_s
    outgoing = _OutgoingFetch(intern, request)
    try:
        followed = outgoing.send(deadline)
        with followed.reply as reply:
            body, truncated = _read(reply, Scrubber(outgoing.patterns), request.max_bytes)
    except TargetRefused as error:
        raise TargetNotAllowed(outgoing.scrub(str(error))) from None
    except NotAllowed:
        raise TargetNotAllowed("This host is not one of the public Internet") from None
    except TooManyRedirects:
        raise SiteUnreachable(f"More than {HOPS_MAX} redirects", retryable=False) from None
    except _TOO_SLOW:
        raise SiteTooSlow from None
    except OutboundError as error:
        raise SiteUnreachable(outgoing.scrub(f"The site failed: {error}")) from None
    except UnsealError:
        raise
    except ValueError as error:
        # What the door itself finds wrong with a request; its sentences hold no values.
        raise InvalidBody(outgoing.scrub(str(error))) from None
    finally:
        outgoing.log_hosts()
    return outgoing.build_result(followed, body, truncated)


class _OutgoingFetch:
    """One request on its way, hop by hop."""

    def __init__(self, intern: Intern, request: FetchRequest) -> None:
        self._intern = intern
        self._request = request
        self._first: Target | None = None
        self._hosts: list[str] = []
        self._patterns: Patterns = {}
        self._patterns_of: dict[str, str] = {}
        self.release = SecretRelease(intern)
        texts = (request.url, request.text, *(value for _, value in request.headers))
        self.release.require_secrets(find_names(texts))

    def send(self, deadline: float) -> Followed:
        request = self._request
        base, rest = split_url(request.url)
        if "{" in base or "}" in base:
            raise TargetRefused("A URL's host is no place for a secret")
        target = target_of(base, "")
        self.release.require_allowed(find_names([rest]), target)
        self.release.learn_host(target)
        target = target_of(base, self.release.fill(rest, partial(quote, safe="")))
        self._first = target
        return follow(
            target,
            method=request.method,
            prepare=self._prepare,
            door_of=lambda host: door_for(host, private=settings.INTERN_FETCH_PRIVATE_HOSTS),
            limits=Limits(
                connect_s=min(_CONNECT_S, request.timeout_s),
                first_byte_s=request.timeout_s,
                idle_s=request.timeout_s,
                body_bytes_max=_ENDLESS_BYTES,
            ),
            deadline=deadline,
            hops_max=HOPS_MAX if request.follows else 0,
        )

    def _prepare(self, target: Target, *, method: str, hop: int) -> Ready | None:
        """A redirect's own URL is taken as it is: a site must not name secrets that it would get
        somebody to send."""
        self.release.learn_host(target)
        self._hosts.append(target.host)
        keeps_body = method == self._request.method
        names = find_names([self._request.text]) if keeps_body else set[str]()
        if hop == 0:
            self.release.require_allowed(
                names | find_names(value for _, value in self._request.headers), target
            )
        elif not self.release.may_receive(names, target):
            return None
        headers, body = self._build_headers(target, keeps_body=keeps_body), b""
        if keeps_body:
            encode = choose_body_encoding(self._request.content_type)
            text = self._request.text
            body = self._request.raw or self.release.fill(text, encode).encode()
        return Ready(target.path, headers, body)

    def _build_headers(self, target: Target, *, keeps_body: bool) -> list[tuple[str, str]]:
        assert self._first is not None
        at_home = same_origin(target, self._first)
        headers = []
        for name, value in self._request.headers:
            names = find_names([value])
            if not keeps_body and name.lower() in _OF_A_BODY:
                continue
            if not names and not at_home and name.lower() in _OF_ONE_ORIGIN:
                continue
            if self.release.may_receive(names, target):
                headers.append((name, self.release.fill(value, encode_header) if names else value))
        return headers

    @property
    def patterns(self) -> Patterns:
        """What the hosts asked so far could say, in all its spellings."""
        if len(self._patterns_of) != len(self.release.values):
            self._patterns_of = dict(self.release.values)
            self._patterns = build_patterns(self._patterns_of)
        return self._patterns

    def scrub(self, text: str) -> str:
        return scrub_text(text, self.patterns)

    def log_hosts(self) -> None:
        """What operators can see of it: never a path, which may hold what is private."""
        log.info(
            "Intern %s: %s to %s, secrets: %s",
            self._intern.pk,
            self._request.method,
            " -> ".join(self._hosts) or "nobody",
            ", ".join(sorted(self.release.released)) or "none",
        )

    def build_result(self, followed: Followed, body: bytes, truncated: bool) -> FetchResult:
        headers = followed.reply.headers
        text = _decode(body, headers.get("content-type", ""), self.patterns)
        return FetchResult(
            status=followed.reply.status,
            url=self.scrub(followed.url),
            headers={
                self.scrub(name): scrub_bytes(value.encode("latin-1"), self.patterns).decode(
                    "latin-1"
                )
                for name, value in headers.items()
                if name not in _NOT_HANDED_ON
            },
            body=body,
            text=text,
            truncated=truncated,
            redirects=[self.scrub(url) for url in followed.passed],
            secrets=sorted(self.release.released),
        )


def _read(reply: Reply, scrubber: Scrubber, bytes_max: int) -> tuple[bytes, bool]:
    """What is harmless of the body, and whether that is not all of it.

    A site that says more for longer than there is time, as a stream of events does, is cut too.
    """
    body = bytearray()
    while len(body) <= bytes_max:
        try:
            piece = reply.read_some()
        except DeadlineExceeded:
            body += scrubber.cut()
            if not body:
                raise
            return bytes(body[:bytes_max]), True
        if not piece:
            body += scrubber.finish()
            break
        body += scrubber.feed_bytes(piece)
    return bytes(body[:bytes_max]), len(body) > bytes_max


def _decode(body: bytes, content_type: str, patterns: Patterns) -> str | None:
    """The body as text; None where it is none, or in a charset in which more might be written."""
    try:
        charset = codecs.lookup(_read_charset(content_type)).name
    except LookupError:
        return None
    if charset not in _CHARSETS:
        return None
    decoder: Callable[[bytes, bool], str] = codecs.getincrementaldecoder(charset)("strict").decode
    try:
        # A body that was cut may end within a character.
        text = decoder(body, False)
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    # Its bytes were looked through as UTF-8.
    return text if charset == "utf-8" else scrub_text(text, patterns)


def _read_charset(content_type: str) -> str:
    for part in content_type.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            return value.strip("\"' ").lower()
    return "utf-8"
