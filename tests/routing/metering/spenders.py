"""Several spending processes at once, let loose by a barrier."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from routing.metering.orders import Payer
from tests.support.bed import PROJECT, Bed
from tests.support.processes import dies_with_parent

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


def task_for(*payers: Payer, requests: int, nano: int, **options: Any) -> dict[str, Any]:
    named = [[str(payer.account_id), str(payer.workspace_id), payer.key_id] for payer in payers]
    task = {"payers": named, "requests": requests, "hold_nano": nano, "charge_nano": nano}
    return {"threads": 32, "guarded": True} | task | options


def _start(stores: Bed, task: dict[str, Any]) -> subprocess.Popen[str]:
    # The in-process database commits for real in these tests, so other processes see its rows.
    home = stores.folder / "home"
    env = stores.environment(home=home, database_url=stores.database_url, redis_url="")
    return subprocess.Popen(
        [sys.executable, "-m", "tests.routing.metering.spender", json.dumps(task)],
        cwd=PROJECT,
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=dies_with_parent(),
    )
