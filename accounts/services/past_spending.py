"""What a budget's scope has spent already, summed up from the ledger: where a counter begins.

Plain SQL with `%s` placeholders, which the ledger writer reads on its own connection and everybody
else on Django's. The account's row is locked by now, so that nothing moves meanwhile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from accounts.models import Account, SpendCounter
from accounts.services.spend_scopes import build_scope
from accounts.spending import (
    ALL_TIME,
    SpendScope,
    find_window_end,
    find_window_starts,
    parse_holder,
)

Spent = tuple[int, int]
_NOTHING: Spent = (0, 0)
_USAGE = "kind IN ('usage', 'byok_fee', 'usage_reversal')"


@dataclass(frozen=True, slots=True)
class SqlReader:
    """`rows(sql, parameters)` fetches all rows."""

    rows: Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
    is_sqlite: bool

    def uuid(self, value: UUID) -> Any:
        return value.hex if self.is_sqlite else value

    def day(self, value: date) -> Any:
        return value.isoformat() if self.is_sqlite else value

    def moment(self, value: datetime) -> Any:
        return connection.ops.adapt_datetimefield_value(value)

    def midnight(self, value: date) -> Any:
        return self.moment(datetime(value.year, value.month, value.day, tzinfo=UTC))


def build_django_reader() -> SqlReader:
    """Reads on Django's connection, in its transaction."""

    def rows(sql: str, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            found: Sequence[Sequence[Any]] = cursor.fetchall()
            return found

    return SqlReader(rows, connection.vendor == "sqlite")


class ChargeScope(NamedTuple):
    """Whose a charge is, and the windows that it counts in."""

    account_id: UUID
    workspace_id: UUID
    key_id: int
    windows: tuple[tuple[str, date], ...]


def find_budget_counters(reader: SqlReader, charge: ChargeScope) -> list[int]:
    """The ids of the budgets' counters that there are and that a charge belongs to."""
    pairs = " OR ".join(['("window" = %s AND window_start = %s)'] * len(charge.windows))
    starts = [each for name, start in charge.windows for each in (name, reader.day(start))]
    rows = reader.rows(
        "SELECT id, scope_id FROM accounts_spendcounter"  # noqa: S608 - Only placeholders are joined in.
        " WHERE scope IN ('workspace', 'guardrail') AND account_id = %s"
        f" AND (workspace_id IS NULL OR workspace_id = %s) AND ({pairs})",
        [reader.uuid(charge.account_id), reader.uuid(charge.workspace_id), *starts],
    )
    if not rows:
        return []
    creators = reader.rows("SELECT creator_id FROM accounts_apikey WHERE id = %s", [charge.key_id])
    holders = {("k", charge.key_id), *(("u", row[0]) for row in creators)}
    return [row[0] for row in rows if ":" not in row[1] or parse_holder(row[1]) in holders]


class PastSpending:
    """What was spent in an account, and on credentials of its own at list price, in nano-USD.

    Each sum over entries is read once, however many scopes ask for it.
    """

    def __init__(self, reader: SqlReader, account_id: UUID) -> None:
        self._reader = reader
        self._account_id = account_id
        self._of_workspaces: dict[tuple[str, str, date], dict[int, Spent]] = {}

    def read(self, scope: SpendScope, start: date) -> Spent:
        """In the window of the scope that begins on `start`."""
        if scope.scope == "workspace":
            return _add_up(self._read_by_key(scope.scope_id, scope.window, start).values())
        kind, number = parse_holder(scope.scope_id)
        keys = [number] if kind == "k" else self._list_keys(number)
        if not keys:
            return _NOTHING
        # A key's own counters count all that it spends.
        marks = ", ".join(["%s"] * len(keys))
        counters = self._reader.rows(
            "SELECT spent_nano, byok_spent_nano FROM accounts_spendcounter WHERE scope = 'key'"  # noqa: S608 - Only placeholders are joined in.
            f' AND "window" = %s AND window_start = %s AND scope_id IN ({marks})',
            [scope.window, self._reader.day(start), *map(str, keys)],
        )
        anywhere = _add_up((row[0], row[1]) for row in counters)
        if anywhere == _NOTHING or not scope.workspace:
            return anywhere
        by_key = self._read_by_key(scope.workspace, scope.window, start)
        return _add_up(by_key.get(key, _NOTHING) for key in keys)

    def _list_keys(self, creator: int) -> list[int]:
        rows = self._reader.rows(
            "SELECT id FROM accounts_apikey WHERE creator_id = %s AND account_id = %s",
            [creator, self._reader.uuid(self._account_id)],
        )
        return [row[0] for row in rows]

    def _read_by_key(self, workspace: str, window: str, start: date) -> dict[int, Spent]:
        place = workspace, window, start
        if place not in self._of_workspaces:
            condition, values = build_usage_condition(
                self._reader, self._account_id, UUID(workspace), window, start
            )
            rows = self._reader.rows(
                "SELECT api_key_id, SUM(amount_nano), SUM(byok_nano) FROM accounts_ledgerentry"  # noqa: S608 - Constant fragments of this module; values are bound.
                f" WHERE {condition} GROUP BY api_key_id",
                values,
            )
            self._of_workspaces[place] = {row[0]: (int(row[1]), int(row[2])) for row in rows}
        return self._of_workspaces[place]


def recount_budgets(account_id: UUID, *, now: datetime) -> None:
    """Let the counters of an account's budgets say what the books say."""
    with transaction.atomic():
        # As the ledger writer does: nobody touches them meanwhile.
        Account.objects.select_for_update(no_key=True).get(pk=account_id)
        past = PastSpending(build_django_reader(), account_id)
        for row in select_budget_counters(now).filter(account_id=account_id):
            row.spent_nano, row.byok_spent_nano = past.read(build_scope(row), row.window_start)
            row.save(update_fields=["spent_nano", "byok_spent_nano"])


def select_budget_counters(now: datetime) -> QuerySet[SpendCounter]:
    """The counters of budgets in the current windows. Older ones may be from before a budget was
    taken away and set again. Those of end users are the only word on what these spent."""
    current = Q()
    for window, start in find_window_starts(now).items():
        current |= Q(window=window, window_start=start)
    scopes = (SpendCounter.Scope.WORKSPACE, SpendCounter.Scope.GUARDRAIL)
    budgets = SpendCounter.objects.filter(scope__in=scopes)
    return budgets.filter(current, limit_nano__isnull=False).order_by("account_id", "pk")


def build_usage_condition(
    reader: SqlReader, account_id: UUID, workspace_id: UUID, window: str, start: date
) -> tuple[str, list[Any]]:
    """Which entries count in a workspace's window, as a condition and its parameters: those whose
    request began in it. Older entries do not say that day."""
    condition = f"account_id = %s AND workspace_id = %s AND {_USAGE}"
    values = [reader.uuid(account_id), reader.uuid(workspace_id)]
    end = find_window_end(window, start)
    if end is None:
        assert start == ALL_TIME
        return condition, values
    written = "date(created_at)" if reader.is_sqlite else "(created_at AT TIME ZONE 'UTC')::date"
    day = f"COALESCE(day, {written})"
    # None is written before its request began; a day allows for clocks that do not agree.
    earliest = reader.midnight(start - timedelta(days=1))
    condition += f" AND created_at >= %s AND {day} >= %s AND {day} < %s"
    return condition, [*values, earliest, reader.day(start), reader.day(end)]


def _add_up(amounts: Iterable[Spent]) -> Spent:
    nano, byok_nano = 0, 0
    for amount, byok in amounts:
        nano, byok_nano = nano + amount, byok_nano + byok
    return nano, byok_nano
