"""What one run measured, and the figures that follow from it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tests.load.figures import (
    COMMIT_SHARE,
    Commits,
    Figure,
    Interval,
    Pair,
    figures,
    median_ratio,
    medians,
)
from tests.load.plan import BUSY_CONNECTIONS, STREAMS

_MB = 1e6


@dataclass(frozen=True)
class Single:
    """One connection: p50 of the gateway, the ceiling, the bare upstream, and one commit."""

    governed_ms: float
    ceiling_ms: float
    direct_ms: float
    commit_ms: float


@dataclass(frozen=True)
class Memory:
    """Resident bytes of the largest worker, and the greatest growth of one, as a share."""

    idle_bytes: int
    warm_bytes: int
    after_bytes: int
    growth_share: float
    requests: int


@dataclass(frozen=True)
class Samples:
    """All of a run. Where `starts_s` is empty, `no_start` says why."""

    memory: Memory
    busy: Sequence[Pair]
    single: Sequence[Single]
    commits: dict[int, Commits]
    streams: Sequence[Pair]
    starts_s: Sequence[float]
    no_start: str = ""

    def figures(self) -> list[Figure]:
        """Every line of the table."""
        single, many = self.commits[1], self.commits[BUSY_CONNECTIONS]
        values = {
            "cpu_ratio": median_ratio(self.busy, _cpu),
            "rate_ratio": median_ratio(self.busy, _rate),
            "added_p50_ms": median(s.governed_ms - s.direct_ms for s in self.single),
            "commits_per_request_1": single.per_request,
            "commits_per_request_64": many.per_request,
            "cpu_chunk_ratio": median_ratio(self.streams, _cpu),
            "worker_idle_mb": self.memory.idle_bytes / _MB,
            "worker_growth_percent": self.memory.growth_share * 100,
        }
        if self.starts_s:
            values["second_start_s"] = median(self.starts_s)
        return figures(values, self._notes(), commit_p50_ms=self._commit_ms())

    def _commit_ms(self) -> float:
        return median(sample.commit_ms for sample in self.single)

    def _notes(self) -> dict[str, str]:
        cpu, rate = medians(self.busy, _cpu), medians(self.busy, _rate)
        chunk, memory = medians(self.streams, _cpu), self.memory
        over_ceiling_ms = median(s.governed_ms - s.ceiling_ms for s in self.single)
        single, many = self.commits[1], self.commits[BUSY_CONNECTIONS]
        return {
            "cpu_ratio": f"{cpu['governed']:.0f} us and {cpu['ceiling']:.0f} us",
            "rate_ratio": f"{rate['governed']:.0f}/s and {rate['ceiling']:.0f}/s",
            "added_p50_ms": f"over a direct call; over the ceiling {over_ceiling_ms:.2f} ms; "
            f"1 ms + {COMMIT_SHARE} x one commit of {self._commit_ms():.2f} ms",
            "commits_per_request_1": f"raw {single.per_request_raw:.2f}; {single.idle_note}",
            "commits_per_request_64": f"raw {many.per_request_raw:.2f}; {many.idle_note}",
            "cpu_chunk_ratio": f"{chunk['governed']:.1f} us and {chunk['ceiling']:.1f} us, "
            f"{STREAMS} streams",
            "worker_idle_mb": f"the larger one; warm {memory.warm_bytes / _MB:.1f} MB",
            "worker_growth_percent": f"to {memory.after_bytes / _MB:.1f} MB over "
            f"{memory.requests} requests",
            "second_start_s": self.no_start or f"{len(self.starts_s)} measured",
        }

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _cpu(interval: Interval) -> float:
    return interval.cpu_us_per_unit


def _rate(interval: Interval) -> float:
    return interval.units_per_s
