from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from routing.history.spans import (
    DAY,
    HOUR,
    RollupState,
    Source,
    Span,
    day_of,
    hour_of,
    split_by_source,
)

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
hours = st.integers(0, 24 * 6).map(lambda hour: EPOCH + hour * HOUR)
moments = st.integers(0, 6 * 86_400).map(lambda second: EPOCH + timedelta(seconds=second))


@given(
    ends=st.tuples(moments, moments).filter(lambda pair: pair[0] != pair[1]).map(sorted),
    until=st.one_of(st.none(), hours),
    late=st.frozensets(hours, max_size=5),
    facts_from=hours,
    finest=st.sampled_from(("day", "hour", "fact", "spread")),
)
def test_the_spans_are_the_whole_time_once_and_each_source_has_what_it_is_asked(
    ends: list[datetime],
    until: datetime | None,
    late: frozenset[datetime],
    facts_from: datetime,
    finest: "str",
) -> None:
    start, end = ends
    rolled = RollupState(until, late, facts_from)
    found = split_by_source(start, end, rolled, finest=finest)  # type: ignore[arg-type]  # One of the four.
    told = sorted((span, source) for source, spans in found.items() for span in spans)
    assert [span[0] for span, _ in told] == [start, *(span[1] for span, _ in told[:-1])]
    assert told[-1][0][1] == end
    for span, source in told:
        check(span, source, rolled, finest)


def check(span: Span, source: Source, rolled: RollupState, finest: str) -> None:
    start, end = span
    touched = {hour_of(start) + n * HOUR for n in range((end - hour_of(start)) // HOUR + 1)}
    inside = {hour for hour in touched if hour < end}
    if source == "raw":
        for hour in inside:
            new = rolled.until is None or hour >= rolled.until or hour in rolled.late
            assert new or hour < rolled.facts_from
        return
    assert rolled.until is not None
    assert end <= rolled.until or hour_of(end) < rolled.until
    assert not inside & rolled.late
    if source in {"fact", "spread"}:
        assert hour_of(start) >= rolled.facts_from
        assert finest == "spread" or source == "fact"
    else:
        assert finest in {"day", source}
        assert hour_of(start) == start
        assert hour_of(end) == end
    if source in {"day", "spread"}:
        assert day_of(start) == start
        assert (end - start) % DAY == timedelta(0)
