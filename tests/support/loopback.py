"""Tests reach nothing beyond this machine."""

import ipaddress
import socket
from typing import Any

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex


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

    def connect(self: socket.socket, address: Any) -> None:
        _check(address)
        _connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        _check(address)
        return _connect_ex(self, address)

    # The replacement has the replaced method's own signature.
    socket.socket.connect = connect  # type: ignore[method-assign, assignment]
    socket.socket.connect_ex = connect_ex  # type: ignore[method-assign, assignment]
