"""Runs a lane on both stores beside each other: one's tests wait while the other's work.

Usage: python -m tests.support.both_stores EXPRESSION [PYTEST OPTIONS]. What runs on SQLite says
the smaller part, whole and behind the other.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import IO


def start_lane(store: str, *arguments: str, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "--dist", "worksteal", *arguments]
    env = os.environ | {"GATEWAY_TEST_STORES": store}
    return subprocess.Popen(command, env=env, stdout=output, stderr=output)


def wait_for(lane: subprocess.Popen[bytes]) -> int:
    """Return its exit status. Ctrl-C reaches the lanes too, which end in an order of their own."""
    while True:
        with suppress(KeyboardInterrupt):
            return lane.wait()


def main() -> int:
    expression, *options = sys.argv[1:]
    cores = os.cpu_count() or 1
    with tempfile.TemporaryFile() as smaller_output:
        on_sqlite = ["-n", str(max(1, cores // 2)), "-m", f"both and {expression}"]
        on_postgres = ["-n", str(cores + 1), "-m", expression]
        smaller = start_lane("sqlite", *on_sqlite, *options, output=smaller_output)
        larger = start_lane("postgres", *on_postgres, *options, output=None)
        statuses = [wait_for(larger), wait_for(smaller)]
        smaller_output.seek(0)
        shutil.copyfileobj(smaller_output, sys.stdout.buffer)
    # A lane that was killed has a negative one.
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
