"""Sums of usage that pages add up. What is rolled up changes once an hour, and is remembered.

Only the time since is summed for every page: an hour or two of single generations.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from gateway.database.replica import reading_connection
from gateway.ttl_cache import TtlCache
from routing.history.analytics import fetch_rows
from routing.history.dialect import Granularity, dialect
from routing.history.metrics import Metric
from routing.history.rollup import read_rollup_state
from routing.history.spans import RollupState, day_of
from routing.history.statement import QueryCondition, UsageQuery

# A record that comes late into an hour that was rolled up shows after so long at most.
_ROLLED_AGE_MAX_S: Final = 300
_ROLLED_ROWS_MAX: Final = 20_000
# Several sums of one page are of the same state.
_STATE_AGE_MAX_S: Final = 1
# Sums by the period's first moment and the values of the groups, in the order of the metrics.
Sums = Mapping[tuple[Any, ...], tuple[int, ...]]


class SumQuery(NamedTuple):
    """As `UsageQuery` has it, from `start`, a full hour, until now. Its metrics can be added up."""

    account_id: UUID
    start: datetime
    metrics: tuple[Metric, ...]
    groups: tuple[str, ...] = ()
    time: Granularity | None = None
    conditions: tuple[QueryCondition, ...] = ()
    singles: bool = False

    def fetch(self, start: datetime, end: datetime, rolled: RollupState) -> Sums:
        """The sums of [start, end)."""
        query = UsageQuery(
            account_id=self.account_id,
            start=start,
            end=end,
            metrics={f"m{number}": metric for number, metric in enumerate(self.metrics)},
            groups=self.groups,
            time=self.time,
            conditions=self.conditions,
            singles=self.singles,
        )
        names = [f"by_{number}" for number in range(len(self.groups))]
        parse = dialect().parse_moment
        sums = {}
        for row in fetch_rows(query, end, rolled):
            period = [parse(row["period"])] if self.time else []
            place = (*period, *(row[name] for name in names))
            sums[place] = tuple(int(row[name]) for name in query.metrics)
        return sums

    def pick(self, finer: Sums, of: "SumQuery") -> Sums:
        """Its own sums, of those of a query by all its groups and more, and periods as short."""
        places = [of.groups.index(name) + (of.time is not None) for name in self.groups]
        found: dict[tuple[Any, ...], tuple[int, ...]] = {}
        for values, sums in finer.items():
            place = tuple(values[number] for number in places)
            if self.time:
                if values[0] < self.start:
                    continue
                place = (day_of(values[0]) if self.time == "day" else values[0], *place)
            _add(found, place, sums)
        return found


class _RolledPart(NamedTuple):
    """The part of a query that has been rolled up, at one state of that in one database."""

    alias: str
    query: SumQuery
    rolled: RollupState
    until: datetime

    def fetch(self) -> Sums:
        return self.query.fetch(self.query.start, self.until, self.rolled)


# By the alias of the database: a replica may be behind.
_states: Final = TtlCache[str, RollupState](
    lambda alias: read_rollup_state(datetime.now(UTC)), age_max_s=_STATE_AGE_MAX_S, size_max=2
)
rolled_sums: Final = TtlCache(
    _RolledPart.fetch,
    age_max_s=_ROLLED_AGE_MAX_S,
    size_max=_ROLLED_ROWS_MAX,
    wait_max_s=30,
    weight_of=lambda found: 1 + len(found or ()),
)


def fetch_sums(query: SumQuery, now: datetime) -> Sums:
    """The sums up to and with this very moment, all from one database."""
    return fetch_sums_together([query], now)[0]


def fetch_sums_together(queries: Sequence[SumQuery], now: datetime) -> list[Sums]:
    """Those of queries that differ in their groups, or in periods of hours and days and where these
    begin. What is not rolled up is read once for all."""
    first = min(query.start for query in queries)
    joint = queries[0]._replace(
        start=first,
        groups=tuple(dict.fromkeys(name for query in queries for name in query.groups)),
        time="hour" if any(query.time == "hour" for query in queries) else queries[0].time,
    )
    with reading_connection() as database:
        rolled = _states.find(database.alias)
        assert rolled is not None
        end, until = now + timedelta(seconds=1), rolled.until
        if until is None or not first < until < end:
            until = first
        since = joint.fetch(until, end, rolled)
        found: list[Sums] = []
        for query in queries:
            sums: dict[tuple[Any, ...], tuple[int, ...]] = {}
            if query.start < until:
                before = rolled_sums.find(_RolledPart(database.alias, query, rolled, until))
                assert before is not None
                sums = dict(before)
            for place, more in query.pick(since, joint).items():
                _add(sums, place, more)
            found.append(sums)
    return found


def _add(
    sums: dict[tuple[Any, ...], tuple[int, ...]], place: tuple[Any, ...], more: tuple[int, ...]
) -> None:
    former = sums.get(place)
    sums[place] = more if former is None else tuple(map(sum, zip(former, more, strict=True)))
