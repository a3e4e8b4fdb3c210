"""Which spend counters a payer counts against, by id.

A key has one counter per window, a budget one in its own. They are made when a window is first
spent in: a key's with the limit its row has at that moment, a budget's with the limit the payer
knows and with what the books say was spent already. The ids are remembered once their transaction
is committed, for as long as the payer's limits are those of the account.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
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
from accounts.spending import NO_COUNTER, SpendScope
from accounts.windows import LIMITED_WINDOW
from routing.ledger.adoption import Limited, adopt
from routing.ledger.orders import Payer
from routing.ledger.session import Session

Ids = tuple[int, ...]
_KEY = SpendCounter.Scope.KEY.value
_RESET_OF_WINDOW = {window: reset for reset, window in LIMITED_WINDOW.items()}
_KNOWN_MAX = 50_000
_PLACE = '(scope = %s AND scope_id = %s AND "window" = %s AND window_start = %s)'


class CounterSet(NamedTuple):
    """The counters that a payer's charges are added to, and those of them that have a limit, which
    its holds are held on; each in ascending order."""

    every: Ids
    limited: Ids


class Figures(NamedTuple):
    """What a counter says. `counts_byok` tells whether the `byok` figures count."""

    spent_nano: int
    held_nano: int
    byok_spent_nano: int
    byok_held_nano: int
    counts_byok: bool

    @property
    def counted_nano(self) -> int:
        return self.spent_nano + (self.byok_spent_nano if self.counts_byok else 0)

    @property
    def counted_held_nano(self) -> int:
        return self.held_nano + (self.byok_held_nano if self.counts_byok else 0)


def text_of(ids: Ids) -> str:
    """Counter ids as a hold names them."""
    return ",".join(map(str, ids)) or NO_COUNTER


def ids_of(text: str) -> Ids:
    """Counter ids as a hold names them."""
    return () if text == NO_COUNTER else tuple(map(int, text.split(",")))


class CounterIds:
    """The ids of a payer's counters; `committed` and `rolled_back` follow the transaction."""

    def __init__(self) -> None:
        # By all of a payer but account and workspace, which the key stands for.
        self._known: OrderedDict[Any, CounterSet] = OrderedDict()
        self._new: dict[Any, CounterSet] = {}

    def of(self, session: Session, payer: Payer) -> CounterSet:
        """The counters of a payer who knows the limits of now. The account's row must be locked."""
        found = self._seen(payer)
        if found is None:
            known = None if any(map(_is_read_off_keys, payer.budgets)) else _find(session, payer)
            found = self._new[payer[2:]] = known or _make(session, payer)
        return found

    def charged(self, session: Session, payer: Payer) -> Ids:
        """Those a charge is added to, by a payer whose limits may be older; the row is locked."""
        known = self._seen(payer)
        if known is not None:
            return known.every
        rows = _rows(session, payer)
        if sum(row[1] == _KEY for row in rows) < len(payer.windows):
            _make_of_key(session, payer)
            rows = _rows(session, payer)
        return tuple(sorted(row[0] for row in rows))

    def known(self, payer: Payer) -> CounterSet | None:
        """Them without a query, None where this process has not seen them committed yet."""
        return self._known.get(payer[2:])

    def _seen(self, payer: Payer) -> CounterSet | None:
        return self._known.get(payer[2:]) or self._new.get(payer[2:])

    def committed(self) -> None:
        if not self._new:
            return
        self._known.update(self._new)
        self._new.clear()
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def rolled_back(self) -> None:
        self._new.clear()


def budget_counters(session: Session, payer: Payer) -> Ids:
    """Those of budgets that the payer's charges belong to, as the books have them now."""
    charge = ChargeScope(payer.account_id, payer.workspace_id, payer.key_id, payer.windows)
    return tuple(find_budget_counters(_reader(session), charge))


def figures(session: Session, scope: str, scope_id: str, window: str, start: date) -> Figures:
    """What one counter says; nothing where there is none yet."""
    row = session.execute(
        "SELECT spent_nano, held_nano, byok_spent_nano, byok_held_nano, counts_byok"  # noqa: S608 - A constant.
        f" FROM accounts_spendcounter WHERE {_PLACE}",
        (scope, scope_id, window, start.isoformat()),
    ).fetchone()
    if row is None:
        return Figures(0, 0, 0, 0, counts_byok=False)
    spent_nano, held_nano, byok_spent_nano, byok_held_nano, counts_byok = row
    return Figures(spent_nano, held_nano, byok_spent_nano, byok_held_nano, bool(counts_byok))


def _places(payer: Payer) -> list[tuple[str, str, str, date]]:
    starts = dict(payer.windows)
    mine = [(_KEY, str(payer.key_id), window, start) for window, start in payer.windows]
    budgets = [
        (each.scope, each.scope_id, each.window, starts[each.window]) for each in payer.budgets
    ]
    return mine + budgets


