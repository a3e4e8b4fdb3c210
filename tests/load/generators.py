"""Load generators: `wrk`, or the bundled one where there is no wrk. Both say the same JSON line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.manage import PROJECT
from tests.support.processes import dies_with_parent

_SCRIPT = Path(__file__).with_name("wrk.lua")
_GRACE_S = 30
# A hiccup of the machine is told; a run in which more than this share failed measures something
# else.
FAILED_SHARE_MAX = 0.001


class LoadFailed(Exception):
    """The load generator broke, or too many of its requests did."""


@dataclass(frozen=True)
class Target:
    """Where each request goes, with which key, body and further headers."""

    url: str
    key: str
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """What a generator saw in one interval."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int


@dataclass(frozen=True)
class Generator:
    """A program that loads one target and prints what it saw."""

    name: str
    is_bundled: bool

    def run(self, target: Target, *, connections: int, seconds: float) -> Load:
        """Load `target` for that long. Raises `LoadFailed`."""
        done = subprocess.run(
            self._command(target.url, connections, seconds),
            cwd=PROJECT,
            # The key goes through the environment: a command line is everybody's to read.
            env={
                **os.environ,
                "LOAD_BODY": target.body,
                "LOAD_KEY": target.key,
                "LOAD_HEADERS": header_lines(target.headers),
            },
            capture_output=True,
            text=True,
            timeout=seconds + _GRACE_S,
            check=False,
            preexec_fn=dies_with_parent(),
        )
        if done.returncode:
            raise LoadFailed(f"{self.name} ended with {done.returncode}: {done.stderr[-500:]}")
        return checked(parsed(done.stdout))

    def _command(self, url: str, connections: int, seconds: float) -> Sequence[str]:
        if self.is_bundled:
            options = [f"--connections={connections}", f"--seconds={seconds}"]
            return [sys.executable, "-m", "tests.load.generator", *options, url]
        # wrk takes whole seconds.
        options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
        return ["wrk", *options, "-s", str(_SCRIPT), url]


def header_lines(headers: Mapping[str, str]) -> str:
    """`Name: value` in lines, as generators take them from LOAD_HEADERS."""
    return "".join(f"{name}: {value}\n" for name, value in headers.items())


def find() -> Generator:
    """wrk when it is installed."""
    if shutil.which("wrk") is None:
        return Generator("bundled gevent generator", is_bundled=True)
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    return Generator(" ".join(said.split()[:2]) or "wrk", is_bundled=False)


def parsed(output: str) -> Load:
    """The summary: the last line that is a JSON object. Raises `LoadFailed` without one."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return Load(**json.loads(line))
    raise LoadFailed(f"no summary in the load generator's output: {output[-500:]}")


def checked(load: Load) -> Load:
    """The same. Raises `LoadFailed` when nothing was answered or too much failed."""
    if not load.requests or load.failed > FAILED_SHARE_MAX * load.requests:
        raise LoadFailed(f"{load.failed} of {load.requests} requests failed")
    return load
