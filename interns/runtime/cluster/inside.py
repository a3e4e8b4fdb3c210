"""What runs beside an agent in its Pod, and what reads its disk while there is none:
`python -m interns.runtime.cluster.inside door|disk`. Orders are in a file of the Pod's Secret.

Standard library and our own only: there is one beside every agent.
"""

import hmac
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from interns.runtime.disk_archive import pack, unpack
from interns.runtime.proxies import GatewayProxy, ProxyTarget, SocketProxy

RUN: Final = "/run/gateway"
# The way to the gateway, which an agent cannot change, and where it listens.
DOOR, INSIDE = "door", "inside"
VOLUME: Final = "/intern"
# Beside what a file system has in its root for itself.
DISK: Final = f"{VOLUME}/disk"
ORDERS_FOLDER: Final = "/run/orders"
ORDERS_FILE: Final = "orders.json"
AGENT_CONFIG: Final = f"{RUN}/{INSIDE}/config.json"
DOOR_PORT: Final = 8700
_COPY_BYTES: Final = 1_048_576
_BEGUN: Final = ".begun"


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    orders = json.loads((Path(ORDERS_FOLDER) / ORDERS_FILE).read_bytes())
    address = (os.environ.get("POD_IP", ""), DOOR_PORT)
    if sys.argv[1:] == ["disk"]:
        DiskServer(address, orders["token"], Path(DISK)).serve_forever()
    else:
        serve_door(orders, address, Path(RUN))


def serve_door(orders: dict[str, Any], address: tuple[str, int], run: Path) -> None:
    """Pass calls on in both directions. Where nothing has begun yet, write the agent's config."""
    door, inside = run / DOOR, run / INSIDE
    allowed = [(method, pattern) for method, pattern in orders["allowed"]]
    target = ProxyTarget(orders["gateway_url"], orders["api_key"], allowed)
    gateway_proxy = GatewayProxy(_listen_unix(door / "gateway.sock"), target)
    threading.Thread(target=gateway_proxy.serve_forever, daemon=True).start()
    # A door that begins again has an agent already, which may have put anything there.
    if not (door / _BEGUN).exists():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(inside / "config.json", flags, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(orders["agent"], file)
        (door / _BEGUN).touch()
    # Last: the agent begins once there is somebody to be called at.
    SocketProxy(_listen(address), inside, "agent.sock").serve_forever()


def _listen_unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(64)
    return listener


def _listen(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=64)


class DiskServer(ThreadingHTTPServer):
    """The disk as a tar: `GET /disk` writes it, `GET /files` says how many files the last one had,
    `POST /disk` puts one onto the disk. All for who has the token."""

    daemon_threads = True
    files = -1

    def __init__(self, address: tuple[str, int], token: str, disk: Path) -> None:
        self.token, self.disk = token, disk
        disk.mkdir(mode=0o700, exist_ok=True)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _DiskHandler)


class _DiskHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: DiskServer

    def do_GET(self) -> None:
        self._answer({"/disk": self._send_disk, "/files": self._send_files})

    def do_POST(self) -> None:
        self._answer({"/disk": self._fill_disk})

    def log_message(self, format: str, *args: object) -> None:
        """The gateway keeps its own books."""

    def _answer(self, ways: dict[str, Callable[[], None]]) -> None:
        wanted = f"Bearer {self.server.token}"
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), wanted.encode()) or self.path not in ways:
            self.close_connection = True
            self._send(404, {"error": "not found"})
            return
        try:
            ways[self.path]()
        except OSError:
            # The reader takes a body that broke off for what it is.
            self.close_connection = True

    def _send_disk(self) -> None:
        self.server.files = -1
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = _Chunks(self.wfile)
        files = pack(self.server.disk, cast(BinaryIO, pieces))
        pieces.end()
        self.server.files = files

    def _send_files(self) -> None:
        self._send(200, {"files": self.server.files})

    def _fill_disk(self) -> None:
        archive = _Body(self.rfile, int(self.headers.get("Content-Length", "0")))
        try:
            # As it comes: the volume need not have room for it twice.
            files = unpack(cast(BinaryIO, archive), self.server.disk).files
            archive.skip_rest()
            self._send(200, {"files": files})
        except (OSError, ValueError) as error:
            self.close_connection = True
            # A client that still writes reads no answer.
            with suppress(OSError):
                archive.skip_rest()
            self._send(500, {"error": str(error)[:500]})

    def _send(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Body:
    """So many bytes of a connection, as a file that is read once."""

    def __init__(self, source: Any, left: int) -> None:
        self._source, self._left = source, left

    def read(self, size: int) -> bytes:
        piece: bytes = self._source.read(min(size, self._left))
        self._left -= len(piece)
        if self._left and not piece:
            raise OSError("the archive broke off")
        return piece

    def skip_rest(self) -> None:
        while self.read(_COPY_BYTES):
            pass


class _Chunks:
    """A file whose pieces go out as they are written; it knows how far it is."""

    def __init__(self, into: Any) -> None:
        self._into, self._bytes = into, 0

    def write(self, piece: bytes) -> int:
        if piece:
            self._into.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self._bytes += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._bytes

    def end(self) -> None:
        self._into.write(b"0\r\n\r\n")


if __name__ == "__main__":
    main()
