"""What one run measured, and the figures that follow from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from tests.load.decisions_part import Decided, decisions_part
from tests.load.figures import (
    COMMIT_SHARE,
    Commits,
    Figure,
    Interval,
    Pair,
    Part,
    figures,
    median_ratio,
    medians,
)
from tests.load.format_samples import Formats, formats_part
from tests.load.history import Told
from tests.load.history_part import history_part
from tests.load.plan import STREAMS
from tests.load.selecting import Choosing
from tests.load.toolless import Toolless

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
class Selected:
    """An interval of requests at 64 connections, and right after it the choice alone."""

    governed: Interval
    choosing: Choosing


@dataclass(frozen=True)
class Tools:
    """Loops of server tools beside single calls, and after each pair what tools do to a call that
    names none."""

    pairs: Sequence[Pair]
    toolless: Sequence[Toolless]


@dataclass(frozen=True)
class Samples:
    """What was measured of a run; a part that was not asked for is empty.

    Where `starts_s` is empty though asked for, `no_start` says why.
    """

    memory: Memory | None = None
    requests: Sequence[Pair] = ()
    rules: Sequence[Pair] = ()
    selection: Sequence[Selected] = ()
    single: Sequence[Single] = ()
    commits: Mapping[int, Commits] = field(default_factory=dict)
    streams: Sequence[Pair] = ()
    formats: Formats | None = None
    decisions: Decided | None = None
    tools: Tools | None = None
    history: Told | None = None
    starts_s: Sequence[float] = ()
    no_start: str = ""

    def figures(self) -> list[Figure]:
        """A line for each figure that was asked for, in the table's order."""
        parts = list(self._parts())
        values = {name: value for part in parts for name, value in part.values.items()}
        notes = {name: note for part in parts for name, note in part.notes.items()}
        bounds = {name: bound for part in parts for name, bound in part.bounds.items()}
        lines = figures(values, notes, bounds)
        return [line for line in lines if line.value is not None or line.note]

    def _parts(self) -> Iterator[Part]:
        if self.requests:
            yield _requests_part(self.requests)
        if self.rules:
            yield _rules_part(self.rules)
        if self.selection:
            yield _selection_part(self.selection)
        if self.single:
            yield _single_part(self.single)
        if self.commits:
            yield _commits_part(self.commits)
        if self.streams:
            yield _streams_part(self.streams)
        if self.formats is not None:
            yield formats_part(self.formats)
        if self.decisions is not None:
            yield decisions_part(self.decisions)
        if self.tools is not None:
            yield _tools_part(self.tools)
        if self.history is not None:
            yield history_part(self.history)
        if self.memory is not None:
            yield _memory_part(self.memory)
        if self.starts_s or self.no_start:
            yield _starts_part(self.starts_s, self.no_start)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _requests_part(pairs: Sequence[Pair]) -> Part:
    cpu, rate = medians(pairs, _cpu), medians(pairs, _rate)
    return Part(
        {"cpu_ratio": median_ratio(pairs, _cpu), "rate_ratio": median_ratio(pairs, _rate)},
        {
            "cpu_ratio": f"{cpu['governed']:.0f} us and {cpu['ceiling']:.0f} us",
            "rate_ratio": f"{rate['governed']:.0f}/s and {rate['ceiling']:.0f}/s",
        },
    )


def _rules_part(pairs: Sequence[Pair]) -> Part:
    """The second side of each pair is the gateway without rules."""
    cpu = medians(pairs, _cpu)
    note = f"{cpu['governed']:.0f} us and {cpu['ceiling']:.0f} us"
    return Part({"rules_ratio": median_ratio(pairs, _cpu)}, {"rules_ratio": note})


def _selection_part(samples: Sequence[Selected]) -> Part:
    """Shares and ratios are taken within each sample."""
    one_us = median(s.choosing.one_us for s in samples)
    request_us = median(_cpu(s.governed) for s in samples)
    large_us = median(s.choosing.large_us for s in samples)
    auto_us = median(s.choosing.auto_us for s in samples)
    return Part(
        {
            "selection_percent": median(s.choosing.one_us / _cpu(s.governed) for s in samples)
            * 100,
            "selection_large_ratio": median(
                s.choosing.large_us / s.choosing.one_us for s in samples
            ),
            "selection_auto_ratio": median(s.choosing.auto_us / s.choosing.one_us for s in samples),
        },
        {
            "selection_percent": f"{one_us:.1f} us of {request_us:.0f} us",
            "selection_large_ratio": f"{large_us:.1f} us",
            "selection_auto_ratio": f"{auto_us:.1f} us",
        },
    )


def _single_part(samples: Sequence[Single]) -> Part:
    commit_ms = median(sample.commit_ms for sample in samples)
    over_ceiling_ms = median(s.governed_ms - s.ceiling_ms for s in samples)
    note = (
        f"over a direct call; over the ceiling {over_ceiling_ms:.2f} ms; "
        f"1 ms + {COMMIT_SHARE} x one commit of {commit_ms:.2f} ms"
    )
    added_ms = median(s.governed_ms - s.direct_ms for s in samples)
    bound_ms = 1.0 + COMMIT_SHARE * commit_ms
    return Part({"added_p50_ms": added_ms}, {"added_p50_ms": note}, {"added_p50_ms": bound_ms})


def _commits_part(commits: Mapping[int, Commits]) -> Part:
    names = {f"commits_per_request_{connections}": one for connections, one in commits.items()}
    return Part(
        {name: one.per_request for name, one in names.items()},
        {name: f"raw {one.per_request_raw:.2f}; {one.idle_note}" for name, one in names.items()},
    )


def _streams_part(pairs: Sequence[Pair]) -> Part:
    cpu = medians(pairs, _cpu)
    note = f"{cpu['governed']:.1f} us and {cpu['ceiling']:.1f} us, {STREAMS} streams"
    return Part({"cpu_chunk_ratio": median_ratio(pairs, _cpu)}, {"cpu_chunk_ratio": note})


def _tools_part(tools: Tools) -> Part:
    """The second side of each pair is one call of the same model."""
    pairs, cpu = tools.pairs, medians(tools.pairs, _cpu)
    steps_us = [one.steps_us for one in tools.toolless]
    shares = [us / _cpu(pair.ceiling) for us, pair in zip(steps_us, pairs, strict=True)]
    return Part(
        {"tools_ratio": median_ratio(pairs, _cpu), "toolless_percent": median(shares) * 100},
        {
            "tools_ratio": f"{cpu['governed']:.0f} us and {cpu['ceiling']:.0f} us",
            "toolless_percent": f"{median(steps_us):.1f} us of {cpu['ceiling']:.0f} us",
        },
    )


def _memory_part(memory: Memory) -> Part:
    return Part(
        {
            "worker_idle_mb": memory.idle_bytes / _MB,
            "worker_growth_percent": memory.growth_share * 100,
        },
        {
            "worker_idle_mb": f"the larger one; warm {memory.warm_bytes / _MB:.1f} MB",
            "worker_growth_percent": f"to {memory.after_bytes / _MB:.1f} MB over "
            f"{memory.requests} requests",
        },
    )


def _starts_part(starts_s: Sequence[float], no_start: str) -> Part:
    values = {"second_start_s": median(starts_s)} if starts_s else {}
    return Part(values, {"second_start_s": no_start or f"{len(starts_s)} measured"})


def _cpu(interval: Interval) -> float:
    return interval.cpu_us_per_unit


def _rate(interval: Interval) -> float:
    return interval.units_per_s
