"""The outbound doors for what somebody else chose: no proxy, no private addresses."""

from collections.abc import Collection
from functools import cache
from typing import Final

from gateway.outbound.addresses import is_public
from gateway.outbound.http_client import HttpClient

_POOL_SIZE: Final = 8
_KEEP_S: Final = 10.0


def door_for(host: str, *, private: Collection[str]) -> HttpClient:
    """The door to that host: a guarded one, unless the operator opened it to a `private` host.

    A proxy would look the name up itself and reach what must not be reached, so there is none.
    """
    return _open() if host in private else _open_guarded()


@cache
def _open_guarded() -> HttpClient:
    return HttpClient(
        pool_size_per_origin=_POOL_SIZE, idle_keep_s=_KEEP_S, address_allowed=is_public
    )


@cache
def _open() -> HttpClient:
    return HttpClient(pool_size_per_origin=_POOL_SIZE, idle_keep_s=_KEEP_S)
