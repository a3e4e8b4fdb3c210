"""The measured turns of each gateway: A B C A B C, so that a slow minute touches all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.load.accounting import spent_s
from tests.load.figures import Interval
from tests.load.generators import Generator, LoadFailed
from tests.load.peers.figures import Compared, Round
from tests.load.peers.servers import OURS, Server
from tests.load.plan import BUSY_CONNECTIONS, CHUNKS_PER_S, STREAMS
from tests.load.streams import read_streams

# LiteLLM needs several times as long as the upstream takes to send 200 streams.
_STREAM_GRACE_S = 180.0
_WARM_UP_STREAMS = 20
_WARM_UP_CHUNKS = 20


@dataclass(frozen=True)
class PeerPlan:
    """How often each gateway has its turn, and for how long."""

    warm_up_s: float
    rounds: int
    busy_s: float
    stream_rounds: int
    stream_chunks: int


FULL = PeerPlan(warm_up_s=6, rounds=5, busy_s=8, stream_rounds=3, stream_chunks=200)
QUICK = PeerPlan(warm_up_s=1, rounds=1, busy_s=2, stream_rounds=1, stream_chunks=20)


@dataclass
class Comparing:
    """Measures `servers` in turn. `answered` counts what this gateway must have in its books."""

    servers: Sequence[Server]
    generator: Generator
    plan: PeerPlan
    say: Callable[[str], None]
    answered: int = field(default=0, init=False)

    def run(self) -> Compared:
        """Warm all up, then take turns. Raises `LoadFailed` and `ProcessReplaced`."""
        self._warm_up()
        requests: list[Round] = []
        for number in range(self.plan.rounds):
            self.say(f"64 connections, round {number + 1} of {self.plan.rounds}")
            requests.append({one.name: self._load(one, self.plan.busy_s) for one in self.servers})
        chunks: list[Round] = []
        for number in range(self.plan.stream_rounds):
            self.say(f"{STREAMS} streams, round {number + 1} of {self.plan.stream_rounds}")
            words = self.plan.stream_chunks
            chunks.append({one.name: self._read(one, STREAMS, words) for one in self.servers})
        memory_bytes = {one.name: one.tree.rss_bytes() for one in self.servers}
        return Compared(requests, chunks, memory_bytes)

    def _warm_up(self) -> None:
        for server in self.servers:
            self.say(f"warming up {server.name}")
            self._load(server, self.plan.warm_up_s)
            self._read(server, _WARM_UP_STREAMS, _WARM_UP_CHUNKS)

    def _load(self, server: Server, seconds: float) -> Interval:
        database = server.beside.cpu_s() if server.beside else {}
        before = server.tree.cpu_s()
        with _named(server):
            load = self.generator.run(server.whole, connections=BUSY_CONNECTIONS, seconds=seconds)
        cpu_s = spent_s(before, server.tree.cpu_s())
        beside_s = grown_s(database, server.beside.cpu_s()) if server.beside else 0.0
        if server.name == OURS:
            self.answered += load.requests - load.failed
        return Interval(load.requests, load.seconds, cpu_s, load.p50_ms, beside_s)

    def _read(self, server: Server, streams: int, chunks: int) -> Interval:
        within_s = chunks / CHUNKS_PER_S + _STREAM_GRACE_S
        before = server.tree.cpu_s()
        with _named(server):
            done = read_streams(server.with_chunks(chunks), streams=streams, within_s=within_s)
        cpu_s = spent_s(before, server.tree.cpu_s())
        if server.name == OURS:
            self.answered += streams
        return Interval(done.chunks, done.seconds, cpu_s)


@contextmanager
def _named(server: Server) -> Iterator[None]:
    """What fails under load says whose load it was."""
    try:
        yield
    except LoadFailed as error:
        raise LoadFailed(f"{server.name}: {error}") from error


def grown_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """CPU seconds of processes that come and go: one that ended in between is left out."""
    return sum(cpu_s - before.get(pid, 0.0) for pid, cpu_s in after.items())
