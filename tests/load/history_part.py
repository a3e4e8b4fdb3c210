"""The part of a run that asks for history: a process of its own, and what its figures come to."""

import json
import subprocess
import sys
from typing import Final

from tests.load.figures import Part, percentile
from tests.load.generators import LoadFailed
from tests.load.history import PAGE, RECORD, Told
from tests.load.stand import Stand
from tests.support import processes
from tests.support.manage import PROJECT

_DATABASE: Final = "history"
_MOST_S: Final = 1_200.0


def told_apart(stand: Stand, *, rows: int, rounds: int) -> Told:
    """What `python -m tests.load.history` printed of a new database. Raises `LoadFailed`."""
    stand.postgres.create(_DATABASE)
    env = dict(stand.gateway.env) | {"DATABASE_URL": stand.postgres.url(_DATABASE)}
    words = ["--rows", str(rows), "--rounds", str(rounds)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.load.history", *words],
            cwd=PROJECT,
            env=env,
            capture_output=True,
            text=True,
            timeout=_MOST_S,
            check=False,
            preexec_fn=processes.dies_with_parent(),
        )
    finally:
        stand.postgres.drop(_DATABASE)
    if done.returncode:
        raise LoadFailed(f"history ended with {done.returncode}: {done.stderr[-500:]}")
    return Told(**json.loads(done.stdout))


def history_part(told: Told) -> Part:
    """The slowest p95 of each bound, and which it was."""
    p95_ms = {name: percentile(taken_ms, 95) for name, taken_ms in told.taken_ms.items()}
    others = {name: each for name, each in p95_ms.items() if name not in {RECORD, PAGE}}
    slowest = max(others, key=lambda name: others[name])
    filled = f"{told.rows:,} rows; summed up in {told.roll_up_s:.0f} s"
    return Part(
        {
            "history_record_ms": p95_ms[RECORD],
            "history_page_ms": p95_ms[PAGE],
            "history_query_ms": others[slowest],
        },
        {"history_record_ms": filled, "history_query_ms": f"{slowest}; {len(others)} asked"},
    )
