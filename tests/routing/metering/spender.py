"""A process that spends: it places and settles holds through a ledger writer of its own.

Started by tests with one JSON argument: `payers` (each `[account_id, workspace_id, key_id]`),
`requests`, `threads`, `hold_nano`, `charge_nano`, `guarded` and `guardrails` (scopes that apply to
all of them, each as its fields). It prints `ready`, waits for a line
on stdin, spends, and prints `{"served", "refused", "failed"}`.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django

django.setup()

from accounts.models import ApiKey  # noqa: E402 - After the set-up of Django.
from accounts.spending import SpendScope  # noqa: E402 - Likewise.
from gateway.http.errors import Unavailable  # noqa: E402 - Likewise.
from routing.metering.orders import Refusal  # noqa: E402 - Likewise.
from routing.metering.session import Session  # noqa: E402 - Likewise.
from tests.routing.metering.books import (  # noqa: E402 - Likewise.
    carry_out,
    hold_order,
    payer_of,
    running_writer,
    settle_order,
)
from tests.routing.metering.sessions import UnguardedSession  # noqa: E402 - Likewise.


def spend(task: dict[str, Any]) -> dict[str, int]:
    """All the requests, one payer after the other, `threads` at a time."""
    guardrails = tuple(SpendScope(*scope) for scope in task.get("guardrails", ()))
    keys = [ApiKey.objects.get(pk=key) for _, _, key in task["payers"]]
    payers = [payer_of(key) for key in keys]
    payers = [payer._replace(budgets=(*guardrails, *payer.budgets)) for payer in payers]
    counts = {"served": 0, "refused": 0, "failed": 0}
    lock = threading.Lock()

    def one(number: int) -> None:
        hold = hold_order(payers[number % len(payers)], task["hold_nano"])
        try:
            outcome = carry_out(writer, hold)
            if not isinstance(outcome, Refusal):
                carry_out(writer, settle_order(hold, task["charge_nano"]))
            kind = "refused" if isinstance(outcome, Refusal) else "served"
        except Unavailable:
            kind = "failed"
        with lock:
            counts[kind] += 1

    with (
        running_writer(Session if task["guarded"] else UnguardedSession) as writer,
        ThreadPoolExecutor(task["threads"]) as pool,
    ):
        print("ready", flush=True)  # noqa: T201 - The parent waits for it.
        sys.stdin.readline()
        list(pool.map(one, range(task["requests"])))
    return counts


if __name__ == "__main__":
    print(json.dumps(spend(json.loads(sys.argv[1]))))  # noqa: T201 - The answer to the parent.
