"""A stream that ticks through a gateway, and the longest silence its reader meets."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from routing.simulator.testing import RawConnection
from tests.gateway.outbound.raw_upstream import Peer, RawUpstream
from tests.support.callers import begin
from tests.support.gateways import SeededAccount
from tests.support.processes import cpu_s
from tests.support.server import GatewayServer

TICK_S = 0.02
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"tick "}}]}\n\n'


@contextmanager
def ticking_upstream() -> Iterator[RawUpstream]:
    """Answers everything with an event each 20 ms until it stops."""
    stopping = threading.Event()

    def tick(peer: Peer) -> None:
        peer.read_request()
        peer.send(_HEAD)
        with suppress(OSError):
            while not stopping.wait(TICK_S):
                peer.send(_EVENT)

    with RawUpstream(tick) as upstream:
        yield upstream
        stopping.set()


def worker_cpu_s(server: GatewayServer) -> float:
    """CPU that the server's workers have used so far."""
    workers = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return sum(cpu_s(int(pid)) for pid in workers)


class Listener:
    """Reads a ticking stream in a thread of its own.

    On a busy machine everybody falls silent now and then. What the gateway did of it is what its
    workers computed meanwhile; with `waits` its waiting is counted too.
    """

    def __init__(self, wire: RawConnection, server: GatewayServer) -> None:
        self._wire = wire
        self._server = server
        self._lock = threading.Lock()
        self._longest_s = {False: 0.0, True: 0.0}
        self._heard = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self.until_another()

    def _listen(self) -> None:
        at, cpu_s = time.monotonic(), worker_cpu_s(self._server)
        with suppress(OSError):
            while self._wire.more():
                self._wire.received.clear()
                before_at, before_cpu_s = at, cpu_s
                at, cpu_s = time.monotonic(), worker_cpu_s(self._server)
                self._note(at - before_at - TICK_S, cpu_s - before_cpu_s)
                self._heard.set()

    def _note(self, silent_s: float, computed_s: float) -> None:
        longest = self._longest_s
        with self._lock:
            longest[True] = max(longest[True], silent_s)
            longest[False] = max(longest[False], min(silent_s, computed_s))

    def silence_s(self, work: Callable[[], object], *, waits: bool = False) -> float:
        """The longest silence while `work` was done, seconds beyond one tick."""
        with self._lock:
            self._longest_s.update({False: 0.0, True: 0.0})
        work()
        self.until_another()
        with self._lock:
            return self._longest_s[waits]

    def until_another(self) -> None:
        """Until something more was heard."""
        self._heard.clear()
        assert self._heard.wait(60)

    def close(self) -> None:
        with suppress(OSError):
            self._wire.socket.shutdown(2)
        self._thread.join(10)
        self._wire.close()


@contextmanager
def listening(server: GatewayServer, account: SeededAccount, model: str) -> Iterator[Listener]:
    """A stream of `model`, flowing."""
    with ExitStack() as stack:
        messages = [{"role": "user", "content": "Tick"}]
        port = int(server.env["PORT"])
        wire = begin(port, account.api_key, model=model, messages=messages, stream=True)
        status, _ = wire.head()
        assert status == 200, server.log()
        listener = Listener(wire, server)
        stack.callback(listener.close)
        yield listener
