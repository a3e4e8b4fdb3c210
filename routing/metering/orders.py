"""What requests ask of the ledger writer, and what it answers."""

import uuid
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple


class Payer(NamedTuple):
    """Who pays and which counters a request counts against, pinned at admission."""

    account_id: uuid.UUID
    workspace_id: uuid.UUID
    key_id: int
    windows: tuple[tuple[str, date], ...]


class HoldOrder(NamedTuple):
    """Reserve `amount_nano` for a request; zero for a free model, which still needs a balance."""

    generation_id: str
    payer: Payer
    amount_nano: int
    model: str
    created_at: datetime
    lease_expires_at: datetime
    # An earlier commit of it may have succeeded; look before placing it again.
    replayed: bool = False


class TopUpOrder(NamedTuple):
    """Raise an open hold by `amount_nano`, for a fallback to a dearer endpoint."""

    generation_id: str
    payer: Payer
    amount_nano: int


class ReleaseOrder(NamedTuple):
    """Give an open hold back without a record: the request never reached an upstream.

    `held_nano` is what the hold is believed to be, None where nobody can tell.
    """

    generation_id: str
    payer: Payer
    held_nano: int | None = None


class SettleOrder(NamedTuple):
    """Charge a finished request and write its record. `record` maps Generation columns to values
    (without id, account, workspace and key); `charge_nano` is in it under that name. `held_nano` is
    what the hold is believed to be, None where nobody can tell."""

    generation_id: str
    payer: Payer
    charge_nano: int
    settled_at: datetime
    record: dict[str, Any]
    held_nano: int | None = None


Order = HoldOrder | TopUpOrder | ReleaseOrder | SettleOrder


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a hold did not fit, in nano-USD as seen when it was refused.

    `key_left_nano` is None when the key has no limit.
    """

    asked_nano: int
    balance_nano: int
    held_nano: int
    key_left_nano: int | None
    key_held_nano: int
    key_reset: str | None


def is_replayed(order: Order) -> bool:
    """Whether an earlier attempt at it may have been committed."""
    return isinstance(order, HoldOrder) and order.replayed
