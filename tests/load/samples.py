"""What one run measured, and the figures that follow from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from tests.load.console_pages import Pages
from tests.load.crossings import CROSSINGS, Crossing
from tests.load.figures import Figure, Interval, Line, Lines, Pair, figures, percentile, ratio_line
from tests.load.flooding import Flooded
from tests.load.generators import Load
from tests.load.guessing import Guessed
from tests.load.history import PAGE, RECORD, Told
from tests.load.observing import SHARE, Observing
from tests.load.plan import STREAMS
from tests.load.selecting import Choosing
from tests.load.tokens import Presented
from tests.load.toolless import Toolless
from tests.load.translating import TRANSLATIONS, Translating

_MB = 1e6
# Of one commit, in the bound of the added time.
_COMMIT_SHARE = 2.5


@dataclass(frozen=True)
class Commits:
    """One interval's commits by the database's counter; `idle_per_s` come without any request."""

    requests: int
    raw: int
    seconds: float
    idle_per_s: float

    @property
    def per_request(self) -> float:
        return (self.raw - self.idle_per_s * self.seconds) / self.requests


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
class FirstTokens:
    """One connection, p50. Requests: plain, governed and straight from its upstream. Streams: the
    first text over one wire, by crossing and straight from the upstream."""

    plain_ms: float
    plain_direct_ms: float
    governed_ms: Mapping[str, float]
    direct_ms: float

    @property
    def plain_added_ms(self) -> float:
        return self.plain_ms - self.plain_direct_ms

    def added_ms(self, crossing: Crossing) -> float:
        return self.governed_ms[crossing.name] - self.direct_ms


@dataclass(frozen=True)
class Formats:
    """`streams` are pairs of the gateway and the bare relay over the same wire, by crossing;
    `first_tokens` stand by wire kind."""

    streams: Mapping[str, Sequence[Pair]]
    first_tokens: Mapping[str, Sequence[FirstTokens]]
    translating: Sequence[Translating]


@dataclass(frozen=True)
class Decided:
    """Requests of 20 questions one at a time; pairs of questions and chat calls under load."""

    waited: Sequence[Load]
    pairs: Sequence[Pair]


@dataclass(frozen=True)
class Tools:
    """Loops of server tools beside single calls, and what tools do to a call that names none."""

    pairs: Sequence[Pair]
    toolless: Sequence[Toolless]


@dataclass(frozen=True)
class Observed:
    """Pairs of a gateway with metrics, or with traces of all requests, and one with neither."""

    metrics: Sequence[Pair]
    traces: Sequence[Pair]
    alone: Observing


@dataclass(frozen=True)
class Samples:
    """What was measured of a run; a part that was not asked for is empty.

    The second side of a pair of `rules` is the gateway without rules. Where `starts_s` is empty
    though asked for, `no_start` says why.
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
    observing: Observed | None = None
    flood: Sequence[Flooded] = ()
    guesses: Sequence[Guessed] = ()
    tokens: Sequence[Presented] = ()
    history: Told | None = None
    console: Pages | None = None
    starts_s: Sequence[float] = ()
    no_start: str = ""

    def figures(self) -> list[Figure]:
        """A line for each figure that was asked for, in the table's order."""
        parts = ((lines, getattr(self, name)) for name, lines in _LINES.items())
        return figures(
            {name: line for of, part in parts if part for name, line in of(part).items()}
        )


def _selection_lines(samples: Sequence[Selected]) -> Lines:
    """Shares and ratios are taken within each sample."""

    def middle(of: Callable[[Selected], float]) -> float:
        return median(map(of, samples))

    share = middle(lambda one: one.choosing.one_us / one.governed.cpu_us_per_unit)
    large = middle(lambda one: one.choosing.large_us / one.choosing.one_us)
    auto = middle(lambda one: one.choosing.auto_us / one.choosing.one_us)
    one_us = middle(lambda one: one.choosing.one_us)
    request_us = middle(lambda one: one.governed.cpu_us_per_unit)
    return {
        "selection_percent": Line(share * 100, f"{one_us:.1f} us of {request_us:.0f} us"),
        "selection_large_ratio": Line(large, f"{middle(lambda one: one.choosing.large_us):.1f} us"),
        "selection_auto_ratio": Line(auto, f"{middle(lambda one: one.choosing.auto_us):.1f} us"),
    }


def _added_lines(samples: Sequence[Single]) -> Lines:
    commit_ms = median(sample.commit_ms for sample in samples)
    added_ms = median(sample.governed_ms - sample.direct_ms for sample in samples)
    over_ceiling_ms = median(sample.governed_ms - sample.ceiling_ms for sample in samples)
    note = (
        f"over a direct call; over the ceiling {over_ceiling_ms:.2f} ms; "
        f"1 ms + {_COMMIT_SHARE} x one commit of {commit_ms:.2f} ms"
    )
    return {"added_p50_ms": Line(added_ms, note, bound=1.0 + _COMMIT_SHARE * commit_ms)}


