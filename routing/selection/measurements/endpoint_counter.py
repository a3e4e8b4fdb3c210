"""Counters of an endpoint's calls, which add up, and the statistics derived from them."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from routing.selection.measurements.histogram import (
    BUCKETS,
    Counts,
    add_counts,
    count_value,
    find_percentile,
    percentiles,
    subtract_counts,
)
from routing.selection.types import EndpointStats, Percentiles

# With fewer calls there is no figure, so that a single call never makes or moves one.
CALLS_MIN: Final = 10
SAMPLES_MIN: Final = 5
TOOL_ANSWERS_MIN: Final = 5


class EndpointCounter:
    """The calls of one endpoint in a period. Counters add up in any order.

    Uptime is `answered` of `answered` and `failed`; `limited` (429) counts in neither, and faults
    of the request are not counted. Times to first token are kept separately for streams
    (`first_token`) and for answers in one piece (`whole`), whose first token comes with the last.
    """

    __slots__ = (
        "answered",
        "failed",
        "first_token",
        "limited",
        "speed",
        "tools_bad",
        "tools_good",
        "whole",
    )

    def __init__(self) -> None:
        self.answered = self.failed = self.limited = 0
        self.tools_good = self.tools_bad = 0
        self.first_token: Counts | None = None
        self.whole: Counts | None = None
        self.speed: Counts | None = None

    def count_answer(
        self,
        latency_s: float | None,
        *,
        streamed: bool,
        speed_tps: float | None = None,
        tools_good: bool | None = None,
    ) -> None:
        """Count an answer; what is None was not measured."""
        self.answered += 1
        if latency_s is not None:
            self.count_latency(latency_s, streamed=streamed)
        if speed_tps is not None:
            self.speed = count_value(self.speed, speed_tps)
        if tools_good is not None:
            self.tools_good += tools_good
            self.tools_bad += not tools_good

    def count_latency(self, latency_s: float, *, streamed: bool) -> None:
        """Count a time to first token alone: a cancelled request waited at least this long."""
        if streamed:
            self.first_token = count_value(self.first_token, latency_s)
        else:
            self.whole = count_value(self.whole, latency_s)

    def add(self, other: "EndpointCounter") -> None:
        self.answered += other.answered
        self.failed += other.failed
        self.limited += other.limited
        self.tools_good += other.tools_good
        self.tools_bad += other.tools_bad
        self.first_token = add_counts(self.first_token, other.first_token)
        self.whole = add_counts(self.whole, other.whole)
        self.speed = add_counts(self.speed, other.speed)

    def subtract(self, other: "EndpointCounter") -> None:
        """Undo `add`."""
        self.answered -= other.answered
        self.failed -= other.failed
        self.limited -= other.limited
        self.tools_good -= other.tools_good
        self.tools_bad -= other.tools_bad
        self.first_token = subtract_counts(self.first_token, other.first_token)
        self.whole = subtract_counts(self.whole, other.whole)
        self.speed = subtract_counts(self.speed, other.speed)

    def calls_only(self) -> "EndpointCounter":
        """A copy with the counts of calls only, for windows that are too long for histograms."""
        tally = EndpointCounter()
        tally.answered, tally.failed, tally.limited = self.answered, self.failed, self.limited
        return tally

    @property
    def calls(self) -> int:
        """What the uptime is made of."""
        return self.answered + self.failed

    @property
    def is_empty(self) -> bool:
        calls = self.answered or self.failed or self.limited
        return not (calls or self.first_token or self.whole)

    @property
    def uptime(self) -> float | None:
        """Percent, of `CALLS_MIN` calls at least."""
        return 100 * self.answered / self.calls if self.calls >= CALLS_MIN else None

    @property
    def latency_s(self) -> Percentiles | None:
        """Of streams; of answers in one piece where there are too few streams."""
        streams = _percentiles(self.first_token)
        return streams or _percentiles(self.whole)

    @property
    def throughput_tps(self) -> Percentiles | None:
        return _percentiles(self.speed, high_is_good=True)

    @property
    def tool_success(self) -> float | None:
        answers = self.tools_good + self.tools_bad
        return self.tools_good / answers if answers >= TOOL_ANSWERS_MIN else None

    def serialize(self, endpoint: int) -> list[Any]:
        """The counter as JSON data, read back by `parse_counter`."""
        return [
            endpoint,
            self.answered,
            self.failed,
            self.limited,
            self.tools_good,
            self.tools_bad,
            _serialize_counts(self.first_token),
            _serialize_counts(self.whole),
            _serialize_counts(self.speed),
        ]


def parse_counter(row: Any) -> tuple[int, EndpointCounter]:
    """Endpoint and counter from `EndpointCounter.serialize`. Raises `ValueError` for other data."""
    try:
        endpoint, *numbers, first_token, whole, speed = row
        answered, failed, limited, tools_good, tools_bad = numbers
    except TypeError as error:
        raise ValueError("no tally") from error
    if not all(type(number) is int and number >= 0 for number in (endpoint, *numbers)):
        raise ValueError("a tally counts in whole numbers")
    tally = EndpointCounter()
    tally.answered, tally.failed, tally.limited = answered, failed, limited
    tally.tools_good, tally.tools_bad = tools_good, tools_bad
    tally.first_token, tally.whole, tally.speed = map(_parse_counts, (first_token, whole, speed))
    return endpoint, tally


def merge_counters(
    counters: dict[int, EndpointCounter], pairs: Iterable[tuple[int, EndpointCounter]]
) -> None:
    """Add each counter to that of its endpoint; the first one of an endpoint is taken over."""
    for endpoint, counter in pairs:
        known = counters.get(endpoint)
        if known is None:
            counters[endpoint] = counter
        else:
            known.add(counter)


def build_stats(
    recent: EndpointCounter | None, half_hour: EndpointCounter | None, day: EndpointCounter | None
) -> EndpointStats | None:
    """Statistics from the counters of the statistics window, the last 30 minutes and the last day;
    None if all three are None."""
    if recent is None and half_hour is None and day is None:
        return None
    recent, half_hour = recent or _EMPTY, half_hour or _EMPTY
    return EndpointStats(
        latency_s=recent.latency_s,
        throughput_tps=recent.throughput_tps,
        latency_30m_s=half_hour.latency_s,
        throughput_30m_tps=half_hour.throughput_tps,
        tool_success=recent.tool_success,
        uptime_5m=recent.uptime,
        uptime_30m=half_hour.uptime,
        uptime_1d=day.uptime if day is not None else None,
        calls=recent.calls,
        stream_p95_s=_find_p95(half_hour.first_token),
        whole_p95_s=_find_p95(half_hour.whole),
    )


# The counter of an endpoint without calls; never added to.
_EMPTY: Final = EndpointCounter()


def _percentiles(counts: Counts | None, *, high_is_good: bool = False) -> Percentiles | None:
    if counts is None or sum(counts.values()) < SAMPLES_MIN:
        return None
    return percentiles(counts, high_is_good=high_is_good)


def _find_p95(counts: Counts | None) -> float | None:
    if counts is None or sum(counts.values()) < SAMPLES_MIN:
        return None
    return find_percentile(counts, 0.95)


def _serialize_counts(counts: Counts | None) -> list[int]:
    """Bucket and count alternately."""
    return [part for pair in counts.items() for part in pair] if counts else []


def _parse_counts(flat: Sequence[Any]) -> Counts | None:
    if not flat:
        return None
    try:
        counts = dict(zip(flat[::2], flat[1::2], strict=True))
    except TypeError as error:
        raise ValueError("no histogram") from error
    for bucket, number in counts.items():
        if type(bucket) is not int or type(number) is not int:
            raise ValueError("a histogram counts in whole numbers")
        if not (0 <= bucket < BUCKETS and number > 0):
            raise ValueError("a histogram counts in known buckets")
    return counts
