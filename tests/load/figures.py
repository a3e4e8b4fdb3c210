"""From samples to figures: medians, ratios of interleaved pairs, and what each must reach."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of them do not exceed. Needs one value."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


@dataclass(frozen=True)
class Interval:
    """One measured interval of one server. `units` are requests, or chunks of streams.

    `beside_cpu_s` is what was spent for it outside its own processes: by its database.
    """

    units: int
    seconds: float
    cpu_s: float
    p50_ms: float = 0.0
    beside_cpu_s: float = 0.0

    @property
    def cpu_us_per_unit(self) -> float:
        return self.cpu_s * 1e6 / self.units

    @property
    def units_per_s(self) -> float:
        return self.units / self.seconds


@dataclass(frozen=True)
class Pair:
    """The same load on the gateway and, right after it, on what it is measured against."""

    governed: Interval
    ceiling: Interval


def median_ratio(pairs: Sequence[Pair], of: Callable[[Interval], float]) -> float:
    """The median of the pairs' own ratios, so that a slow minute touches both sides of one."""
    return median(of(pair.governed) / of(pair.ceiling) for pair in pairs)


def medians(pairs: Sequence[Pair], of: Callable[[Interval], float]) -> dict[str, float]:
    """Either side's median."""
    return {
        "governed": median(of(pair.governed) for pair in pairs),
        "ceiling": median(of(pair.ceiling) for pair in pairs),
    }


@dataclass(frozen=True)
class Commits:
    """One interval's commits by the database's counter; `idle_per_s` come without any request."""

    requests: int
    raw: int
    seconds: float
    idle_per_s: float

    @property
    def per_request_raw(self) -> float:
        return self.raw / self.requests

    @property
    def per_request(self) -> float:
        return (self.raw - self.idle_per_s * self.seconds) / self.requests

    @property
    def idle_note(self) -> str:
        return f"{self.idle_per_s:.1f}/s without requests taken off"


@dataclass(frozen=True)
class Required:
    """A line of the table: what the figure means and its bound. `is_ratio` ones are compared."""

    name: str
    text: str
    unit: str
    bound: float
    at_least: bool = False
    is_ratio: bool = False

    def is_met(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound

    def is_worse(self, *, before: float, now: float, by: float) -> bool:
        """Whether `now` is worse than `before` by more than the share `by`."""
        return now < before * (1 - by) if self.at_least else now > before * (1 + by)


def _chunk(caller: str, wire: str, bound: float) -> Required:
    text = f"{caller} over {wire}: CPU per chunk / bare relay"
    return Required(f"chunk_{caller}_over_{wire}", text, "x", bound, is_ratio=True)


def _translation(caller: str, wire: str) -> Required:
    text = f"translating 100 KB of {caller} for {wire} / parsing"
    return Required(f"translating_{caller}_{wire}", text, "x", 3.0, is_ratio=True)


COMMIT_SHARE = 2.5
REQUIRED = (
    Required("cpu_ratio", "CPU per request / ceiling, 64 connections", "x", 1.8, is_ratio=True),
    Required("rate_ratio", "req/s / ceiling, 64 connections", "x", 0.5, True, is_ratio=True),
    Required("rules_ratio", "CPU with all limits and rules / without", "x", 1.1, is_ratio=True),
    Required("selection_percent", "choosing among 8 endpoints, of CPU per request", "%", 12),
    Required("selection_large_ratio", "the same in 10,000 endpoints, 2,000 models", "x", 1.2),
    Required("selection_auto_ratio", "router/auto over these", "x", 30),
    # To the bound of this one the measured commit is added.
    Required("added_p50_ms", "added p50, 1 connection", "ms", 1.0),
    Required("commits_per_request_1", "commits per request, 1 connection", "", 2.1),
    Required("commits_per_request_64", "commits per request, 64 connections", "", 0.35),
    Required("cpu_chunk_ratio", "CPU per streamed chunk / bare relay", "x", 2.0, is_ratio=True),
    _chunk("messages", "anthropic", 2.0),
    _chunk("responses", "responses", 2.0),
    _chunk("chat", "anthropic", 3.0),
    _chunk("messages", "openai", 3.0),
    _chunk("responses", "openai", 3.5),
    _chunk("chat", "responses", 3.5),
    Required("first_text_ratio", "added p50 to a stream's first text / plain request", "x", 1.0),
    _translation("messages", "openai"),
    _translation("chat", "anthropic"),
    _translation("responses", "openai"),
    _translation("chat", "responses"),
    Required("decisions_ms", "20 questions, upstream of 50 ms, p99", "ms", 250),
    Required("decisions_cpu_ratio", "CPU per question / chat call", "x", 0.8, is_ratio=True),
    Required("toolless_percent", "what tools add to a call without any, of its CPU", "%", 2),
    Required("tools_ratio", "CPU of five datetime steps / one call", "x", 6.0, is_ratio=True),
    Required("history_record_ms", "GET /generation, p95 with 1,000,000 generations", "ms", 50),
    Required("history_page_ms", "GET /activity of a day, p95 likewise", "ms", 50),
    Required("history_query_ms", "analytics and activity, the slowest p95 likewise", "ms", 300),
    Required("worker_idle_mb", "memory per web worker, idle", "MB", 120),
    Required("worker_growth_percent", "its growth under requests", "%", 10),
    Required("second_start_s", "start to ready, second start", "s", 4),
)


@dataclass(frozen=True)
class Part:
    """Figures, notes and bounds of its own that one part of a run gives, by the figure's name."""

    values: dict[str, float]
    notes: dict[str, str]
    bounds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """One measured line. `value` is None where it was left out; `note` says why, or adds to it."""

    required: Required
    value: float | None
    bound: float
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        required, value = self.required, self.value
        return {
            "text": required.text,
            "value": value,
            "unit": required.unit,
            "required": f"{'>=' if required.at_least else '<='} {self.bound:.4g}",
            "met": None if value is None else required.is_met(value, self.bound),
            "is_ratio": required.is_ratio,
            "note": self.note,
        }


def figures(
    values: Mapping[str, float], notes: Mapping[str, str], bounds: Mapping[str, float]
) -> list[Figure]:
    """Every line of the table, in its order. `bounds` are of this run: they replace the usual."""
    return [
        Figure(
            required,
            values.get(required.name),
            bounds.get(required.name, required.bound),
            notes.get(required.name, ""),
        )
        for required in REQUIRED
    ]
