"""A request's place in the ledger writer's queue."""

import threading
from dataclasses import dataclass, field
from typing import Any

from gateway.db import under_gevent
from routing.metering.orders import Order, Refusal

# True for what was done, False where the hold was gone, the refusal, or the error that ended it.
Outcome = bool | Refusal | Exception


def new_event() -> Any:
    """An event to wait on; gevent's own costs a tenth of the patched standard one."""
    if under_gevent():
        from gevent.event import Event

        return Event()
    return threading.Event()


@dataclass(slots=True)
class Ticket:
    """One order and its outcome. A ticket whose waiter gave up is `abandoned`."""

    order: Order
    done: Any = field(default_factory=new_event)
    outcome: Outcome | None = None
    abandoned: bool = False

    def finish(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.done.set()
