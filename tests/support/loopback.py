"""Tests reach nothing beyond this machine."""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any


def _check(address: Any) -> None:
    if not isinstance(address, tuple):
        return
    host = str(address[0])
    if host in {"localhost", ""}:
        return
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    assert is_loopback, f"a test tried to reach {host}"


def only_loopback() -> None:
    """From now on connecting elsewhere fails in this process."""
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, _guard(getattr(socket.socket, name)))


def _guard(method: Callable[..., Any]) -> Callable[..., Any]:
    def check_and_connect(self: socket.socket, address: Any) -> Any:
        _check(address)
        return method(self, address)

    return check_and_connect
