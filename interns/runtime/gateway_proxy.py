"""The gateway's socket inside a sandbox: a few of the gateway's paths, with the intern's key added.

Standard library only, because every supervisor runs it. Each request has a thread; bodies
have a length, answers are passed on as they come.
"""

import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer
from urllib.parse import urlsplit

BODY_BYTES_MAX = 33_554_432
REQUESTS_MAX = 16
PIECE_BYTES = 65_536
TIMEOUT_S = 620.0
CONNECT_S = 5.0
LINGER_S = 2.0
_REQUEST_HEADERS = ("Content-Type", "Accept", "traceparent")
_ANSWER_HEADERS = ("Content-Type", "Retry-After", "X-Generation-Id")


@dataclass(frozen=True)
class ProxyTarget:
    """Where calls go, and which are let through: methods, each with a pattern for the path."""

    gateway_url: str
    api_key: str = field(repr=False)
    allowed: Sequence[tuple[str, str]]

    def allows(self, method: str, path: str) -> bool:
        return any(m == method and re.fullmatch(pattern, path) for m, pattern in self.allowed)

    def connect(self) -> http.client.HTTPConnection:
        """A connection to the gateway. Raises `OSError`."""
        url = urlsplit(self.gateway_url)
        host, port = url.hostname or "127.0.0.1", url.port
        if url.scheme == "https":
            context = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=CONNECT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=CONNECT_S)
        connection.connect()
        connection.sock.settimeout(TIMEOUT_S)
        return connection


class GatewayProxy(ThreadingMixIn, UnixStreamServer):
    """Serves `target` on a Unix socket that listens already."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, target: ProxyTarget) -> None:
        self.target = target
        self.slots = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__("", GatewayProxyHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke is nobody's news."""


class GatewayProxyHandler(BaseHTTPRequestHandler):
    """One connection from inside the sandbox."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: GatewayProxy

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def address_string(self) -> str:
        return "sandbox"

    def log_message(self, format: str, *args: object) -> None:
        """The gateway keeps its own books."""

    def _handle(self) -> None:
        target = self.server.target
        length = self.headers.get("Content-Length", "0")
        if not target.allows(self.command, self.path) or "Transfer-Encoding" in self.headers:
            self._refuse(404, "not_found", "This socket does not lead there.")
        elif not length.isdigit() or int(length) > BODY_BYTES_MAX:
            self._refuse(413, "payload_too_large", "The request body is too large.")
        elif not self.server.slots.acquire(blocking=False):
            self._refuse(429, "busy", "Too many calls at once.")
        else:
            try:
                self._forward(self.rfile.read(int(length)))
            finally:
                self.server.slots.release()

    def _forward(self, body: bytes) -> None:
        target = self.server.target
        try:
            connection = target.connect()
        except OSError:
            self._refuse(502, "gateway_unreachable", "The gateway cannot be reached.")
            return
        try:
            headers = {
                name: self.headers[name] for name in _REQUEST_HEADERS if name in self.headers
            }
            headers |= {"Authorization": f"Bearer {target.api_key}", "Connection": "close"}
            connection.request(self.command, self.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            self._answer(answer)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            connection.close()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name in _ANSWER_HEADERS:
            if (value := answer.getheader(name)) is not None:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := answer.read1(PIECE_BYTES):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        # Without it the reader takes a body that broke off for a broken one, as it should.
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: int, reason: str, message: str) -> None:
        self.close_connection = True
        body = b'{"error":{"code":%d,"message":"%b","metadata":{"reason":"%b"}}}' % (
            status,
            message.encode(),
            reason.encode(),
        )
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self._linger()

    def _linger(self) -> None:
        """Take what is still being sent: who writes into a closed socket never reads its answer."""
        self.connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + LINGER_S
        while (left_s := until - time.monotonic()) > 0:
            self.connection.settimeout(left_s)
            if not self.connection.recv(PIECE_BYTES):
                return
