"""An upstream that says exactly the bytes a test gives it, on loopback, each peer in a thread."""

import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Self

PATIENCE_S = 120.0


class Peer:
    """The upstream's end of one connection."""

    def __init__(self, sock: socket.socket, upstream: "RawUpstream", number: int) -> None:
        self.sock = sock
        self.number = number
        self._upstream = upstream

    def read_request(self) -> bytes | None:
        """One whole request, None when the gateway's end is closed."""
        received = b""
        while (head_end := received.find(b"\r\n\r\n")) < 0:
            received += self._recv()
            if not received or self._upstream.stopping.is_set():
                return None
        length = re.search(rb"\r\ncontent-length: (\d+)", received[:head_end].lower())
        total = head_end + 4 + (int(length[1]) if length else 0)
        while len(received) < total:
            received += self._recv() or b"?" * total
        self._upstream.requests.append(received)
        return received

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_until_gone(self, data: bytes) -> None:
        """Say the same for ever."""
        while not self._upstream.stopping.is_set():
            self.sock.sendall(data)

    def drip(self, data: bytes, every_s: float) -> None:
        """Send ``data`` again and again until the gateway leaves."""
        self.sock.settimeout(every_s)
        while not self._upstream.stopping.is_set():
            self.sock.sendall(data)
            try:
                if not self.sock.recv(1):
                    self._upstream.gone.set()
                    return
            except TimeoutError:
                continue

    def wait_gone(self) -> None:
        """Say nothing until the gateway's end is closed."""
        with contextlib.suppress(ConnectionResetError):
            while self._recv():
                pass
        self._upstream.gone.set()

    def hold(self) -> None:
        """Keep the connection open, unread, until the test is over."""
        self._upstream.stopping.wait(PATIENCE_S)

    def reset(self) -> None:
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _recv(self) -> bytes:
        return self.sock.recv(65536)


class RawUpstream:
    """Listens on a free port and gives every connection to ``script``.

    ``requests`` holds what came, ``gone`` is set when a script saw the gateway leave.
    """

    def __init__(
        self, script: Callable[[Peer], None], tls_context: ssl.SSLContext | None = None
    ) -> None:
        self._script = script
        self._tls_context = tls_context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._threads = [threading.Thread(target=self._accept)]
        self._socks: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls_context else 'http'}://127.0.0.1:{self.port}"
        self.requests: list[bytes] = []
        self.connections = 0
        self.gone = threading.Event()
        self.stopping = threading.Event()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        # shutdown wakes the thread that accepts; close alone would leave it waiting.
        self._listener.shutdown(socket.SHUT_RDWR)
        for sock in self._socks:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                self._socks.append(sock)
                thread = threading.Thread(target=self._serve, args=(sock, self.connections))
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(sock.close)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls_context is not None:
                sock = self._tls_context.wrap_socket(sock, server_side=True)
                stack.callback(sock.close)
                self._socks.append(sock)
            self._script(Peer(sock, self, number))


def answer(body: bytes = b"hi", *headers: str, status: str = "200 OK") -> bytes:
    """A whole reply with a true content-length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked_head(*headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def always(reply: bytes) -> Callable[[Peer], None]:
    """Answer each request on a connection with the same bytes."""

    def script(peer: Peer) -> None:
        while peer.read_request() is not None:
            peer.send(reply)

    return script


def turns(*steps: bytes | Callable[[Peer], object]) -> Callable[[Peer], None]:
    """Bytes are said when the next request has come, anything else is done with the peer."""

    def script(peer: Peer) -> None:
        for step in steps:
            if isinstance(step, bytes):
                peer.read_request()
                peer.send(step)
            else:
                step(peer)

    return script


def lasting(*parts: bytes) -> Callable[[Peer], None]:
    """Say this at the first request and then nothing until the gateway leaves."""
    return turns(b"".join(parts), Peer.wait_gone)


def endless(start: bytes, more: bytes) -> Callable[[Peer], None]:
    return turns(start, lambda peer: peer.send_until_gone(more))
