"""What keys and budgets have spent at a moment, also where no counter says it yet.

A counter that is missing, or has no limit, may lack what was spent while its budget was being set.
The ledger writer makes it anew when it next meets it (`routing/ledger`). Until then the sum comes
from the ledger's entries. One statement reads everything, so as of one moment.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple
from uuid import UUID

from accounts.models import ApiKey
from accounts.services.key_limits import KeyUsage
from accounts.services.past_spending import (
    SqlReader,
    build_django_reader,
    build_usage_condition,
)
from accounts.spending import (
    LIMITED_WINDOW,
    OF_REQUESTS,
    WINDOW_WORDS,
    SpendScope,
    find_window_end,
    find_window_starts,
    parse_holder,
)
from gateway.http.jsonio import JsonObject

_AT = '"window" = %s AND window_start = %s'
_OF_KEYS = f"accounts_spendcounter WHERE scope = 'key' AND {_AT}"
# A day allows for clocks that do not agree.
_CLOCKS = timedelta(days=1)


class _Sql(NamedTuple):
    """A piece of a statement, and its parameters."""

    text: str
    values: Sequence[Any]


class _QueryBuilder:
    """Writes the pieces for one account at one moment."""

    def __init__(self, reader: SqlReader, account_id: UUID, at: datetime) -> None:
        self._reader = reader
        self._account_id = account_id
        self._starts = find_window_starts(at)

    def usage(self, key_id: int) -> _Sql:
        """A row for each window that the key has a counter of: what it spent."""
        places = " OR ".join([f"({_AT})"] * len(self._starts))
        starts = [each for window in self._starts for each in self._window_values(window)]
        return _Sql(
            'SELECT "window", spent_nano, byok_spent_nano FROM accounts_spendcounter'  # noqa: S608 - Constants; values are bound.
            f" WHERE scope = 'key' AND scope_id = %s AND ({places})",
            [str(key_id), *starts],
        )

    def build_count(self, name: str, scope: SpendScope) -> _Sql:
        """A row that begins with the name: what counts against the budget."""
        spent = _sum_expression(scope, "spent_nano", "byok_spent_nano")
        if scope.scope in OF_REQUESTS:
            # The counter alone: the books do not say it.
            return _Sql(
                f"SELECT '{name}', COALESCE((SELECT {spent} FROM accounts_spendcounter"  # noqa: S608 - Constants; values are bound.
                f" WHERE scope = %s AND scope_id = %s AND {_AT}), 0), 0",
                [scope.scope, scope.scope_id, *self._window_values(scope.window)],
            )
        if scope.scope == "workspace":
            books = self._count_workspace(scope)
        elif scope.workspace:
            books = self._count_holder_there(scope)
        else:
            # The counters of its keys say it always.
            keys = self._keys(scope)
            return _Sql(
                f"SELECT '{name}', COALESCE((SELECT SUM({spent}) FROM {_OF_KEYS}"  # noqa: S608 - Constants; values are bound.
                f" AND scope_id IN ({_as_scope_ids(keys.text)})), 0), 0",
                [*self._window_values(scope.window), *keys.values],
            )
        # The counter's word, where the ledger writer has met it as it is. The second is only
        # carried out where the first finds nothing.
        return _Sql(
            f"SELECT '{name}', COALESCE((SELECT {spent} FROM accounts_spendcounter"  # noqa: S608 - Constants; values are bound.
            f" WHERE scope = %s AND scope_id = %s AND {_AT} AND limit_nano IS NOT NULL),"
            f" ({books.text}), 0), 0",
            [scope.scope, scope.scope_id, *self._window_values(scope.window), *books.values],
        )

    def _count_workspace(self, scope: SpendScope) -> _Sql:
        """The books, unless the budget is older than its window: then whoever had spent something
        in the window would have made its counter."""
        workspace = UUID(scope.scope_id)
        entries = self._entries(scope, workspace)
        since = self._reader.midnight(self._start(scope) - _CLOCKS)
        return _Sql(
            f"{entries.text} AND EXISTS (SELECT 1 FROM accounts_workspacebudget"  # noqa: S608 - Constants; values are bound.
            ' WHERE workspace_id = %s AND "interval" = %s AND updated_at >= %s)',
            [
                *entries.values,
                *(self._reader.uuid(workspace), WINDOW_WORDS[scope.window], since),
            ],
        )

    def _count_holder_there(self, scope: SpendScope) -> _Sql:
        """What the holder's keys spent in the one workspace, by the books, unless their counters
        say that it is nothing."""
        entries, keys = self._entries(scope, UUID(scope.workspace)), self._keys(scope)
        anywhere = (
            f"SELECT 1 FROM {_OF_KEYS} AND (spent_nano <> 0 OR byok_spent_nano <> 0)"  # noqa: S608 - Constants; values are bound.
            f" AND scope_id IN ({_as_scope_ids(keys.text)})"
        )
        return _Sql(
            f"{entries.text} AND api_key_id IN ({keys.text}) AND EXISTS ({anywhere})",
            [*entries.values, *keys.values, *self._window_values(scope.window), *keys.values],
        )

    def _entries(self, scope: SpendScope, workspace: UUID) -> _Sql:
        condition, values = build_usage_condition(
            self._reader, self._account_id, workspace, scope.window, self._start(scope)
        )
        amount = _sum_expression(scope, "amount_nano", "byok_nano")
        return _Sql(f"SELECT SUM({amount}) FROM accounts_ledgerentry WHERE {condition}", values)  # noqa: S608 - Constants; values are bound.

    def _keys(self, scope: SpendScope) -> _Sql:
        """The numbers of the holder's keys."""
        kind, number = parse_holder(scope.scope_id)
        column = "id" if kind == "k" else "creator_id"
        return _Sql(
            f"SELECT id FROM accounts_apikey WHERE {column} = %s AND account_id = %s",  # noqa: S608 - Constants; values are bound.
            [number, self._reader.uuid(self._account_id)],
        )

    def _window_values(self, window: str) -> list[Any]:
        return [window, self._reader.day(self._starts[window])]

    def _start(self, scope: SpendScope) -> date:
        return self._starts[scope.window]


