"""Sums of usage that pages add up. What is rolled up changes once an hour, and is remembered.

Only the time since is summed for every page: an hour or two of single generations.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from gateway.database.replica import reading_connection
from gateway.ttl_cache import TtlCache
from routing.history.analytics import fetch_rows
from routing.history.dialect import Granularity
from routing.history.metrics import Metric
from routing.history.rollup import read_rollup_state
from routing.history.spans import RollupState
from routing.history.statement import QueryCondition, UsageQuery

# A record that comes late into an hour that was rolled up shows after so long at most.
_ROLLED_AGE_MAX_S: Final = 300
_ROLLED_ROWS_MAX: Final = 20_000
# Several sums of one page are of the same state.
_STATE_AGE_MAX_S: Final = 1
# Sums by the values of the period and the groups, in the order of the metrics.
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
        period = ["period"] if self.time else []
        names = [*period, *(f"by_{number}" for number in range(len(self.groups)))]
        return {
            tuple(row[name] for name in names): tuple(int(row[name]) for name in query.metrics)
            for row in fetch_rows(query, end, rolled)
        }


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
    with reading_connection() as database:
        rolled = _states.find(database.alias)
        assert rolled is not None
        end = now + timedelta(seconds=1)
        if rolled.until is None or not query.start < rolled.until < end:
            return query.fetch(query.start, end, rolled)
        before = rolled_sums.find(_RolledPart(database.alias, query, rolled, rolled.until))
        assert before is not None
        sums = dict(before)
        for groups, since in query.fetch(rolled.until, end, rolled).items():
            former = sums.get(groups)
            if former is not None:
                since = tuple(map(sum, zip(former, since, strict=True)))
            sums[groups] = since
        return sums
