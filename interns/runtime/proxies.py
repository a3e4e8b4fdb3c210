"""What a supervisor passes on: the agent's calls to the gateway, and connections to an agent that
listens in a container.

Standard library only, because every supervisor runs it.
"""

import http.client
import os
import re
import socket
import ssl
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingMixIn, UnixStreamServer
from urllib.parse import urlsplit

BODY_BYTES_MAX = 33_554_432
REQUESTS_MAX = 16
PIECE_BYTES = 65_536
TIMEOUT_S = 620.0
CONNECT_S = 5.0
INSIDE_S = 2.0
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
    """The gateway's socket inside a sandbox: a few of its paths, with the intern's key added. Each
    request has a thread; bodies have a length, answers are passed on as they come."""

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

    def address_string(self) -> str:
        return "sandbox"

    def log_message(self, format: str, *args: object) -> None:
        """The gateway keeps its own books."""

    def do_GET(self) -> None:
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

    do_POST = do_GET

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
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            connection.close()

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
            # Take what is still being sent: who writes into a closed socket never reads its answer.
            self.connection.shutdown(socket.SHUT_WR)
            until = time.monotonic() + LINGER_S
            while (left_s := until - time.monotonic()) > 0:
                self.connection.settimeout(left_s)
                if not self.connection.recv(PIECE_BYTES):
                    return


# --- Into a container -----------------------------------------------------------------------------


class NoSocket(OSError):
    """There is no socket of that name in the folder."""


def connect_inside(folder: Path, name: str) -> socket.socket:
    """Connect to a socket in a folder that a stranger may write to. Raises `OSError`.

    What is opened is what is looked at, so that no link leads to another socket of the host.
    """
    inside = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    finally:
        os.close(inside)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise NoSocket(name)
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(INSIDE_S)
        try:
            made.connect(f"/proc/self/fd/{found}")
        except OSError:
            made.close()
            raise
        made.settimeout(None)
        return made
    finally:
        os.close(found)


class SocketProxy(ThreadingMixIn, UnixStreamServer):
    """Passes each connection on to the socket `name` in `folder`, which a container may replace
    with anything."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        super().__init__("", _ProxiedConnection, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke is nobody's news."""


class _ProxiedConnection(BaseRequestHandler):
    server: SocketProxy

    def handle(self) -> None:
        with connect_inside(self.server.folder, self.server.name) as inside:
            back = threading.Thread(target=_copy, args=(inside, self.request), daemon=True)
            back.start()
            _copy(self.request, inside)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Until the source ends; then the target hears no more."""
    with suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
