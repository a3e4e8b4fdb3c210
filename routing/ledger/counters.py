"""Which spend counters a payer counts against, by id.

A key has one counter per window, a budget one in its own. They are made when a window is first
spent in. A key's begins with the limit of its row, a budget's with the limit that the payer knows
and what the books say was spent. The ids are remembered once their transaction is committed, for as
long as the payer's limits are those of the account.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple
from uuid import UUID

from accounts.models import SpendCounter
from accounts.services.past_spending import (
    ChargeScope,
    PastSpending,
    SqlReader,
    find_budget_counters,
)
from accounts.spending import LIMITED_WINDOW, NO_COUNTER, OF_REQUESTS, SpendScope
from routing.ledger.limit_backfill import LimitedCounter, backfill_limits
from routing.ledger.orders import Payer
from routing.ledger.session import LedgerSession

Ids = tuple[int, ...]
_KEY = SpendCounter.Scope.KEY.value
_RESET_OF_WINDOW = {window: reset for reset, window in LIMITED_WINDOW.items()}
# A key's limit as requests are held to it: one that only warns is none.
ENFORCED_LIMIT = "CASE WHEN limit_enforcement = 'block' THEN limit_nano END"
_KNOWN_MAX = 50_000
# Of one account, with budgets of requests: each new tag or end user makes another set.
_ACCOUNT_MAX = 5_000
PLACE = '(scope = %s AND scope_id = %s AND "window" = %s AND window_start = %s)'


class CounterSet(NamedTuple):
    """The counters that a payer's charges are added to, and those of them that have a limit, on
    which its holds stand. Each is in ascending order."""

    every: Ids
    limited: Ids


_Sets = OrderedDict[Any, CounterSet]
# Scope, its id, window, and when that began.
_Place = tuple[str, str, str, str]


def format_counter_ids(ids: Ids) -> str:
    """Counter ids as a hold names them."""
    return ",".join(map(str, ids)) or NO_COUNTER


def parse_counter_ids(text: str) -> Ids:
    """Counter ids as a hold names them."""
    return () if text == NO_COUNTER else tuple(map(int, text.split(",")))


class CounterCache:
    """The ids of a payer's counters; `keep_new` and `drop_new` follow the transaction.

    Sets with budgets of requests have places of their own, at most `account_max` for an account.
    Callers name what tags they like, and are to push out nobody else's.
    """

    def __init__(self, *, known_max: int = _KNOWN_MAX, account_max: int = _ACCOUNT_MAX) -> None:
        self._known_max, self._account_max = known_max, account_max
        # By all of a payer but account and workspace, which the key stands for. What was asked for
        # last is at the end, of accounts too.
        self._known: _Sets = OrderedDict()
        self._of_requests: OrderedDict[UUID, _Sets] = OrderedDict()
        self._of_requests_count = 0
        self._new: dict[Payer, CounterSet] = {}

    def find_or_create(self, session: LedgerSession, payer: Payer) -> CounterSet:
        """The counters of a payer who knows the current limits. Lock the account's row before."""
        counter_set = self.find_seen(payer)
        if counter_set is not None:
            return counter_set
        base, scopes = _split_budgets(payer)
        counter_set = self.find_seen(base)
        if counter_set is None:
            existing = (
                None if any(map(_is_read_off_keys, base.budgets)) else _find_current(session, base)
            )
            counter_set = self._new[base] = existing or _create_counters(session, base)
        if scopes:
            self._add_counters_of_requests(session, [(payer, counter_set, scopes)])
            counter_set = self._new[payer]
        return counter_set

    def create_for_requests(self, session: LedgerSession, payers: Iterable[Payer]) -> bool:
        """Make the counters of requests that these payers lack, all with one statement. The payers
        know the current limits, and the rows of their accounts are locked. False where one lacks
        other counters too: then nothing is made."""
        lacking = []
        for payer in payers:
            base, scopes = _split_budgets(payer)
            counter_set = self.find_seen(base)
            if counter_set is None or not scopes:
                return False
            lacking.append((payer, counter_set, scopes))
        if lacking:
            self._add_counters_of_requests(session, lacking)
        return bool(lacking)

    def _add_counters_of_requests(
        self,
        session: LedgerSession,
        lacking: Sequence[tuple[Payer, CounterSet, Sequence[SpendScope]]],
    ) -> None:
        """Put together the sets of payers that have these counters and those of these scopes."""
        wanted = {
            _place_of(payer, scope): (payer, scope)
            for payer, _, scopes in lacking
            for scope in scopes
        }
        ids = _put_counters_of_requests(session, wanted)
        for payer, base, scopes in lacking:
            own = {ids[_place_of(payer, scope)] for scope in scopes}
            self._new[payer] = CounterSet(
                tuple(sorted({*base.every, *own})), tuple(sorted({*base.limited, *own}))
            )

    def find_charged(self, session: LedgerSession, payer: Payer) -> Ids:
        """Those a charge is added to, by a payer whose limits may be older; the row is locked."""
        counter_set = self.find_seen(payer)
        if counter_set is not None:
            return counter_set.every
        rows = _read_rows(session, payer)
        if sum(row[1] == _KEY for row in rows) < len(payer.windows):
            _create_key_counters(session, payer)
            rows = _read_rows(session, payer)
        return tuple(sorted(row[0] for row in rows))

    def find_cached(self, payer: Payer) -> CounterSet | None:
        """Them without a query, None where this process has not seen them committed yet."""
        sets = self._known
        if _names_requests(payer):
            if payer.account_id not in self._of_requests:
                return None
            self._of_requests.move_to_end(payer.account_id)
            sets = self._of_requests[payer.account_id]
        place = payer[2:]
        counter_set = sets.get(place)
        if counter_set is not None:
            sets.move_to_end(place)
        return counter_set

    def find_seen(self, payer: Payer) -> CounterSet | None:
        """Them without a query, also where the open transaction made them."""
        return self.find_cached(payer) or self._new.get(payer)

    def keep_new(self) -> None:
        for payer, counter_set in self._new.items():
            if _names_requests(payer):
                self._keep_of_request(payer, counter_set)
            else:
                self._known[payer[2:]] = counter_set
        self._new.clear()
        while len(self._known) > self._known_max:
            self._known.popitem(last=False)

    def _keep_of_request(self, payer: Payer, counter_set: CounterSet) -> None:
        sets = self._of_requests.setdefault(payer.account_id, OrderedDict())
        self._of_requests.move_to_end(payer.account_id)
        self._of_requests_count -= len(sets)
        sets[payer[2:]] = counter_set
        if len(sets) > self._account_max:
            sets.popitem(last=False)
        self._of_requests_count += len(sets)
        if self._of_requests_count > self._known_max:
            account_id, oldest = next(iter(self._of_requests.items()))
            oldest.popitem(last=False)
            self._of_requests_count -= 1
            if not oldest:
                del self._of_requests[account_id]

    def drop_new(self) -> None:
        self._new.clear()


