"""Measurements of pure code, each in a process of its own: it needs the gateway's settings, and the
bench has none."""

import json
import subprocess
import sys
from typing import Any

from tests.load.generators import LoadFailed
from tests.load.stand import Stand
from tests.support import processes
from tests.support.manage import PROJECT

_MOST_S = 60.0


def measured_apart(stand: Stand, module: str, *, seconds: float) -> dict[str, Any]:
    """What one round of `python -m module` printed. Raises `LoadFailed`."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--rounds", "1", "--seconds", str(seconds)],
        cwd=PROJECT,
        env=dict(stand.gateway.env),
        capture_output=True,
        text=True,
        timeout=_MOST_S,
        check=False,
        preexec_fn=processes.dies_with_parent(),
    )
    if done.returncode:
        raise LoadFailed(f"{module} ended with {done.returncode}: {done.stderr[-500:]}")
    (found,) = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found
