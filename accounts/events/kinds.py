"""The kinds of events."""

from typing import Final, Literal, get_args

EventKind = Literal[
    "budget.threshold",
    "key.limit_threshold",
    "credit.low",
    "credit.expiring",
    "key.created",
    "key.rotated",
    "key.expiring",
    "provider.down",
    "provider.up",
    "model.expiring",
    "model.unpriced",
    "intern.failed",
    "intern.waiting",
    "intern.host_lost",
    "ledger.mismatch",
    "destination.disabled",
    "channel.test",
]
EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)
# Events without an account that every account may hear of; the others are the operator's alone.
FOR_EVERYBODY: Final = frozenset({"provider.down", "provider.up"})
