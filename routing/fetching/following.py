"""One request and the redirects it meets, each target judged anew before anything is sent there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.outbound.http_client import HttpClient, Limits, Reply
from gateway.outbound.targets import Target, follow_redirect

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEPING: Final = frozenset({307, 308})


class TooManyRedirects(Exception):
    """One redirect more than are followed."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What is sent to one target; `path` may be another than the target's own."""

    path: str
    headers: list[tuple[str, str]]
    body: bytes


class Prepare(Protocol):
    def __call__(self, target: Target, *, method: str, hop: int) -> Ready | None:
        """What to send to the target, the first one being hop 0. None: it is not to be asked, and
        the redirect itself is the answer. May raise whatever its owner understands."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The last answer and where it came from; `passed` are the URLs before it, as sent."""

    reply: Reply
    url: str
    passed: list[str]


def follow(
    first: Target,
    *,
    method: str,
    prepare: Prepare,
    door_of: Callable[[str], HttpClient],
    limits: Limits,
    deadline: float,
    hops_max: int,
) -> Followed:
    """Send the request and follow up to `hops_max` redirects; the caller closes the reply.

    Raises what `HttpClient.send` and `prepare` raise, `TargetRefused` and `TooManyRedirects`.
    """
    target, passed = first, list[str]()
    ready = prepare(target, method=method, hop=0)
    assert ready is not None, "the first target is asked or refused"
    while True:
        url = f"{target.origin.scheme}://{target.origin.host_header}{ready.path}"
        reply = door_of(target.host).send(
            target.origin,
            method=method,
            path=ready.path,
            headers=ready.headers,
            body=ready.body,
            limits=limits,
            deadline=deadline,
        )
        location = reply.headers.get("location")
        if not hops_max or reply.status not in _REDIRECTS or location is None:
            return Followed(reply, url, passed)
        try:
            if len(passed) == hops_max:
                raise TooManyRedirects
            asked = Target(target.origin, ready.path)
            target = follow_redirect(asked, location)
            method = method if reply.status in _KEEPING or method == "HEAD" else "GET"
            ready_next = prepare(target, method=method, hop=len(passed) + 1)
        except BaseException:
            reply.close()
            raise
        if ready_next is None:
            return Followed(reply, url, passed)
        reply.close()
        passed.append(url)
        ready = ready_next
