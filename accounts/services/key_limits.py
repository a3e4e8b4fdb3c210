"""A key's limits on its counters, and what the counters say it spent."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import BigIntegerField, Case, Q, QuerySet, Value, When

from accounts.models import ApiKey, SpendCounter
from accounts.windows import LIMITED_WINDOW, window_starts

# Requests count in the windows they began in, and one that began yesterday may still be raised.
_WINDOWS_OPEN = timedelta(days=1)


def limit_counters(*, key: ApiKey, at: datetime) -> None:
    """Put the key's limit on the counters of its window, and on no other.

    The account's row is locked by now, as the ledger writer does, so that no hold is being placed
    against these counters meanwhile.
    """
    open_ones = _counters([key], _in_windows(at) | _in_windows(at - _WINDOWS_OPEN))
    # Nothing but nulls has no type that PostgreSQL could tell.
    limit_nano = None if key.limit_nano is None else _only_on(key.limit_reset, key.limit_nano)
    open_ones.update(limit_nano=limit_nano)


def _only_on(limit_reset: str | None, limit_nano: int) -> Case:
    limited = When(window=LIMITED_WINDOW[limit_reset], then=Value(limit_nano))
    return Case(limited, default=None, output_field=BigIntegerField())


def usage_nano(*, key: ApiKey, at: datetime) -> dict[str, int]:
    """What the key spent in each window that contains `at`: total, day, week, month."""
    return usages_nano(keys=[key], at=at)[key.pk]


def usages_nano(*, keys: Collection[ApiKey], at: datetime) -> dict[int, dict[str, int]]:
    """`usage_nano` of many keys by their numbers, in one query."""
    nothing = dict.fromkeys(window_starts(at), 0)
    spent_nano = {key.pk: dict(nothing) for key in keys}
    rows = _counters(keys, _in_windows(at)).values_list("scope_id", "window", "spent_nano")
    for scope_id, window, amount_nano in rows:
        spent_nano[int(scope_id)][window] = amount_nano
    return spent_nano


def _counters(keys: Collection[ApiKey], wanted: Q) -> QuerySet[SpendCounter]:
    ids = [str(key.pk) for key in keys]
    return SpendCounter.objects.filter(wanted, scope=SpendCounter.Scope.KEY, scope_id__in=ids)


def _in_windows(at: datetime) -> Q:
    wanted = Q()
    for window, start in window_starts(at).items():
        wanted |= Q(window=window, window_start=start)
    return wanted