def _sum_expression(scope: SpendScope, spent: str, byok: str) -> str:
    """What counts, of two columns, as whoever is held to the budget knows it: the counter's own
    word may be older."""
    return f"{spent} + {byok}" if scope.counts_byok else spent


def _as_scope_ids(keys: str) -> str:
    """Keys as counters name them."""
    return keys.replace("SELECT id", "SELECT CAST(id AS varchar(64))", 1)


def read_spending(
    account_id: UUID, scopes: Sequence[SpendScope], *, at: datetime
) -> dict[SpendScope, int]:
    """What counts against each budget of the account in its window of `at`, in nano-USD, without
    what is held."""
    counted = read_spending_of_many([(account_id, scope) for scope in scopes], at=at)
    return dict(zip(scopes, counted, strict=True))


def read_spending_of_many(budgets: Sequence[tuple[UUID, SpendScope]], *, at: datetime) -> list[int]:
    """What counts against budgets of several accounts, each beside its account, in one query."""
    reader = build_django_reader()
    pieces = [
        _QueryBuilder(reader, account_id, at).build_count(str(n), scope)
        for n, (account_id, scope) in enumerate(budgets)
    ]
    counted = {row[0]: int(row[1]) for row in _fetch_rows(reader, pieces)}
    return [counted[str(n)] for n in range(len(budgets))]


def read_key_spending(
    key: ApiKey, scopes: Sequence[SpendScope], *, at: datetime
) -> tuple[KeyUsage, dict[SpendScope, int]]:
    """What the key spent by `at`, and `read_spending` of budgets of its account."""
    reader = build_django_reader()
    builder = _QueryBuilder(reader, key.account_id, at)
    pieces = [builder.build_count(str(n), scope) for n, scope in enumerate(scopes)]
    rows = {row[0]: row[1:] for row in _fetch_rows(reader, [builder.usage(key.pk), *pieces])}
    windows = {window: rows.get(window, (0, 0)) for window in find_window_starts(at)}
    usage = KeyUsage(
        {window: int(spent) for window, (spent, _) in windows.items()},
        {window: int(byok) for window, (_, byok) in windows.items()},
    )
    return usage, {scope: int(rows[str(n)][0]) for n, scope in enumerate(scopes)}


def _fetch_rows(reader: SqlReader, pieces: Sequence[_Sql]) -> Sequence[Sequence[Any]]:
    if not pieces:
        return ()
    values = [value for piece in pieces for value in piece.values]
    return reader.rows(" UNION ALL ".join(piece.text for piece in pieces), values)


BudgetScope = Literal[
    "workspace_default_member",
    "workspace_default_key",
    "member",
    "api_key",
    "workspace",
    "key_limit",
]


class BudgetStanding(NamedTuple):
    """A budget and how much of it is spent, in nano-USD. `window` is one of `WINDOW_WORDS`;
    `resets_at` is None where it never does. One of the two ids says what it is of, or none."""

    scope: BudgetScope
    window: str
    limit_nano: int
    spent_nano: int
    resets_at: datetime | None
    counts_byok: bool
    guardrail_id: UUID | None = None
    budget_id: UUID | None = None
    is_enforced: bool = True

    @property
    def left_nano(self) -> int:
        """Below zero where the last answer cost more than was left."""
        return self.limit_nano - self.spent_nano


def read_budget_standings(
    key: ApiKey,
    budgets: Sequence[SpendScope],
    budget_ids: Mapping[str, UUID | None],
    *,
    at: datetime,
) -> tuple[KeyUsage, list[BudgetStanding]]:
    """What the key spent by `at`, and its budgets, in one query; the key's own limit looks like one
    more. `budget_ids` are those of its workspace's by interval."""
    usage, counted = read_key_spending(key, budgets, at=at)
    standings = [_build_standing(scope, counted[scope], budget_ids, at) for scope in budgets]
    if key.limit_nano is not None:
        window = LIMITED_WINDOW[key.limit_reset]
        standings.append(
            BudgetStanding(
                "key_limit",
                window,
                key.limit_nano,
                usage.counted_nano(key),
                _find_reset(window, at),
                key.include_byok_in_limit,
                is_enforced=key.enforced_limit_nano is not None,
            )
        )
    return usage, standings


def _build_standing(
    scope: SpendScope, spent_nano: int, budget_ids: Mapping[str, UUID | None], at: datetime
) -> BudgetStanding:
    whose: JsonObject
    if scope.scope == "workspace":
        word: BudgetScope = "workspace"
        whose = {"budget_id": budget_ids.get(WINDOW_WORDS[scope.window])}
    else:
        is_key = parse_holder(scope.scope_id)[0] == "k"
        if scope.workspace:
            word = "workspace_default_key" if is_key else "workspace_default_member"
        else:
            word = "api_key" if is_key else "member"
        whose = {"guardrail_id": UUID(scope.scope_id.partition(":")[0])}
    return BudgetStanding(
        word,
        scope.window,
        scope.limit_nano,
        spent_nano,
        _find_reset(scope.window, at),
        scope.counts_byok,
        is_enforced=scope.is_enforced,
        **whose,
    )


def _find_reset(window: str, at: datetime) -> datetime | None:
    end: date | None = find_window_end(window, find_window_starts(at)[window])
    return None if end is None else datetime(end.year, end.month, end.day, tzinfo=UTC)
