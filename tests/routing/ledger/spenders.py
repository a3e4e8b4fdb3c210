"""Several processes that spend at once, let loose by a barrier.

Run as a script with one JSON argument, this is one of them. It has `payers` (each
`[account_id, workspace_id, key_id]`), `requests`, `threads`, `hold_nano`, `charge_nano` and
`guarded`. Its `guardrails` are scopes that apply to all of them, each as its fields. It places and
settles holds through a ledger writer of its own: it prints `ready`, waits for a line on stdin,
spends, and prints `{"served", "refused", "failed"}`.
"""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.bed import PROJECT, Bed
from tests.support.processes import dies_with_parent

if TYPE_CHECKING:
    # A process of these sets up the apps before it imports any.
    from routing.ledger.orders import Payer

_END_S = 40.0


@dataclass(frozen=True)
class Spent:
    """What all processes together met; `stderr` is theirs, warnings of the writer included."""

    served: int
    refused: int
    failed: int
    stderr: str


def spend_at_once(stores: Bed, *tasks: dict[str, Any]) -> Spent:
    """One process per task, all beginning at the same moment."""
    processes = [_start(stores, task) for task in tasks]
    try:
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=_END_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    stderr = "".join(error for _, error in outputs)
    assert all(process.returncode == 0 for process in processes), stderr
    results = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    sums = {kind: sum(result[kind] for result in results) for kind in results[0]}
    return Spent(**sums, stderr=stderr)


def task_for(*payers: "Payer", requests: int, nano: int, **options: Any) -> dict[str, Any]:
    named = [[str(payer.account_id), str(payer.workspace_id), payer.key_id] for payer in payers]
    task = {"payers": named, "requests": requests, "hold_nano": nano, "charge_nano": nano}
    return {"threads": 32, "guarded": True} | task | options


def _start(stores: Bed, task: dict[str, Any]) -> subprocess.Popen[str]:
    # The in-process database commits for real in these tests, so other processes see its rows.
    home = stores.folder / "home"
    env = stores.environment(home=home, database_url=stores.database_url, redis_url="")
    return subprocess.Popen(
        [sys.executable, "-m", "tests.routing.ledger.spenders", json.dumps(task)],
        cwd=PROJECT,
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=dies_with_parent(),
    )


def spend(task: dict[str, Any]) -> dict[str, int]:
    """All the requests, one payer after the other, `threads` at a time."""
    from accounts.models import ApiKey
    from accounts.spending import SpendScope
    from gateway.http.errors import Unavailable
    from routing.ledger.orders import HoldRefusal
    from routing.ledger.session import LedgerSession
    from tests.routing.ledger import books
    from tests.routing.ledger.sessions import UnguardedSession

    guardrails = tuple(SpendScope(*scope) for scope in task.get("guardrails", ()))
    payers = [books.payer_of(ApiKey.objects.get(pk=key)) for _, _, key in task["payers"]]
    payers = [payer._replace(budgets=(*guardrails, *payer.budgets)) for payer in payers]
    counts = {"served": 0, "refused": 0, "failed": 0}
    lock = threading.Lock()

    def one(number: int) -> None:
        hold = books.hold_order(payers[number % len(payers)], task["hold_nano"])
        try:
            outcome = books.carry_out(writer, hold)
            is_refused = isinstance(outcome, HoldRefusal)
            if not is_refused:
                books.carry_out(writer, books.settle_order(hold, task["charge_nano"]))
            kind = "refused" if is_refused else "served"
        except Unavailable:
            kind = "failed"
        with lock:
            counts[kind] += 1

    with (
        books.running_writer(LedgerSession if task["guarded"] else UnguardedSession) as writer,
        ThreadPoolExecutor(task["threads"]) as pool,
    ):
        print("ready", flush=True)  # noqa: T201 - The parent waits for it.
        sys.stdin.readline()
        list(pool.map(one, range(task["requests"])))
    return counts


if __name__ == "__main__":
    import django

    django.setup()
    print(json.dumps(spend(json.loads(sys.argv[1]))))  # noqa: T201 - The answer to the parent.
