"""Which spend counters a payer counts against, by id.

A key has one counter per window. They are made when a window is first spent in, with the limit the
key's row has at that moment; the ids are remembered once their transaction is committed.
"""

from collections import OrderedDict

from accounts.models import SpendCounter
from accounts.windows import LIMITED_WINDOW
from routing.metering.orders import Payer
from routing.metering.session import Session

Ids = tuple[int, ...]
_SCOPE = SpendCounter.Scope.KEY.value
_RESET_OF_WINDOW = {window: reset for reset, window in LIMITED_WINDOW.items()}
_KNOWN_MAX = 50_000


def text_of(ids: Ids) -> str:
    """Counter ids as a hold names them."""
    return ",".join(map(str, ids))


class CounterIds:
    """The ids of a payer's counters; `committed` and `rolled_back` follow the transaction."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, object], Ids] = OrderedDict()
        self._new: dict[tuple[int, object], Ids] = {}

    def of(self, session: Session, payer: Payer) -> Ids:
        """Four ids in ascending order. The account's row must be locked by now."""
        key = (payer.key_id, payer.windows)
        ids = self._known.get(key) or self._new.get(key)
        if ids is None:
            ids = self._new[key] = _find(session, payer) or _make(session, payer)
        return ids

    def known(self, payer: Payer) -> Ids | None:
        """The ids without a query, None where this process has not seen them committed yet."""
        return self._known.get((payer.key_id, payer.windows))

    def read(self, session: Session, payer: Payer, window: str) -> tuple[int, int]:
        """Spent and held nano-USD of one window, zeros where nothing was spent in it yet."""
        start = dict(payer.windows)[window]
        row = session.execute(
            "SELECT spent_nano, held_nano FROM accounts_spendcounter WHERE scope = %s"
            ' AND scope_id = %s AND "window" = %s AND window_start = %s',
            (_SCOPE, str(payer.key_id), window, start.isoformat()),
        ).fetchone()
        return (row[0], row[1]) if row else (0, 0)

    def committed(self) -> None:
        self._known.update(self._new)
        self._new.clear()
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def rolled_back(self) -> None:
        self._new.clear()


def _find(session: Session, payer: Payer) -> Ids | None:
    pairs = " OR ".join(['("window" = %s AND window_start = %s)'] * len(payer.windows))
    parameters = [_SCOPE, str(payer.key_id)]
    for window, start in payer.windows:
        parameters += [window, start.isoformat()]
    rows = session.execute(
        f"SELECT id FROM accounts_spendcounter WHERE scope = %s AND scope_id = %s AND ({pairs})",  # noqa: S608 - Only placeholders are joined in.
        parameters,
    ).fetchall()
    return tuple(sorted(row[0] for row in rows)) if len(rows) == len(payer.windows) else None


def _make(session: Session, payer: Payer) -> Ids:
    for window, start in payer.windows:
        session.execute(
            'INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start,'
            " spent_nano, held_nano, limit_nano)"
            " SELECT %s, %s, %s, %s, 0, 0, CASE WHEN COALESCE(limit_reset, '') = %s"
            " THEN limit_nano END FROM accounts_apikey WHERE id = %s ON CONFLICT DO NOTHING",
            (
                _SCOPE,
                str(payer.key_id),
                window,
                start.isoformat() if session.is_sqlite else start,
                _RESET_OF_WINDOW[window] or "",
                payer.key_id,
            ),
        )
    ids = _find(session, payer)
    assert ids is not None
    return ids
