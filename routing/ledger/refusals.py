"""What a hold that does not fit is told: what there is, what is left and who has it."""

from datetime import date

from accounts.spending import SpendScope
from accounts.windows import LIMITED_WINDOW
from routing.ledger.counters import Figures, figures
from routing.ledger.orders import BudgetState, Payer, Refusal
from routing.ledger.session import Session


def limits_version(session: Session, payer: Payer) -> int:
    """That of the account's limits, as they are now."""
    row = session.execute(
        "SELECT limits_version FROM accounts_account WHERE id = %s",
        (session.uuid(payer.account_id),),
    ).fetchone()
    return int(row[0])


def refusal_of(session: Session, payer: Payer, amount_nano: int, byok_nano: int) -> Refusal:
    """Why so much was refused. The account's row is locked by now."""
    balance_nano, held_nano = session.execute(
        "SELECT total_credits_nano - total_usage_nano, held_nano FROM accounts_account"
        " WHERE id = %s",
        (session.uuid(payer.account_id),),
    ).fetchone()
    limit_nano, reset, counts_byok = session.execute(
        "SELECT limit_nano, limit_reset, include_byok_in_limit FROM accounts_apikey WHERE id = %s",
        (payer.key_id,),
    ).fetchone()
    window = LIMITED_WINDOW[reset]
    key = figures(session, "key", str(payer.key_id), window, dict(payer.windows)[window])
    return Refusal(
        asked_nano=amount_nano,
        balance_nano=balance_nano,
        held_nano=held_nano,
        key_left_nano=None if limit_nano is None else limit_nano - key.counted_nano,
        key_held_nano=key.counted_held_nano,
        key_reset=reset,
        key_asked_nano=amount_nano + byok_nano if counts_byok else None,
        byok_nano=byok_nano,
        budgets=tuple(
            _state(session, scope, dict(payer.windows)[scope.window], amount_nano, byok_nano)
            for scope in payer.budgets
        ),
    )


def _state(
    session: Session, scope: SpendScope, start: date, amount_nano: int, byok_nano: int
) -> BudgetState:
    told: Figures = figures(session, scope.scope, scope.scope_id, scope.window, start)
    return BudgetState(
        scope=scope,
        left_nano=scope.limit_nano - told.counted_nano,
        held_nano=told.counted_held_nano,
        asked_nano=amount_nano + (byok_nano if scope.counts_byok else 0),
    )
