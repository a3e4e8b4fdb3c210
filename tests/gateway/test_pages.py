"""Operators' pages on a running server."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.support.server import GatewayServer

TOKEN = b"t" * 32


def answer_to_slow_form(server: GatewayServer, form: bytes) -> bytes:
    """Post a form whose body comes when its head has long been read; the status line."""
    where = urlsplit(server.root_url)
    assert where.hostname
    assert where.port
    with socket.create_connection((where.hostname, where.port), timeout=10) as caller:
        caller.sendall(
            b"POST /admin/login/ HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n"
            b"Cookie: csrftoken=" + TOKEN + b"\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Length: " + str(len(form)).encode() + b"\r\n\r\n"
        )
        for _ in range(3):
            assert server.get("/readyz").status_code == 200
        caller.sendall(form)
        return caller.makefile("rb").readline()


@pytest.mark.both
def test_a_form_may_come_in_pieces(gateway: GatewayServer) -> None:
    form = b"username=someone&password=something&csrfmiddlewaretoken=" + TOKEN
    assert answer_to_slow_form(gateway, form).startswith(b"HTTP/1.1 200 ")