def _names_requests(payer: Payer) -> bool:
    """Whether budgets of requests apply, which stand behind all others."""
    return bool(payer.budgets) and payer.budgets[-1].scope in OF_REQUESTS


def find_payer_budget_counters(session: LedgerSession, payer: Payer) -> Ids:
    """Those of budgets that the payer's charges belong to, as the books have them now."""
    charge = ChargeScope(payer.account_id, payer.workspace_id, payer.key_id, payer.windows)
    return tuple(find_budget_counters(_build_reader(session), charge))


def _counter_keys(payer: Payer) -> list[tuple[str, str, str, date]]:
    starts = dict(payer.windows)
    mine = [(_KEY, str(payer.key_id), window, start) for window, start in payer.windows]
    budgets = [
        (each.scope, each.scope_id, each.window, starts[each.window]) for each in payer.budgets
    ]
    return mine + budgets


def _read_rows(session: LedgerSession, payer: Payer) -> list[Any]:
    """Id, scope, scope id, window, limit and whether BYOK counts, of each that there is."""
    places = _counter_keys(payer)
    parameters: list[Any] = []
    for scope, scope_id, window, start in places:
        parameters += [scope, scope_id, window, start.isoformat()]
    found = session.execute(
        'SELECT id, scope, scope_id, "window", limit_nano, counts_byok'  # noqa: S608 - Only placeholders are joined in.
        f" FROM accounts_spendcounter WHERE {' OR '.join([PLACE] * len(places))}",
        parameters,
    )
    rows: list[Any] = found.fetchall()
    return rows