def _commits_lines(by_number: Mapping[int, Commits]) -> Lines:
    found = {}
    for number, one in by_number.items():
        raw, at_rest = one.raw / one.requests, f"{one.idle_per_s:.1f}/s without requests taken off"
        found[f"commits_per_request_{number}"] = Line(one.per_request, f"raw {raw:.2f}; {at_rest}")
    return found


def _chunks_line(pairs: Sequence[Pair]) -> Line:
    line = ratio_line(pairs, form="{:.1f} us")
    return line._replace(note=f"{line.note}, {STREAMS} streams")


def _formats_lines(formats: Formats) -> Lines:
    found = {f"chunk_{one.name}": _chunks_line(formats.streams[one.name]) for one in CROSSINGS}
    found["first_text_ratio"] = _first_text_line(formats.first_tokens)
    rounds = formats.translating
    for caller, wire in TRANSLATIONS:
        ratio = median(one.translating_us(caller, wire) / one.parsing_us[caller] for one in rounds)
        translating_us = median(one.translating_us(caller, wire) for one in rounds)
        parsing_us = median(one.parsing_us[caller] for one in rounds)
        size_kb = rounds[0].body_bytes[caller] / 1e3
        note = f"{translating_us:.0f} us and {parsing_us:.0f} us, {size_kb:.0f} KB"
        found[f"translating_{caller}_{wire}"] = Line(ratio, note)
    return found


def _first_text_line(by_wire: Mapping[str, Sequence[FirstTokens]]) -> Line:
    """The crossing that adds most, for what a plain request adds at the same time."""
    ratios = {
        each: median(one.added_ms(each) / one.plain_added_ms for one in by_wire[each.wire])
        for each in CROSSINGS
    }
    slowest = max(CROSSINGS, key=lambda each: ratios[each])
    added_ms = median(one.added_ms(slowest) for one in by_wire[slowest.wire])
    plain_ms = median(one.plain_added_ms for one in by_wire[slowest.wire])
    told, least = slowest.name.replace("_", " "), min(ratios.values())
    note = f"{added_ms:.2f} ms and {plain_ms:.2f} ms, {told}; the least {least:.2f} x"
    return Line(ratios[slowest], note)


def _decisions_lines(decided: Decided) -> Lines:
    """The slowest hundredth of requests, and questions for what a chat call costs."""
    p50_ms = median(each.p50_ms for each in decided.waited)
    p99_ms = median(each.p99_ms for each in decided.waited)
    return {
        "decisions_ms": Line(p99_ms, f"p50 {p50_ms:.0f} ms"),
        "decisions_cpu_ratio": ratio_line(decided.pairs),
    }


def _tools_lines(tools: Tools) -> Lines:
    """The second side of each pair is one call of the same model."""
    calls_us = [pair.ceiling.cpu_us_per_unit for pair in tools.pairs]
    steps_us = [one.steps_us for one in tools.toolless]
    share = median(us / call_us for us, call_us in zip(steps_us, calls_us, strict=True))
    note = f"{median(steps_us):.1f} us of {median(calls_us):.0f} us"
    return {"tools_ratio": ratio_line(tools.pairs), "toolless_percent": Line(share * 100, note)}


def _observing_lines(observed: Observed) -> Lines:
    """What each pair's first side costs beyond its second."""
    alone = observed.alone
    request_us = median(pair.ceiling.cpu_us_per_unit for pair in observed.metrics)
    metrics, traces = ratio_line(observed.metrics), ratio_line(observed.traces)
    untraced_percent = alone.untraced_us / request_us * 100
    traced_percent = ((traces.value or 0) - 1) * 100
    return {
        "untraced_percent": Line(
            untraced_percent, f"{alone.untraced_us:.1f} us of {request_us:.0f} us"
        ),
        "metrics_percent": Line(
            ((metrics.value or 0) - 1) * 100, f"{metrics.note}; alone {alone.metrics_us:.1f} us"
        ),
        "traces_percent": Line(
            untraced_percent + traced_percent * SHARE,
            f"of all {traced_percent:.0f} %: {traces.note}; alone {alone.traced_us:.0f} us",
        ),
    }


