"""The measured turns of each gateway: A B C A B C, so that a slow minute touches all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from tests.load.figures import Figure, Interval, Pair, Required, align_rows, figures, ratio_line
from tests.load.generators import Generator
from tests.load.peers.servers import LITELLM, OURS, PORTKEY, Server
from tests.load.plan import BUSY_CONNECTIONS, CHUNKS_PER_S, STREAMS, Plan
from tests.load.streams import measured_streams

# LiteLLM needs several times as long as the upstream takes to send 200 streams.
_STREAM_GRACE_S = 180.0
_WARM_UP_STREAMS, _WARM_UP_CHUNKS = 20, 20


# How often each gateway has its turn, and for how long.
FULL = Plan(warm_up_s=6, rounds=5, busy_s=8, stream_rounds=3, stream_chunks=200)
QUICK = Plan(warm_up_s=1, rounds=1, busy_s=2, stream_rounds=1, stream_chunks=20)
# One turn of each gateway under the same load, by name.
Round = Mapping[str, Interval]
_CHUNKS = Required("chunk_cpu_of_litellm", "CPU per streamed chunk / LiteLLM's", "x", 0.08)
REQUIRED = (
    ("requests", PORTKEY, Required("cpu_of_portkey", "CPU per request / Portkey's", "x", 0.75)),
    ("requests", LITELLM, Required("cpu_of_litellm", "CPU per request / LiteLLM's", "x", 0.12)),
    ("chunks", LITELLM, _CHUNKS),
)


@dataclass(frozen=True)
class Compared:
    """Rounds of requests and of streams, the memory of each gateway after them, in bytes."""

    requests: Sequence[Round]
    chunks: Sequence[Round]
    memory_bytes: Mapping[str, int]

    def figures(self) -> list[Figure]:
        """The ratios that something is required of."""
        lines = {
            required.name: ratio_line([Pair(one[OURS], one[peer]) for one in getattr(self, load)])
            for load, peer, required in REQUIRED
        }
        return figures(lines, [required for _, _, required in REQUIRED])

    def own_figures(self, name: str) -> dict[str, float]:
        found = {"memory_mb": self.memory_bytes[name] / 1e6}
        for key, _, _, of in ROWS[:-1]:
            rounds = self.chunks if "chunk" in key else self.requests
            found[key] = median(getattr(one[name], of) for one in rounds)
        return found


# Key of a gateway's own figure, its heading, how it is written, and what of an interval it is.
ROWS = (
    ("cpu_us_per_request", "CPU per request, 64 connections", "{:,.0f} us", "cpu_us_per_unit"),
    ("database_us_per_request", "CPU of its database beside that", "{:,.0f} us", "beside_us"),
    ("requests_per_s", "Requests/s, 64 connections", "{:,.0f}", "units_per_s"),
    ("p50_ms", "p50, 64 connections", "{:,.1f} ms", "p50_ms"),
    ("cpu_us_per_chunk", "CPU per streamed chunk, 200 streams", "{:,.1f} us", "cpu_us_per_unit"),
    ("chunks_per_s", "Chunks/s, 200 streams of 20/s", "{:,.0f}", "units_per_s"),
    ("memory_mb", "Memory of all its processes", "{:,.0f} MB", ""),
)


def servers_table(servers: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [["", *servers]]
    rows += [
        [heading, *(form.format(of[key]) for of in servers.values())]
        for key, heading, form, _ in ROWS
    ]
    return align_rows(rows)


@dataclass
class Comparing:
    """Measures `servers` in turn. `answered` counts what this gateway must have in its books."""

    servers: Sequence[Server]
    generator: Generator
    plan: Plan
    say: Callable[[str], None]
    answered: int = field(default=0, init=False)

    def run(self) -> Compared:
        """Warm all up, then take turns. Raises `LoadFailed` and `ProcessReplaced`."""
        for server in self.servers:
            self.say(f"warming up {server.name}")
            self._load(server, self.plan.warm_up_s)
            self._read(server, _WARM_UP_STREAMS, _WARM_UP_CHUNKS)
        requests: list[Round] = []
        for number in range(self.plan.rounds):
            self.say(f"64 connections, round {number + 1} of {self.plan.rounds}")
            requests.append({one.name: self._load(one, self.plan.busy_s) for one in self.servers})
        chunks: list[Round] = []
        for number in range(self.plan.stream_rounds):
            self.say(f"{STREAMS} streams, round {number + 1} of {self.plan.stream_rounds}")
            words = self.plan.stream_chunks
            chunks.append({one.name: self._read(one, STREAMS, words) for one in self.servers})
        memory_bytes = {one.name: sum(one.tree.rss_bytes().values()) for one in self.servers}
        return Compared(requests, chunks, memory_bytes)

    def _load(self, server: Server, seconds: float) -> Interval:
        database = server.beside.cpu_s() if server.beside else {}
        done, _ = self.generator.interval(
            server.whole, server.tree, connections=BUSY_CONNECTIONS, seconds=seconds
        )
        beside_s = grown_s(database, server.beside.cpu_s()) if server.beside else 0.0
        self.answered += done.units if server.name == OURS else 0
        return replace(done, beside_cpu_s=beside_s)

    def _read(self, server: Server, streams: int, chunks: int) -> Interval:
        within_s, target = chunks / CHUNKS_PER_S + _STREAM_GRACE_S, server.with_chunks(chunks)
        done = measured_streams(target, server.tree, streams=streams, within_s=within_s)
        self.answered += streams if server.name == OURS else 0
        return done


def grown_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """CPU seconds of processes that come and go: one that ended in between is left out."""
    return sum(cpu_s - before.get(pid, 0.0) for pid, cpu_s in after.items())
