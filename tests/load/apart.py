"""Measurements of code without HTTP, each in a process of its own: it needs the gateway's settings,
and the bench has none."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tests.load.targets import LoadFailed
from tests.support import processes
from tests.support.manage import PROJECT


def measured_apart(
    env: Mapping[str, str], module: str, *numbers: float, most_s: float = 60.0
) -> dict[str, Any]:
    """What `python -m tests.load.MODULE NUMBERS` printed. Raises `LoadFailed`."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.load.{module}", *map(str, numbers)],
        cwd=PROJECT,
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=most_s,
        check=False,
        preexec_fn=processes.dies_with_parent(),
    )
    if done.returncode:
        raise LoadFailed(f"{module} ended with {done.returncode}: {done.stderr[-500:]}")
    return dict(json.loads(done.stdout))


def print_measured(measured: Callable[..., Any]) -> None:
    """For the process itself: measure with the command line's numbers, print the dataclass."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    django.setup()
    found = measured(*map(json.loads, sys.argv[1:]))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


def timed_us(work: Callable[[], object], *, seconds: float, batch: int = 50) -> float:
    """CPU of one go, the median over batches, so that a moment's disturbance does not count."""
    found, until = [], time.process_time() + seconds
    while (began := time.process_time()) < until:
        for _ in range(batch):
            work()
        found.append((time.process_time() - began) / batch * 1e6)
    return sorted(found)[len(found) // 2]
