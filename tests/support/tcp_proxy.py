"""A TCP proxy that misbehaves on command, to stand between the gateway and its stores."""

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

from tests.support.postgres import free_port
from tests.support.postgres_wire import Wire

_CHUNK_BYTES = 65536
# Closing with no time to linger resets the connection, as a machine that went away would.
_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """Listens on `port` of an address and relays to the upstream. That is a host and port, or the
    path of a Unix socket (its port is then ignored).

    As long as nothing is asked of it, bytes pass. `delay_s` is added to every chunk, either way.
    `cuts` counts the connections that a COMMIT ended. All methods are safe from any thread.
    """

    def __init__(
        self, upstream_host: str, upstream_port: int = 0, *, address: str = "127.0.0.1"
    ) -> None:
        self._upstream = upstream_host, upstream_port
        self._address = address
        self.port = free_port()
        self.delay_s = 0.0
        self.cuts = 0
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._listener: socket.socket | None = None
        self._flowing = threading.Event()
        self._closed = threading.Event()
        self._was_cut = threading.Event()
        self._armed: tuple[str, bytes] | None = None

    def __enter__(self) -> Self:
        self._flowing.set()
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._flowing.set()
        self._deafen()
        self.cut()

    # --- What tests ask of it -------------------------------------------------------------------

    def freeze(self) -> None:
        """From now on nothing passes, either way, not even the end of a connection; new
        connections are taken and get no answer. Nothing is lost: it passes once thawed."""
        self._flowing.clear()

    def refuse(self) -> None:
        """From now on new connections are refused; those that are open stay (see `cut`)."""
        self._deafen()

    def thaw(self) -> None:
        """Pass again, after `freeze` or `refuse`."""
        self._flowing.set()
        self._listen()

    def cut(self) -> None:
        """Reset every open connection on both sides, now."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            link.close()

    def cut_after_commit(self, containing: str = "") -> None:
        """Cut one connection when PostgreSQL's answer to its next COMMIT has arrived here: it has
        committed, and its client will never know. `containing` picks a transaction by a text that
        one of its statements contains."""
        self._arm("after", containing)

    def cut_before_commit(self, containing: str = "") -> None:
        """Cut one connection in place of delivering its next COMMIT: PostgreSQL rolls back."""
        self._arm("before", containing)

    def wait_cut(self, timeout_s: float) -> None:
        """Wait for the cut that was asked for last."""
        assert self._was_cut.wait(timeout_s), "no COMMIT came along"

    @property
    def connections(self) -> int:
        """How many are open, or waiting for the thaw."""
        return len(self._links)

    # --- The relay ------------------------------------------------------------------------------

    def _arm(self, moment: str, containing: str) -> None:
        self._was_cut.clear()
        self._armed = moment, containing.encode()

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server((self._address, self.port), backlog=512)
                accepting = threading.Thread(
                    target=self._accept, args=(self._listener,), daemon=True
                )
                accepting.start()

    def _deafen(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            # It is the shutdown that wakes the accepting thread.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._open, args=(client,), daemon=True).start()

    def _open(self, client: socket.socket) -> None:
        link = _Link(client, self._upstream)
        with self._lock:
            self._links.add(link)
        self._flowing.wait()
        try:
            link.connect(self._upstream)
        except OSError:
            self._end(link)
            return
        back = threading.Thread(target=self._relay, args=(link, False), daemon=True)
        back.start()
        self._relay(link, True)

    def _relay(self, link: "_Link", asks: bool) -> None:
        """Pass one direction on; `asks` is the client's."""
        source, target = (link.client, link.server) if asks else (link.server, link.client)
        with suppress(OSError):
            while data := self._receive(source):
                passed, cut = self._inspect(link, data, asks)
                target.sendall(passed)
                if cut:
                    self._end(link)
                    self.cuts += 1
                    self._was_cut.set()
                    return
        self._end(link)

    def _receive(self, source: socket.socket) -> bytes:
        data = source.recv(_CHUNK_BYTES)
        if self.delay_s:
            self._closed.wait(self.delay_s)
        self._flowing.wait()
        return data

    def _inspect(self, link: "_Link", data: bytes, asks: bool) -> tuple[bytes, bool]:
        """What to pass on of a chunk, and whether to cut the connection then."""
        commit_at = link.wire.find_question(data) if asks else link.wire.find_answer(data)
        if commit_at is None:
            return data, False
        with self._lock:
            if self._armed is None:
                return data, False
            moment, containing = self._armed
            if (moment == "before") is not asks or not link.wire.has_touched(containing):
                return data, False
            self._armed = None
        return data[:commit_at], True

    def _end(self, link: "_Link") -> None:
        with self._lock:
            self._links.discard(link)
        link.close()


class _Link:
    """One connection, both its ends."""

    def __init__(self, client: socket.socket, upstream: tuple[str, int]) -> None:
        self.client = client
        self.server = socket.socket(
            socket.AF_UNIX if upstream[0].startswith("/") else socket.AF_INET
        )
        self.wire = Wire()

    def connect(self, upstream: tuple[str, int]) -> None:
        self.server.connect(upstream[0] if upstream[0].startswith("/") else upstream)
        for end in (self.client, self.server):
            if end.family == socket.AF_INET:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
