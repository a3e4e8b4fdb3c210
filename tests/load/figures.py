"""Figures: ratios of interleaved pairs, what each must reach, the table, and the comparison with an
earlier run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

_TENTH = 0.10
# What has to be alike for two runs to say something about the code.
_ALIKE = ("cores", "load_generator", "upstream", "stream_upstream", "quick")


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
    def beside_us(self) -> float:
        return self.beside_cpu_s * 1e6 / self.units

    @property
    def units_per_s(self) -> float:
        return self.units / self.seconds


@dataclass(frozen=True)
class Pair:
    """The same load on the gateway and, right after it, on what it is measured against."""

    governed: Interval
    ceiling: Interval


@dataclass(frozen=True)
class Required:
    """A line of the table: what the figure means and its bound. `is_ratio` ones are compared."""

    name: str
    text: str
    unit: str
    bound: float
    at_least: bool = False
    is_ratio: bool = False

    def is_worse(self, before: float, now: float) -> bool:
        return now < before * (1 - _TENTH) if self.at_least else now > before * (1 + _TENTH)


def _chunk(caller: str, wire: str, bound: float) -> Required:
    text = f"{caller} over {wire}: CPU per chunk / bare relay"
    return Required(f"chunk_{caller}_over_{wire}", text, "x", bound, is_ratio=True)


def _translation(caller: str, wire: str) -> Required:
    text = f"translating 100 KB of {caller} for {wire} / parsing"
    return Required(f"translating_{caller}_{wire}", text, "x", 3.0, is_ratio=True)


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
    Required("metrics_percent", "CPU with metrics beyond that without", "%", 2),
    Required("untraced_percent", "what traces add where there are none, of CPU", "%", 0.5),
    Required("traces_percent", "CPU with traces of a tenth beyond that without", "%", 5),
    Required("flood_p95_ratio", "p95 beside 500 refusals a second / without", "x", 1.2),
    Required("flood_records", "records that a second of it leaves, two web processes", "", 50),
    Required("guesses_p50_ratio", "p50 beside 200 guesses a second at sign-in / without", "x", 1.1),
    Required("guesses_p95_ratio", "the same at p95", "x", 1.2),
    Required("token_percent", "a known token in a key's place, of CPU per request", "%", 3),
    Required("history_record_ms", "GET /generation, p95 with 1,000,000 generations", "ms", 50),
    Required("history_page_ms", "GET /activity of a day, p95 likewise", "ms", 50),
    Required("history_query_ms", "analytics and activity, the slowest p95 likewise", "ms", 300),
    Required("console_page_ms", "a page of the console, the slowest p95 likewise", "ms", 100),
    Required("worker_idle_mb", "memory per web worker, idle", "MB", 120),
    Required("worker_growth_percent", "its growth under requests", "%", 10),
    Required("second_start_s", "start to ready, second start", "s", 4),
)


class Line(NamedTuple):
    """What a run says of one figure; its own `bound` replaces the usual."""

    value: float | None
    note: str = ""
    bound: float | None = None


# By the figure's name.
Lines = dict[str, Line]


def ratio_line(pairs: Sequence[Pair], of: str = "cpu_us_per_unit", form: str = "{:.0f} us") -> Line:
    """The median of the pairs' own ratios, so that a slow minute touches both sides of one; beside
    it either side's median. `of` is what of an interval is meant."""
    both = [(getattr(pair.governed, of), getattr(pair.ceiling, of)) for pair in pairs]
    sides = [form.format(median(side)) for side in zip(*both, strict=True)]
    return Line(median(governed / ceiling for governed, ceiling in both), " and ".join(sides))


@dataclass(frozen=True)
class Figure:
    """One measured line. `value` is None where it was left out; `note` says why, or adds to it."""

    required: Required
    value: float | None
    bound: float
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        required, value = self.required, self.value
        met = None
        if value is not None:
            met = value >= self.bound if required.at_least else value <= self.bound
        return {
            "text": required.text,
            "value": value,
            "unit": required.unit,
            "required": f"{'>=' if required.at_least else '<='} {self.bound:.4g}",
            "met": met,
            "is_ratio": required.is_ratio,
            "note": self.note,
        }


def figures(lines: Lines, required: Sequence[Required] = REQUIRED) -> list[Figure]:
    """What there is a line of, in the table's order."""
    return [
        Figure(one, line.value, one.bound if line.bound is None else line.bound, line.note)
        for one in required
        if (line := lines.get(one.name))
    ]


def align_rows(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells as text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    told = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(told) + "\n"


def table(lines: Sequence[Figure]) -> str:
    """Each figure with the required value beside it."""
    return align_rows([("Figure", "Measured", "Required", "Met", ""), *map(_row, lines)])


def _row(figure: Figure) -> tuple[str, ...]:
    told = figure.as_json()
    unit = f" {told['unit']}" if told["unit"] else ""
    value = "-" if figure.value is None else f"{figure.value:.2f}{unit}"
    met = {True: "yes", False: "no", None: "-"}[told["met"]]
    return told["text"], value, told["required"] + unit, met, figure.note


def ratios(document: Mapping[str, Any]) -> dict[str, float]:
    """What is compared: the ratios that a run's document holds, by the figure's name."""
    figures = document.get("figures", {})
    found = {one.name: figures.get(one.name, {}).get("value") for one in REQUIRED if one.is_ratio}
    return {name: float(value) for name, value in found.items() if value is not None}


def regressions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each ratio that got worse by more than a tenth. Both are documents of runs."""
    old, new = ratios(before), ratios(now)
    return [
        f"{one.text}: was {old[one.name]:.2f}, is {new[one.name]:.2f}"
        for one in REQUIRED
        if one.name in old.keys() & new.keys() and one.is_worse(old[one.name], new[one.name])
    ]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each condition under which the runs differ so that comparing them says little."""
    old, new = before.get("conditions", {}), now["conditions"]
    return [
        f"{name}: was {old.get(name)}, is {new[name]}"
        for name in _ALIKE
        if old.get(name) != new[name]
    ]
