"""What a management key may do, and from where a key may be used.

A key without scopes may do everything in its account. One with scopes reads what `read` or the
area's own scope opens, and changes what the area's own scope opens.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final, Literal, get_args

from django.http import HttpRequest

from accounts.caller import Caller
from gateway.http.address import Network, find_address
from gateway.http.errors import PermissionDenied

Scope = Literal["read", "keys", "workspaces", "guardrails", "billing", "catalogue", "scim"]
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
NETWORKS_MAX: Final = 100
_READS: Final = frozenset({"GET", "HEAD"})
# Questions that take a body.
_READ_PATHS: Final = frozenset({"/api/v1/analytics/query", "/api/v1/routing/what-if"})
# Any key may ask about itself.
_OWN_KEY: Final = "/api/v1/key"
_AREAS: Final = {
    "keys": "keys auth",
    "workspaces": "workspaces organization scim presets observability notifications",
    "guardrails": "guardrails",
    "billing": "credits",
    "catalogue": "byok",
}
_AREA_OF_WORD: Final = {word: area for area, words in _AREAS.items() for word in words.split()}
_FIRST_WORD: Final = re.compile(r"/api/v1/([a-z-]+)")
_CONNECTOR: Final = "/scim/v2"


class ScopeMissing(PermissionDenied):
    """`scope` is what would open it; None where only a key without scopes may."""

    def __init__(self, scope: str | None) -> None:
        text = "This needs a management key without scopes"
        if scope is not None:
            text = f'This management key lacks the scope "{scope}"'
        super().__init__(text, metadata={"required_scope": scope})


class AddressRefused(PermissionDenied):
    default_reason = "key_address"
    message = "This key cannot be used from this address"


def check_scope(caller: Caller, request: HttpRequest) -> None:
    """Raise `ScopeMissing` for what the management key may not do."""
    if caller.scopes is None:
        return
    path, area = request.path_info.rstrip("/"), find_area(request.path_info)
    is_read = request.method in _READS or path in _READ_PATHS
    if path == _OWN_KEY or area in caller.scopes or (is_read and "read" in caller.scopes):
        return
    raise ScopeMissing("read" if is_read and area is None else area)


def find_area(path: str) -> str | None:
    """The scope that a path belongs to; None for one that none opens for writing."""
    if path.startswith(_CONNECTOR):
        return "scim"
    match = _FIRST_WORD.match(path)
    return _AREA_OF_WORD.get(match[1]) if match else None


def check_address(networks: tuple[Network, ...], request: HttpRequest) -> None:
    """Raise `AddressRefused` for a request from outside the networks."""
    address = find_address(request)
    if address is None or not any(address in network for network in networks):
        raise AddressRefused


def clean_networks(texts: Iterable[str]) -> list[str]:
    """Addresses and networks as they are stored, each once. Raises `ValueError` for others."""
    return list(dict.fromkeys(str(ip_network(text.strip(), strict=False)) for text in texts))
