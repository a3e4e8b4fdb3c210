"""From `make run` to ready, when everything has been prepared once before."""

import sys
import tempfile
import time
from pathlib import Path

from tests.support.manage import PROJECT
from tests.support.running import Run


class NoStart(Exception):
    """`make run` was not tried, or did not come up; the text is a note for the table."""


def second_starts_s(count: int) -> list[float]:
    """Seconds of each start after the first. Raises `NoStart`."""
    if not (PROJECT / ".venv" / "bin" / "python").exists():
        raise NoStart("skipped: there is no .venv")
    # A short path: Valkey's socket is in it.
    with tempfile.TemporaryDirectory(prefix="gateway-start-") as folder:
        home = Path(folder) / "home"
        _start_s(home)
        return [_start_s(home) for _ in range(count)]


def _start_s(home: Path) -> float:
    run = Run(home, {})
    try:
        run.ready()
        took_s = time.monotonic() - run.started_at
        run.stop()
    except (AssertionError, TimeoutError) as error:
        # How `Run` tells that its process ended or dawdled. The other figures stand without this.
        sys.stderr.write(f"{error}\n")
        raise NoStart("failed: make run did not come up") from error
    finally:
        run.clean_up()
    return took_s
