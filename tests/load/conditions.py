"""Under what a run was made: enough to repeat it, nothing that names the machine."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support.manage import PROJECT

# What the required values are meant for: two web processes, with all that is beside them.
CORES = 2
_PACKAGES = ("django", "gunicorn", "gevent", "psycopg", "pydantic", "orjson")


def processor() -> str:
    """The model's name as Linux tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str | None:
    """The checkout's commit; None outside a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def confine(cores: int) -> None:
    """This process, and all that it will start, to so many cores, as far as there are more."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def machine() -> dict[str, Any]:
    """Cores this process may use, the load already there, and versions."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "load_average_before": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "commit": commit(),
    }