def _find_current(session: LedgerSession, payer: Payer) -> CounterSet | None:
    """None where one is missing, or is not what the payer knows of its key or its budget."""
    rows = _read_rows(session, payer)
    if len(rows) < len(_counter_keys(payer)):
        return None
    current = {(row[1], row[2], row[3]): (row[4], bool(row[5])) for row in rows}
    for window, _ in payer.windows:
        limit_nano, _ = current[_KEY, str(payer.key_id), window]
        if (limit_nano is not None) != (window == payer.limited):
            return None
    for each in payer.budgets:
        place = each.scope, each.scope_id, each.window
        if current[place] != (each.counter_limit_nano, each.counts_byok):
            return None
    return _build_set(rows)


def _is_read_off_keys(scope: SpendScope) -> bool:
    """Whether the sum of its spending can be read off its holder's keys. That costs little, so it
    is always summed anew: the holder may have been without the guardrail for a while."""
    return scope.scope == "guardrail" and not scope.workspace


def _create_counters(session: LedgerSession, payer: Payer) -> CounterSet:
    _create_key_counters(session, payer)
    _set_key_limit(session, payer)
    past = PastSpending(_build_reader(session), payer.account_id)
    for scope in payer.budgets:
        _create_budget_counter(session, payer, scope, past)
    rows = _read_rows(session, payer)
    places = {(each.scope, each.scope_id): _workspace(each) for each in payer.budgets}
    limited = [
        LimitedCounter(counter_id, scope, scope_id, window, places.get((scope, scope_id), ""))
        for counter_id, scope, scope_id, window, limit_nano, _ in rows
        if limit_nano is not None
    ]
    backfill_limits(session, payer, limited)
    return _build_set(rows)


def _create_key_counters(session: LedgerSession, payer: Payer) -> None:
    for window, start in payer.windows:
        session.execute(
            'INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start,'
            " spent_nano, held_nano, limit_nano, counts_byok)"
            " SELECT %s, %s, %s, %s, 0, 0, CASE WHEN COALESCE(limit_reset, '') = %s"
            " AND limit_enforcement = 'block' THEN limit_nano END, include_byok_in_limit"
            " FROM accounts_apikey WHERE id = %s"
            " ON CONFLICT DO NOTHING",
            (
                _KEY,
                str(payer.key_id),
                window,
                _day(session, start),
                _RESET_OF_WINDOW[window] or "",
                payer.key_id,
            ),
        )


def _set_key_limit(session: LedgerSession, payer: Payer) -> None:
    """Put the key's limit where it stands by now, and on no other window."""
    limit_nano, reset = session.execute(
        f"SELECT {ENFORCED_LIMIT}, limit_reset FROM accounts_apikey WHERE id = %s",  # noqa: S608 - A constant.
        (payer.key_id,),
    ).fetchone()
    places = " OR ".join(['("window" = %s AND window_start = %s)'] * len(payer.windows))
    starts = [each for name, start in payer.windows for each in (name, _day(session, start))]
    session.execute(
        "UPDATE accounts_spendcounter"  # noqa: S608 - Only placeholders are joined in.
        ' SET limit_nano = CASE WHEN "window" = %s THEN CAST(%s AS bigint) END'
        f" WHERE scope = %s AND scope_id = %s AND ({places})",
        (LIMITED_WINDOW[reset], limit_nano, _KEY, str(payer.key_id), *starts),
    )