def _flood_lines(samples: Sequence[Flooded]) -> Lines:
    """The tables hold what all floods have left."""
    last = samples[-1]
    quiet_ms = median(one.quiet_ms for one in samples)
    flooded_ms = median(one.flooded_ms for one in samples)
    ratio = median(one.flooded_ms / one.quiet_ms for one in samples)
    kept = f"{last.records} records; {last.counted} counted in {last.counts} rows"
    return {
        "flood_p95_ratio": Line(ratio, f"{flooded_ms:.1f} ms and {quiet_ms:.1f} ms"),
        "flood_records": Line(last.in_a_second, kept),
    }


def _guesses_lines(samples: Sequence[Guessed]) -> Lines:
    sent, looked_at = (
        sum(getattr(one, name) for one in samples) for name in ("guesses", "looked_at")
    )
    found = {}
    for name in ("p50", "p95"):
        both = [(getattr(one, f"{name}_ms"), getattr(one, f"quiet_{name}_ms")) for one in samples]
        beside_ms, quiet_ms = (median(side) for side in zip(*both, strict=True))
        note = f"{beside_ms:.2f} ms and {quiet_ms:.2f} ms; {looked_at} of {sent} looked at"
        ratio = median(beside / quiet for beside, quiet in both)
        found[f"guesses_{name}_ratio"] = Line(ratio, note)
    return found


def _tokens_lines(samples: Sequence[Presented]) -> Lines:
    added_us = [one.tokens.token_us - one.tokens.key_us for one in samples]
    requests_us = [one.governed.cpu_us_per_unit for one in samples]
    share = median(us / of_us for us, of_us in zip(added_us, requests_us, strict=True))
    note = f"{median(added_us):.1f} us of {median(requests_us):.0f} us"
    return {"token_percent": Line(share * 100, note)}


def _history_lines(told: Told) -> Lines:
    """The slowest p95 of each bound, and which it was."""
    p95_ms = {name: percentile(taken_ms, 95) for name, taken_ms in told.taken_ms.items()}
    record_ms, page_ms = p95_ms.pop(RECORD), p95_ms.pop(PAGE)
    slowest = max(p95_ms, key=lambda name: p95_ms[name])
    filled = f"{told.rows:,} rows; summed up in {told.roll_up_s:.0f} s"
    return {
        "history_record_ms": Line(record_ms, filled),
        "history_page_ms": Line(page_ms),
        "history_query_ms": Line(p95_ms[slowest], f"{slowest}; {len(p95_ms)} asked"),
    }


def _console_lines(pages: Pages) -> Lines:
    p95_ms = {name: percentile(taken_ms, 95) for name, taken_ms in pages.taken_ms.items()}
    slowest = max(p95_ms, key=lambda name: p95_ms[name])
    note = f"{slowest}; {len(p95_ms)} pages, {pages.rows:,} rows"
    if pages.cpu_ms:
        cpu_ms = percentile(pages.cpu_ms[slowest], 95)
        note += f"; its CPU {cpu_ms:.0f} ms, {pages.statements[slowest]} statements"
    if pages.first_ms:
        first = {name: percentile(taken_ms, 50) for name, taken_ms in pages.first_ms.items()}
        worst = max(first, key=lambda name: first[name])
        note += f"; who comes first {first[worst]:.0f} ms, median of {worst}"
    return {"console_page_ms": Line(p95_ms[slowest], note)}


def _memory_lines(memory: Memory) -> Lines:
    warm = f"the larger one; warm {memory.warm_bytes / _MB:.1f} MB"
    grown = f"to {memory.after_bytes / _MB:.1f} MB over {memory.requests} requests"
    return {
        "worker_idle_mb": Line(memory.idle_bytes / _MB, warm),
        "worker_growth_percent": Line(memory.growth_share * 100, grown),
    }


_LINES: Final[dict[str, Callable[[Any], Lines]]] = {
    "requests": lambda pairs: {
        "cpu_ratio": ratio_line(pairs),
        "rate_ratio": ratio_line(pairs, "units_per_s", "{:.0f}/s"),
    },
    "rules": lambda pairs: {"rules_ratio": ratio_line(pairs)},
    "selection": _selection_lines,
    "single": _added_lines,
    "commits": _commits_lines,
    "streams": lambda pairs: {"cpu_chunk_ratio": _chunks_line(pairs)},
    "formats": _formats_lines,
    "decisions": _decisions_lines,
    "tools": _tools_lines,
    "observing": _observing_lines,
    "flood": _flood_lines,
    "guesses": _guesses_lines,
    "tokens": _tokens_lines,
    "history": _history_lines,
    "console": _console_lines,
    "memory": _memory_lines,
    "starts_s": lambda all_s: {"second_start_s": Line(median(all_s), f"{len(all_s)} measured")},
    "no_start": lambda why: {"second_start_s": Line(None, why)},
}
