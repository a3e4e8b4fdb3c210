"""Web processes as far as they share what they have seen, all of them in this one; and whoever
answers them."""

from collections.abc import Callable
from typing import Any

from gateway.shared_cache import SharedCache
from routing.entities.entries import EndpointEntry
from routing.selection.health import EndpointHealth
from routing.selection.types import EndpointStats
from routing.statistics.observation import Observer
from routing.statistics.peer_sync import PeerSync
from tests.gateway.outbound.raw_upstream import Peer
from tests.routing.serving.learning import FAILURE, Clock, attempt, figures, observer, refresh_all


class Answers:
    """An upstream that answers everything with the same body, and remembers what it was sent."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status = body, status
        self.heads: list[bytes] = []

    def __call__(self, peer: Peer) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.sock.recv(65_536)
        self.heads.append(head)
        said = b"Content-Type: application/json\r\nContent-Length: %d" % len(self.body)
        start = b"HTTP/1.1 %d X\r\n%b\r\nConnection: close" % (self.status, said)
        peer.send(start + b"\r\n\r\n" + self.body)


class Process:
    """One web process's statistics, health and part in sharing."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.clock = clock
        self.seen: Observer = observer(clock, collects=True)
        self.health = EndpointHealth(window_s=30, probe_s=10)
        self.hints = SharedCache(url, timeout_s=0.1)
        self.sharing = PeerSync(self.seen, self.health, self.hints, clock=clock)

    def sync(self) -> bool:
        refresh_all(self.seen)
        done = self.sharing.sync()
        refresh_all(self.seen)
        return done

    def answers(self, at: EndpointEntry, count: int = 10) -> None:
        for _ in range(count):
            self.health.record_success(at.pk, self.clock.now)
            self.seen.record_attempt(attempt(self.clock, at), streamed=True, tokens=50)

    def fails(self, at: EndpointEntry, failure: Any = FAILURE) -> None:
        """As `Attempts.failed` does it."""
        if failure.parked:
            self.health.park(at.pk, self.clock.now, hint_s=10)
        else:
            self.health.record_failure(at.pk, self.clock.now)
        self.seen.record_attempt(attempt(self.clock, at, failure=failure), streamed=True)

    def figures(self, at: EndpointEntry) -> EndpointStats:
        return figures(self.seen, at)

    def unstable(self, at: EndpointEntry) -> bool:
        return at.pk in self.health.snapshot(self.clock.now).unstable


Start = Callable[[], Process]


def pass_round(*processes: Process) -> None:
    """Each tells and hears, one after the other."""
    for process in processes:
        process.sync()