def _build_set(rows: Sequence[Any]) -> CounterSet:
    return CounterSet(
        tuple(sorted(row[0] for row in rows)),
        tuple(sorted(row[0] for row in rows if row[4] is not None)),
    )


def _workspace(scope: SpendScope) -> str:
    """The one workspace that counts, in hex; empty for anywhere."""
    return scope.scope_id if scope.scope == "workspace" else scope.workspace


def _split_budgets(payer: Payer) -> tuple[Payer, Sequence[SpendScope]]:
    """The payer without budgets of requests, and these."""
    count = len(payer.budgets)
    while count and payer.budgets[count - 1].scope in OF_REQUESTS:
        count -= 1
    return payer._replace(budgets=payer.budgets[:count]), payer.budgets[count:]


def _place_of(payer: Payer, scope: SpendScope) -> _Place:
    return scope.scope, scope.scope_id, scope.window, dict(payer.windows)[scope.window].isoformat()


def _put_counters_of_requests(
    session: LedgerSession, wanted: Mapping[_Place, tuple[Payer, SpendScope]]
) -> dict[_Place, int]:
    """The ids of these counters, with the limits as their payers know them. What they say was spent
    stays: they count since the budget was set."""
    values: list[Any] = []
    for (name, scope_id, window, _), (payer, scope) in wanted.items():
        values += [name, scope_id, window, _day(session, dict(payer.windows)[window])]
        values += [scope.counter_limit_nano, scope.counts_byok]
        values += [session.uuid(payer.account_id), session.uuid(payer.workspace_id)]
    rows = ", ".join(["(%s, %s, %s, %s, 0, 0, %s, 0, %s, %s, %s)"] * len(wanted))
    found = session.execute(
        'INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start, spent_nano,'  # noqa: S608 - Only placeholders are joined in.
        " held_nano, limit_nano, byok_spent_nano, counts_byok, account_id, workspace_id)"
        f" VALUES {rows}"
        ' ON CONFLICT (scope, scope_id, "window", window_start) DO UPDATE SET'
        " limit_nano = excluded.limit_nano, counts_byok = excluded.counts_byok"
        ' RETURNING id, scope, scope_id, "window", window_start',
        values,
    ).fetchall()
    return {(row[1], row[2], row[3], str(row[4])): row[0] for row in found}


def _create_budget_counter(
    session: LedgerSession, payer: Payer, scope: SpendScope, past: PastSpending
) -> None:
    start = dict(payer.windows)[scope.window]
    spent_nano, byok_nano = past.read(scope, start)
    workspace = _workspace(scope)
    session.execute(
        'INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start, spent_nano,'
        " held_nano, limit_nano, byok_spent_nano, counts_byok, account_id, workspace_id)"
        " VALUES (%s, %s, %s, %s, %s, 0, %s, %s, %s, %s, %s)"
        ' ON CONFLICT (scope, scope_id, "window", window_start) DO UPDATE SET'
        " spent_nano = excluded.spent_nano, byok_spent_nano = excluded.byok_spent_nano,"
        " limit_nano = excluded.limit_nano, counts_byok = excluded.counts_byok",
        (
            scope.scope,
            scope.scope_id,
            scope.window,
            _day(session, start),
            spent_nano,
            scope.counter_limit_nano,
            byok_nano,
            scope.counts_byok,
            session.uuid(payer.account_id),
            session.uuid(UUID(workspace)) if workspace else None,
        ),
    )


def _build_reader(session: LedgerSession) -> SqlReader:
    return SqlReader(
        lambda sql, parameters: session.execute(sql, parameters).fetchall(), session.is_sqlite
    )


def _day(session: LedgerSession, day: date) -> Any:
    return day.isoformat() if session.is_sqlite else day
