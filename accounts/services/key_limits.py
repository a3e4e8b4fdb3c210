"""A key's limits on its counters, and what the counters say it spent."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q

from accounts.models import ApiKey, SpendCounter
from accounts.services.past_spending import build_django_reader
from accounts.services.spend_scopes import log_limits_change, outdate_limits
from accounts.spending import LIMITED_WINDOW, find_window_starts

# Requests count in the windows they began in, and one that began yesterday may still be raised.
_WINDOWS_OPEN = timedelta(days=1)
_KEY = SpendCounter.Scope.KEY.value
_PLACE = '("window" = %s AND window_start = %s)'


class KeyUsage(NamedTuple):
    """What a key spent in each window, and what its own credentials were charged: nano-USD by
    `total`, `day`, `week` and `month`."""

    spent: Mapping[str, int]
    byok: Mapping[str, int]

    def counted_nano(self, key: ApiKey) -> int:
        """What counts against the key's limit."""
        window = LIMITED_WINDOW[key.limit_reset]
        return self.spent[window] + (self.byok[window] if key.include_byok_in_limit else 0)


def set_counter_limits(*, key: ApiKey, at: datetime, moved: bool) -> KeyUsage:
    """Put the key's limit on the counters of its window, and on no other; what the key spent by
    then. `moved` says that it stands on another window than before, or on one at all.

    Requests under way count against it from the commit on, as later ones do. While there are any,
    the ledger writer puts a limit on where there was none, and lets them hold on it. The account's
    row is locked by now, as the ledger writer does, so that no hold is being placed against these
    counters meanwhile.
    """
    reader = build_django_reader()
    starts = find_window_starts(at)
    places = {*starts.items(), *find_window_starts(at - _WINDOWS_OPEN).items()}
    rows = reader.rows(
        "UPDATE accounts_spendcounter SET counts_byok = %s,"  # noqa: S608 - Only placeholders are joined in.
        ' limit_nano = CASE WHEN "window" = %s AND (limit_nano IS NOT NULL OR NOT EXISTS'
        " (SELECT 1 FROM accounts_hold WHERE account_id = %s)) THEN CAST(%s AS bigint) END"
        f" WHERE scope = 'key' AND scope_id = %s AND ({' OR '.join([_PLACE] * len(places))})"
        ' RETURNING "window", window_start, spent_nano, byok_spent_nano',
        [
            *(key.include_byok_in_limit, LIMITED_WINDOW[key.limit_reset]),
            *(reader.uuid(key.account_id), key.enforced_limit_nano, str(key.pk)),
            *(each for name, start in places for each in (name, reader.day(start))),
        ],
    )
    if moved and rows:
        outdate_limits(key.account_id)
    else:
        log_limits_change(key.account_id)
    now = [row for row in rows if str(starts[row[0]]) == str(row[1])]
    nothing = dict.fromkeys(starts, 0)
    return KeyUsage(
        nothing | {window: spent_nano for window, _, spent_nano, _ in now},
        nothing | {window: byok_nano for window, _, _, byok_nano in now},
    )


def build_zero_usage(at: datetime) -> KeyUsage:
    nothing = dict.fromkeys(find_window_starts(at), 0)
    return KeyUsage(nothing, nothing)


def read_usage(*, key: ApiKey, at: datetime) -> KeyUsage:
    """What the key spent in each window that contains `at`."""
    return read_usages(keys=[key], at=at)[key.pk]


def read_usages(*, keys: Collection[ApiKey], at: datetime) -> dict[int, KeyUsage]:
    """`read_usage` of many keys by their numbers, in one query."""
    starts = find_window_starts(at)
    current = Q()
    for window, start in starts.items():
        current |= Q(window=window, window_start=start)
    ids = [str(key.pk) for key in keys]
    of_key: dict[str, list[SpendCounter]] = {}
    for row in SpendCounter.objects.filter(current, scope=_KEY, scope_id__in=ids):
        of_key.setdefault(row.scope_id, []).append(row)
    nothing = dict.fromkeys(starts, 0)
    return {
        key.pk: KeyUsage(
            nothing | {row.window: row.spent_nano for row in of_key.get(str(key.pk), ())},
            nothing | {row.window: row.byok_spent_nano for row in of_key.get(str(key.pk), ())},
        )
        for key in keys
    }
