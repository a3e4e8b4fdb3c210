"""What endpoints did, counted so that it adds up, and the figures that selection reads of it."""

from collections.abc import Sequence
from typing import Any, Final

from routing.selection.ask import Figures, Percentiles
from routing.selection.measurements.histogram import (
    BUCKETS,
    Counts,
    counted,
    merged,
    percentiles,
    without,
)

# Fewer than this say nothing: no uptime (management reference 10), no percentile, no share. One
# call alone can then neither make a figure nor, as the middle of several, move it far.
CALLS_MIN: Final = 10
SAMPLES_MIN: Final = 5
TOOL_ANSWERS_MIN: Final = 5


class Tally:
    """What one endpoint did in some stretch of time. Tallies add up in any order.

    `answered` and `failed` make the uptime; `limited` (429) is in neither, and what was the
    request's own fault is nowhere. Times to first token are apart for streams (`first_token`) and
    for answers in one piece (`whole`), whose first token comes with the last.
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

    def answer(
        self,
        latency_s: float | None,
        *,
        streamed: bool,
        speed_tps: float | None = None,
        tools_good: bool | None = None,
    ) -> None:
        """Count an answer; what is None was not measured."""
        self.answered += 1
        if latency_s is not None and streamed:
            self.first_token = counted(self.first_token, latency_s)
        elif latency_s is not None:
            self.whole = counted(self.whole, latency_s)
        if speed_tps is not None:
            self.speed = counted(self.speed, speed_tps)
        if tools_good is not None:
            self.tools_good += tools_good
            self.tools_bad += not tools_good

    def add(self, other: "Tally") -> None:
        self.answered += other.answered
        self.failed += other.failed
        self.limited += other.limited
        self.tools_good += other.tools_good
        self.tools_bad += other.tools_bad
        self.first_token = merged(self.first_token, other.first_token)
        self.whole = merged(self.whole, other.whole)
        self.speed = merged(self.speed, other.speed)

    def take_away(self, other: "Tally") -> None:
        """Undo `add`."""
        self.answered -= other.answered
        self.failed -= other.failed
        self.limited -= other.limited
        self.tools_good -= other.tools_good
        self.tools_bad -= other.tools_bad
        self.first_token = without(self.first_token, other.first_token)
        self.whole = without(self.whole, other.whole)
        self.speed = without(self.speed, other.speed)

    def bare(self) -> "Tally":
        """The calls alone, which is all that a long window needs."""
        tally = Tally()
        tally.answered, tally.failed, tally.limited = self.answered, self.failed, self.limited
        return tally

    @property
    def calls(self) -> int:
        """What the uptime is made of."""
        return self.answered + self.failed

    @property
    def is_empty(self) -> bool:
        return not (self.answered or self.failed or self.limited)

    @property
    def uptime(self) -> float | None:
        """Percent, of `CALLS_MIN` calls at least."""
        return 100 * self.answered / self.calls if self.calls >= CALLS_MIN else None

    @property
    def latency_s(self) -> Percentiles | None:
        """Of streams; of answers in one piece where there are too few streams."""
        streams = _known(self.first_token)
        return streams or _known(self.whole)

    @property
    def throughput_tps(self) -> Percentiles | None:
        return _known(self.speed, high_is_good=True)

    @property
    def tool_success(self) -> float | None:
        answers = self.tools_good + self.tools_bad
        return self.tools_good / answers if answers >= TOOL_ANSWERS_MIN else None

    def packed(self, endpoint: int) -> list[Any]:
        """As JSON can say it."""
        return [
            endpoint,
            self.answered,
            self.failed,
            self.limited,
            self.tools_good,
            self.tools_bad,
            _flat(self.first_token),
            _flat(self.whole),
            _flat(self.speed),
        ]


def unpacked(row: Any) -> tuple[int, Tally]:
    """Endpoint and tally of what `Tally.packed` made. Raises `ValueError` for anything else."""
    try:
        endpoint, *numbers, first_token, whole, speed = row
        answered, failed, limited, tools_good, tools_bad = numbers
    except TypeError as error:
        raise ValueError("no tally") from error
    if not all(type(number) is int and number >= 0 for number in (endpoint, *numbers)):
        raise ValueError("a tally counts in whole numbers")
    tally = Tally()
    tally.answered, tally.failed, tally.limited = answered, failed, limited
    tally.tools_good, tally.tools_bad = tools_good, tools_bad
    tally.first_token, tally.whole, tally.speed = map(_counts, (first_token, whole, speed))
    return endpoint, tally


def figures_of(recent: Tally | None, half_hour: Tally | None, day: Tally | None) -> Figures | None:
    """Of the statistics window, the last 30 minutes and the last day; None where all are empty."""
    if recent is None and half_hour is None and day is None:
        return None
    recent, half_hour = recent or _NOTHING, half_hour or _NOTHING
    return Figures(
        latency_s=recent.latency_s,
        throughput_tps=recent.throughput_tps,
        latency_30m_s=half_hour.latency_s,
        throughput_30m_tps=half_hour.throughput_tps,
        tool_success=recent.tool_success,
        uptime_5m=recent.uptime,
        uptime_30m=half_hour.uptime,
        uptime_1d=day.uptime if day is not None else None,
        calls=recent.calls,
    )


# What an endpoint did that was not asked; nobody adds to it.
_NOTHING: Final = Tally()


def _known(counts: Counts | None, *, high_is_good: bool = False) -> Percentiles | None:
    if counts is None or sum(counts.values()) < SAMPLES_MIN:
        return None
    return percentiles(counts, high_is_good=high_is_good)


def _flat(counts: Counts | None) -> list[int]:
    """Bucket and count by turns."""
    return [part for pair in counts.items() for part in pair] if counts else []


def _counts(flat: Sequence[Any]) -> Counts | None:
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
