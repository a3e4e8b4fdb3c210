"""A key's limits on its counters, and what the counters say it spent."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q, QuerySet

from accounts.models import ApiKey, SpendCounter
from accounts.services.open_holds import OpenHolds
from accounts.services.past_spending import django_reader
from accounts.services.spend_scopes import outdate_limits
from accounts.windows import LIMITED_WINDOW, window_starts

# Requests count in the windows they began in, and one that began yesterday may still be raised.
_WINDOWS_OPEN = timedelta(days=1)
_PLACE = '("window" = %s AND window_start = %s)'


class Usage(NamedTuple):
    """What a key spent in each window, and what its own credentials were charged: nano-USD by
    `total`, `day`, `week` and `month`."""

    spent: Mapping[str, int]
    byok: Mapping[str, int]

    def counted_nano(self, key: ApiKey) -> int:
        """What counts against the key's limit."""
        window = LIMITED_WINDOW[key.limit_reset]
        return self.spent[window] + (self.byok[window] if key.include_byok_in_limit else 0)


def limit_counters(*, key: ApiKey, at: datetime, moved: bool) -> Usage:
    """Put the key's limit on the counters of its window, and on no other; what the key spent by
    then. `moved` says that it stands on another window than before, or on one at all.

    Requests under way count against it from the commit on, as every later one does. The account's
    row is locked by now, as the ledger writer does, so that no hold is being placed against these
    counters meanwhile.
    """
    rows = _limited(key, at)
    if moved and rows:
        outdate_limits(key.account_id)
        if rows[0].is_in_use:
            _adopt(key, rows)
    starts = window_starts(at)
    now = [row for row in rows if str(starts[row.window]) == row.start]
    nothing = dict.fromkeys(starts, 0)
    return Usage(
        nothing | {row.window: row.spent_nano for row in now},
        nothing | {row.window: row.byok_nano for row in now},
    )


class _Row(NamedTuple):
    """A counter as it was left. `is_in_use` tells whether requests of the account are under way."""

    pk: int
    window: str
    start: str
    limit_nano: int | None
    spent_nano: int
    byok_nano: int
    is_in_use: bool


def _limited(key: ApiKey, at: datetime) -> list[_Row]:
    """One statement that writes the limit and reads what is told of the key."""
    reader = django_reader()
    places = {*window_starts(at).items(), *window_starts(at - _WINDOWS_OPEN).items()}
    starts = [each for name, start in places for each in (name, reader.day(start))]
    rows = reader.rows(
        "UPDATE accounts_spendcounter SET counts_byok = %s,"  # noqa: S608 - Only placeholders are joined in.
        ' limit_nano = CASE WHEN "window" = %s THEN CAST(%s AS bigint) END'
        f" WHERE scope = 'key' AND scope_id = %s AND ({' OR '.join([_PLACE] * len(places))})"
        ' RETURNING id, "window", window_start, limit_nano, spent_nano, byok_spent_nano,'
        " EXISTS (SELECT 1 FROM accounts_hold WHERE account_id = %s)",
        [
            *(key.include_byok_in_limit, LIMITED_WINDOW[key.limit_reset], key.limit_nano),
            *(str(key.pk), *starts, reader.uuid(key.account_id)),
        ],
    )
    return [_Row(row[0], row[1], str(row[2]), *row[3:]) for row in rows]


def _adopt(key: ApiKey, rows: Sequence[_Row]) -> None:
    """What is held already counts too, in the window that its request began in."""
    holds = OpenHolds(key.account_id)
    for row in rows:
        if row.limit_nano is not None:
            mine = [
                hold
                for hold in holds.of_key(key.pk)
                if str(window_starts(hold.created_at)[row.window]) == row.start
            ]
            holds.adopt(row.pk, mine)
    holds.save()


def no_usage(at: datetime) -> Usage:
    nothing = dict.fromkeys(window_starts(at), 0)
    return Usage(nothing, nothing)


def usage_of(*, key: ApiKey, at: datetime) -> Usage:
    """What the key spent in each window that contains `at`."""
    return usages_of(keys=[key], at=at)[key.pk]


def usages_of(*, keys: Collection[ApiKey], at: datetime) -> dict[int, Usage]:
    """`usage_of` many keys by their numbers, in one query."""
    nothing = dict.fromkeys(window_starts(at), 0)
    spent = {key.pk: dict(nothing) for key in keys}
    byok = {key.pk: dict(nothing) for key in keys}
    rows = _counters(keys, _in_windows(at)).values_list(
        "scope_id", "window", "spent_nano", "byok_spent_nano"
    )
    for scope_id, window, spent_nano, byok_nano in rows:
        spent[int(scope_id)][window] = spent_nano
        byok[int(scope_id)][window] = byok_nano
    return {key: Usage(spent[key], byok[key]) for key in spent}


def _counters(keys: Collection[ApiKey], wanted: Q) -> QuerySet[SpendCounter]:
    ids = [str(key.pk) for key in keys]
    return SpendCounter.objects.filter(wanted, scope=SpendCounter.Scope.KEY, scope_id__in=ids)


def _in_windows(at: datetime) -> Q:
    wanted = Q()
    for window, start in window_starts(at).items():
        wanted |= Q(window=window, window_start=start)
    return wanted