def _rows(session: Session, payer: Payer) -> list[Any]:
    """Id, scope, scope id, window, limit and whether BYOK counts, of each that there is."""
    places = _places(payer)
    parameters: list[Any] = []
    for scope, scope_id, window, start in places:
        parameters += [scope, scope_id, window, start.isoformat()]
    found = session.execute(
        'SELECT id, scope, scope_id, "window", limit_nano, counts_byok'  # noqa: S608 - Only placeholders are joined in.
        f" FROM accounts_spendcounter WHERE {' OR '.join([_PLACE] * len(places))}",
        parameters,
    )
    rows: list[Any] = found.fetchall()
    return rows


def _find(session: Session, payer: Payer) -> CounterSet | None:
    """None where one is missing, or is not what the payer knows of its key or its budget."""
    rows = _rows(session, payer)
    if len(rows) < len(_places(payer)):
        return None
    said = {(row[1], row[2], row[3]): (row[4], bool(row[5])) for row in rows}
    for window, _ in payer.windows:
        limit_nano, _ = said[_KEY, str(payer.key_id), window]
        if (limit_nano is not None) != (window == payer.limited):
            return None
    for each in payer.budgets:
        place = each.scope, each.scope_id, each.window
        if said[place] != (each.limit_nano, each.counts_byok):
            return None
    return _set(rows)


def _is_read_off_keys(scope: SpendScope) -> bool:
    """Whether what it spent is what its holder's keys did: at little cost, it is made sure of that,
    also where the holder was without the guardrail for a while."""
    return scope.scope == "guardrail" and not scope.workspace


def _make(session: Session, payer: Payer) -> CounterSet:
    _make_of_key(session, payer)
    _limit_key(session, payer)
    past = PastSpending(_reader(session), payer.account_id)
    for scope in payer.budgets:
        _make_of_budget(session, payer, scope, past)
    rows = _rows(session, payer)
    adopt(session, payer, _limited(payer, rows))
    return _set(rows)


def _make_of_key(session: Session, payer: Payer) -> None:
    for window, start in payer.windows:
        session.execute(
            'INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start,'
            " spent_nano, held_nano, limit_nano, counts_byok)"
            " SELECT %s, %s, %s, %s, 0, 0, CASE WHEN COALESCE(limit_reset, '') = %s"
            " THEN limit_nano END, include_byok_in_limit FROM accounts_apikey WHERE id = %s"
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


def _limit_key(session: Session, payer: Payer) -> None:
    """Put the key's limit where it stands by now, and on no other window."""
    limit_nano, reset = session.execute(
        "SELECT limit_nano, limit_reset FROM accounts_apikey WHERE id = %s", (payer.key_id,)
    ).fetchone()
    places = " OR ".join(['("window" = %s AND window_start = %s)'] * len(payer.windows))
    starts = [each for name, start in payer.windows for each in (name, _day(session, start))]
    session.execute(
        "UPDATE accounts_spendcounter"  # noqa: S608 - Only placeholders are joined in.
        ' SET limit_nano = CASE WHEN "window" = %s THEN CAST(%s AS bigint) END'
        f" WHERE scope = %s AND scope_id = %s AND ({places})",
        (LIMITED_WINDOW[reset], limit_nano, _KEY, str(payer.key_id), *starts),
    )


def _limited(payer: Payer, rows: Sequence[Any]) -> Iterator[Limited]:
    places = {(each.scope, each.scope_id): _workspace(each) for each in payer.budgets}
    for counter_id, scope, scope_id, window, limit_nano, _ in rows:
        if limit_nano is not None:
            place = places.get((scope, scope_id), "")
            yield Limited(counter_id, scope, scope_id, window, place)


def _set(rows: Sequence[Any]) -> CounterSet:
    return CounterSet(
        tuple(sorted(row[0] for row in rows)),
        tuple(sorted(row[0] for row in rows if row[4] is not None)),
    )


def _workspace(scope: SpendScope) -> str:
    """The one workspace that counts, in hex; empty for anywhere."""
    return scope.scope_id if scope.scope == "workspace" else scope.workspace


def _make_of_budget(session: Session, payer: Payer, scope: SpendScope, past: PastSpending) -> None:
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
            scope.limit_nano,
            byok_nano,
            scope.counts_byok,
            session.uuid(payer.account_id),
            session.uuid(UUID(workspace)) if workspace else None,
        ),
    )


def _reader(session: Session) -> SqlReader:
    return SqlReader(
        lambda sql, parameters: session.execute(sql, parameters).fetchall(), session.is_sqlite
    )


def _day(session: Session, day: date) -> Any:
    return day.isoformat() if session.is_sqlite else day
