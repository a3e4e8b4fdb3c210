"""What the rounds of all gateways say: medians of each, and ratios taken within a round."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.load.figures import Figure, Interval, Pair, Required, median_ratio
from tests.load.peers.servers import LITELLM, OURS, PORTKEY
from tests.load.report import aligned

# One turn of each gateway under the same load, by name.
Round = Mapping[str, Interval]

REQUESTS, CHUNKS = "requests", "chunks"
REQUIRED = (
    (REQUESTS, PORTKEY, Required("cpu_of_portkey", "CPU per request / Portkey's", "x", 0.75)),
    (REQUESTS, LITELLM, Required("cpu_of_litellm", "CPU per request / LiteLLM's", "x", 0.12)),
    (
        CHUNKS,
        LITELLM,
        Required("chunk_cpu_of_litellm", "CPU per streamed chunk / LiteLLM's", "x", 0.08),
    ),
)


@dataclass(frozen=True)
class Compared:
    """Rounds of requests and of streams, the memory of each gateway after them, in bytes."""

    requests: Sequence[Round]
    chunks: Sequence[Round]
    memory_bytes: Mapping[str, int]

    def figures(self) -> list[Figure]:
        """The ratios that something is required of."""
        return [
            Figure(required, median_ratio(self._pairs(load, peer), _cpu), required.bound)
            for load, peer, required in REQUIRED
        ]

    def _pairs(self, load: str, peer: str) -> list[Pair]:
        rounds = self.requests if load == REQUESTS else self.chunks
        return [Pair(one[OURS], one[peer]) for one in rounds]

    def servers(self) -> dict[str, dict[str, float]]:
        """Each gateway's own figures, by its name."""
        return {name: self._server(name) for name in self.requests[0]}

    def _server(self, name: str) -> dict[str, float]:
        def middle(rounds: Sequence[Round], of: Callable[[Interval], float]) -> float:
            return median(of(one[name]) for one in rounds)

        return {
            "cpu_us_per_request": middle(self.requests, _cpu),
            "database_us_per_request": middle(self.requests, _beside),
            "requests_per_s": middle(self.requests, _rate),
            "p50_ms": middle(self.requests, lambda one: one.p50_ms),
            "cpu_us_per_chunk": middle(self.chunks, _cpu),
            "chunks_per_s": middle(self.chunks, _rate),
            "memory_mb": self.memory_bytes[name] / 1e6,
        }


# Key of a gateway's own figure, its heading, and how it is written.
ROWS = (
    ("cpu_us_per_request", "CPU per request, 64 connections", "{:,.0f} us"),
    ("database_us_per_request", "CPU of its database beside that", "{:,.0f} us"),
    ("requests_per_s", "Requests/s, 64 connections", "{:,.0f}"),
    ("p50_ms", "p50, 64 connections", "{:,.1f} ms"),
    ("cpu_us_per_chunk", "CPU per streamed chunk, 200 streams", "{:,.1f} us"),
    ("chunks_per_s", "Chunks/s, 200 streams of 20/s", "{:,.0f}"),
    ("memory_mb", "Memory of all its processes", "{:,.0f} MB"),
)


def servers_table(servers: Mapping[str, Mapping[str, Any]]) -> str:
    """A column for each gateway."""
    rows = [["", *servers]]
    rows += [
        [heading, *(form.format(of[key]) for of in servers.values())] for key, heading, form in ROWS
    ]
    return aligned(rows)


def _cpu(interval: Interval) -> float:
    return interval.cpu_us_per_unit


def _beside(interval: Interval) -> float:
    return interval.beside_cpu_s * 1e6 / interval.units


def _rate(interval: Interval) -> float:
    return interval.units_per_s
