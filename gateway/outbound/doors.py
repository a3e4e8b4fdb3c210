"""The outbound doors for what somebody else chose: no proxy, no private addresses."""

import ipaddress
import socket
from collections.abc import Callable, Collection
from contextlib import closing
from functools import cache
from typing import Final

from gateway.outbound.http_client import HttpClient

_POOL_SIZE: Final = 8
_KEEP_S: Final = 10.0
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# All that is routed on the public Internet.
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
# These carry an IPv4 address in their last 32 bits. Shorter prefixes of NAT64 carry it elsewhere:
# there the last 32 bits may look public where the address that is meant is not (RFC 6052).
_EMBEDDING: Final = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/96", "::/96")))
# Anycast of relays that are gone, and the server of a large cloud that gives out credentials.
_NOT_FOR_US: Final = tuple(map(ipaddress.IPv4Network, ("192.88.99.0/24", "168.63.129.16/32")))
# No machine has it: see RFC 5737.
_NOBODYS: Final = "192.0.2.1"


def door_for(host: str, *, private: Collection[str]) -> HttpClient:
    """The door to that host: a guarded one, unless the operator opened it to a `private` host.

    A proxy would look the name up itself and reach what must not be reached, so there is none.
    """
    return _open_door(None if host in private else is_public)


@cache
def _open_door(address_allowed: Callable[[str], bool] | None) -> HttpClient:
    return HttpClient(
        pool_size_per_origin=_POOL_SIZE, idle_keep_s=_KEEP_S, address_allowed=address_allowed
    )


def is_public(host: str) -> bool:
    """Whether a numeric address is one of the public Internet, and not of this machine, also once
    what it embeds is unpacked."""
    try:
        address: _Address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour
        if any(address in network for network in _EMBEDDING):
            embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if embedded is not None:
            return is_public(str(embedded))
        routed = address in _GLOBAL_UNICAST
    else:
        routed = not any(address in network for network in _NOT_FOR_US)
    if not routed or not address.is_global or address.is_multicast:
        return False
    # What listens on an address of this machine for its own may stand behind a firewall that only
    # looks at what comes from outside.
    is_of_this_machine = _may_be_bound(str(address)) and not _may_be_bound(_NOBODYS)
    return not is_of_this_machine


def _may_be_bound(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
