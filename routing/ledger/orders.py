"""What requests ask of the ledger writer, and what it answers."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Final, NamedTuple

from accounts.spending import SpendScope
from gateway.http.jsonio import JsonObject


class Payer(NamedTuple):
    """Who pays and which counters a request counts against, pinned at admission.

    `limited` is the window that the key's own limit stands on, "" where it has none; `budgets` are
    all that apply beside. Both as they stood at the account's `limits_version`.
    """

    account_id: uuid.UUID
    workspace_id: uuid.UUID
    key_id: int
    windows: tuple[tuple[str, date], ...]
    budgets: tuple[SpendScope, ...] = ()
    limits_version: int = 0
    limited: str = ""


class HoldOrder(NamedTuple):
    """Reserve `amount_nano` for a request; zero for a free model, which still needs a balance.

    `byok_nano` is what it may cost at list price on a credential of the caller's own. It counts
    where budgets include that; the account pays `amount_nano` for it, mostly nothing.
    """

    generation_id: str
    payer: Payer
    amount_nano: int
    model: str
    created_at: datetime
    lease_expires_at: datetime
    # An earlier commit of it may have succeeded; look before placing it again.
    replayed: bool = False
    byok_nano: int = 0


class TopUpOrder(NamedTuple):
    """Raise an open hold by `amount_nano`, for a fallback to a dearer endpoint."""

    generation_id: str
    payer: Payer
    amount_nano: int
    byok_nano: int = 0


class ReleaseOrder(NamedTuple):
    """Give an open hold back without a record: the request never reached an upstream.

    `held_nano` and `byok_nano` are what the hold is believed to be, None where nobody can tell.
    """

    generation_id: str
    payer: Payer
    held_nano: int | None = None
    byok_nano: int = 0


class CredentialSpending(NamedTuple):
    """What one credential of a provider's pool spent on a request, at list price."""

    provider: str
    label: str
    cost_nano: int


class SettleOrder(NamedTuple):
    """Charge a finished request and write its record. `record` maps Generation columns to values
    (without id, account, workspace and key); `charge_nano` is in it under that name. `byok_nano` is
    the list price of an answer that a credential of the caller's own paid for. Then the charge is
    the fee, but for `shared_nano` of it where the gateway's were used as well. `held_nano` and
    `held_byok_nano` are what the hold is believed to be, the first None where nobody can tell.
    `credential_spend` is of credentials of the gateway's own, where a provider has several."""

    generation_id: str
    payer: Payer
    charge_nano: int
    settled_at: datetime
    record: JsonObject
    held_nano: int | None = None
    byok_nano: int = 0
    held_byok_nano: int = 0
    shared_nano: int = 0
    credential_spend: Sequence[CredentialSpending] = ()


Order = HoldOrder | TopUpOrder | ReleaseOrder | SettleOrder
# What ends a hold; a tuple, because a union is made anew each time one is asked about.
CLOSING: Final = (SettleOrder, ReleaseOrder)


class Outdated(Enum):
    """The answer to a hold, or a raise of one, whose payer knows older limits than the account has
    by now. Nothing was held, and the payer is to be read again."""

    OUTDATED = "outdated"


OUTDATED: Final = Outdated.OUTDATED


class BudgetState(NamedTuple):
    """What a budget has left before anything that is held, what others hold of it, and what was
    asked of it, in nano-USD."""

    scope: SpendScope
    left_nano: int
    held_nano: int
    asked_nano: int


@dataclass(frozen=True, slots=True)
class HoldRefusal:
    """Why a hold did not fit, in nano-USD as seen when it was refused.

    `key_left_nano` is None when the key has no limit; `key_asked_nano` is what counts against that
    limit, `asked_nano` where it is None. `byok_nano` was asked beside, of whoever counts it.
    `budgets` are all that apply and are enforced, in their order.
    """

    asked_nano: int
    balance_nano: int
    held_nano: int
    key_left_nano: int | None
    key_held_nano: int
    key_reset: str | None
    key_asked_nano: int | None = None
    byok_nano: int = 0
    budgets: tuple[BudgetState, ...] = ()

    @property
    def asks_the_account(self) -> bool:
        """Whether the account's balance has a say: not where it pays nothing for a call on a
        credential of its own."""
        return bool(self.asked_nano or not self.byok_nano)


def is_replayed(order: Order) -> bool:
    """Whether an earlier attempt at it may have been committed."""
    return isinstance(order, HoldOrder) and order.replayed
