"""Where a request comes from, and for which region: the client's address, not one it made up, and
the host name it asked."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, NamedTuple

from django.http import HttpRequest

from gateway.http.request_id import get_environ
from gateway.live_settings import settings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
# The holder of one IPv6 address has a whole network of them.
_IPV6_PREFIX = 64
AGENT_CHARS_MAX: Final = 200
MAIN_REGION: Final = "global"


def find_client(request: HttpRequest) -> str:
    """The address that failures are counted for: an IPv4 address or an IPv6 network."""
    return _name_client(find_address(request))


def find_address(request: HttpRequest) -> Address | None:
    """Where the request comes from, None where nobody says.

    Behind `TRUSTED_PROXIES` it is the last address in `X-Forwarded-For` that is none of theirs.
    """
    peer, forwarded = request.META.get("REMOTE_ADDR", ""), ""
    if settings.TRUSTED_PROXIES:
        forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
    return _resolve_address(peer, forwarded, settings.TRUSTED_PROXIES)


def comes_from_proxy(request: HttpRequest) -> bool:
    """Whether one of `TRUSTED_PROXIES` has sent it: only then are its headers not the caller's."""
    peer = _parse_address(request.META.get("REMOTE_ADDR", ""))
    return _is_in(peer, settings.TRUSTED_PROXIES)


def drop_forwarding_headers(environ: dict[str, Any]) -> None:
    """Have nobody believed who says whose request it is, or how it came in."""
    for name in ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO"):
        environ.pop(name, None)


class RequestOrigin(NamedTuple):
    """The client's address and what it calls itself, for records."""

    address: str
    agent: str


def find_origin() -> RequestOrigin | None:
    """Of the request under way; None in a worker or a command."""
    environ = get_environ()
    if environ is None:
        return None
    forwarded = environ.get("HTTP_X_FORWARDED_FOR", "") if settings.TRUSTED_PROXIES else ""
    address = resolve_client(environ.get("REMOTE_ADDR", ""), forwarded, settings.TRUSTED_PROXIES)
    return RequestOrigin(address, clean_agent(environ.get("HTTP_USER_AGENT", "")))


def clean_agent(text: str) -> str:
    """What a client calls itself, as records keep it."""
    return text.replace("\x00", "")[:AGENT_CHARS_MAX]


def resolve_client(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """The client of a connection from `peer` with the forwarding header `forwarded`."""
    return _name_client(_resolve_address(peer, forwarded, proxies))


def _resolve_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> Address | None:
    client = _parse_address(peer)
    for hop in reversed(forwarded.split(",")):
        # What stands before the first stranger is that stranger's word.
        if not _is_in(client, proxies):
            break
        before = _parse_address(hop)
        if before is None:
            break
        client = before
    return client


def _is_in(address: Address | None, networks: Sequence[Network]) -> bool:
    return address is not None and any(address in network for network in networks)


def _name_client(client: Address | None) -> str:
    if client is None:
        return "unknown"
    if isinstance(client, IPv4Address):
        return str(client)
    return str(IPv6Network((int(client), _IPV6_PREFIX), strict=False))


@lru_cache(maxsize=1024)
def _parse_address(text: str) -> Address | None:
    """None for what is no address; one of IPv4 that is dressed as IPv6 is itself."""
    try:
        address = ip_address(text.strip().removeprefix("[").partition("]")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def find_region(request: HttpRequest) -> str:
    """The data region whose host name the request came in by: "global", "europe" or "us"."""
    hosts: dict[str, str] = settings.REGIONAL_HOSTS
    if not hosts:
        return MAIN_REGION
    host = str(request.META.get("HTTP_HOST", "")).lower()
    name, _, port = host.rpartition(":")
    return hosts.get(name if port.isdecimal() else host, MAIN_REGION)
