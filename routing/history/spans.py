"""Which source answers for which part of a time: briefs, days, hours, facts, or generations."""

from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
Source = Literal["brief", "day", "hour", "fact", "raw", "spread", "refusal", "refusal_count"]
# The coarsest source that can answer: "spread" are facts, but those of source days by their values.
Finest = Literal["brief", "day", "hour", "fact", "spread"]
Span = tuple[datetime, datetime]


class RollupState(NamedTuple):
    """How far the roll-up has come: full hours before `until` (None: nothing) except the `late`
    ones. There are facts from `facts_from` on, and days in brief from `brief_days_from` to
    `brief_days_until`."""

    until: datetime | None
    late: frozenset[datetime]
    facts_from: datetime
    brief_days_from: datetime | None = None
    brief_days_until: datetime | None = None

    def has_briefs(self, start: datetime) -> bool:
        """Whether every full day from `start` on has been summed up in brief."""
        if self.until is None or self.brief_days_from is None or self.brief_days_until is None:
            return False
        return self.brief_days_from <= start and self.brief_days_until >= day_of(self.until)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def day_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def split_by_source(
    start: datetime, end: datetime, rolled: RollupState, *, finest: Finest
) -> dict[Source, list[Span]]:
    """Split [start, end) by source: each with its spans in order, together covering it once.

    `finest` "fact" is for single generations.
    """
    spans: dict[Source, list[Span]] = {}
    late_days = {day_of(hour) for hour in rolled.late}
    for piece in _split_span(start, end, DAY, day_of):
        source = _find_day_source(piece, rolled, finest, late_days)
        if source is not None:
            _add_span(spans, source, piece)
        else:
            for part in _split_span(*piece, HOUR, hour_of):
                _add_span(spans, _find_part_source(part, rolled, finest), part)
    return spans


def _find_day_source(
    piece: Span, rolled: RollupState, finest: Finest, late_days: Collection[datetime]
) -> Source | None:
    start, end = piece
    ready = rolled.until is not None and end <= rolled.until
    if not ready or end - start != DAY or start in late_days:
        return None
    if finest == "spread":
        return "spread" if start >= rolled.facts_from else None
    return finest if finest in {"brief", "day"} else None


def _find_part_source(part: Span, rolled: RollupState, finest: Finest) -> Source:
    start, end = part
    hour = hour_of(start)
    if rolled.until is None or hour >= rolled.until or hour in rolled.late:
        return "raw"
    if end - start == HOUR and finest in {"brief", "day", "hour"}:
        return "hour"
    return "fact" if hour >= rolled.facts_from else "raw"


def _split_span(
    start: datetime, end: datetime, step: timedelta, floor: Callable[[datetime], datetime]
) -> Iterator[Span]:
    while start < end:
        until = min(end, floor(start) + step)
        yield start, until
        start = until


def _add_span(spans: dict[Source, list[Span]], source: Source, span: Span) -> None:
    """Add a span, joined with the one before where they touch."""
    own = spans.setdefault(source, [])
    if own and own[-1][1] == span[0]:
        span = own.pop()[0], span[1]
    own.append(span)
