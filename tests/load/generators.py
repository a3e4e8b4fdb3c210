"""Load generators: `wrk`, or the bundled one where there is no wrk. Both say the same JSON line.

The bundled one is `python -m tests.load.generators URL CONNECTIONS SECONDS`. It posts LOAD_BODY
with the key LOAD_KEY and the lines of LOAD_HEADERS over connections that stay open. `wrk` does the
same for much less CPU.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from gevent import joinall, spawn
from gevent.socket import create_connection

from tests.load.accounting import ProcessTree, spent_s
from tests.load.figures import Interval, percentile
from tests.load.targets import LoadFailed, Target, read_answer, request_bytes
from tests.support.manage import PROJECT
from tests.support.processes import dies_with_parent

_SCRIPT = Path(__file__).with_name("wrk.lua")
_GRACE_S = 30
_ANSWER_S = 10.0
# A hiccup of the machine is told; a run in which more than this share failed measures something
# else.
FAILED_SHARE_MAX = 0.001


@dataclass(frozen=True)
class Load:
    """What a generator saw in one interval."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int

    @property
    def answers(self) -> int:
        return self.requests - self.failed

    def check(self) -> Self:
        """The same. Raises `LoadFailed` when nothing was answered or too much failed."""
        if not self.requests or self.failed > FAILED_SHARE_MAX * self.requests:
            raise LoadFailed(f"{self.failed} of {self.requests} requests failed")
        return self


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
                "LOAD_HEADERS": "".join(f"{n}: {value}\n" for n, value in target.headers.items()),
            },
            capture_output=True,
            text=True,
            timeout=seconds + _GRACE_S,
            check=False,
            preexec_fn=dies_with_parent(),
        )
        # The summary is the last line that is a JSON object.
        summaries = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not summaries:
            told = (done.stderr or done.stdout)[-500:]
            raise LoadFailed(f"{target.url}: {self.name} ended with {done.returncode}: {told}")
        return Load(**json.loads(summaries[-1])).check()

    def interval(
        self, target: Target, web: ProcessTree, *, connections: int, seconds: float
    ) -> tuple[Interval, Load]:
        """The same, with the CPU that `web` spent on what it answered."""
        before = web.cpu_s()
        load = self.run(target, connections=connections, seconds=seconds)
        cpu_s = spent_s(before, web.cpu_s())
        return Interval(load.answers, load.seconds, cpu_s, load.p50_ms), load

    def _command(self, url: str, connections: int, seconds: float) -> Sequence[str]:
        if self.is_bundled:
            words = [url, str(connections), str(seconds)]
            return [sys.executable, "-m", "tests.load.generators", *words]
        # wrk takes whole seconds.
        options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s"]
        return ["wrk", *options, "-s", str(_SCRIPT), url]


def find() -> Generator:
    """wrk when it is installed."""
    if shutil.which("wrk") is None:
        return Generator("bundled gevent generator", is_bundled=True)
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    return Generator(" ".join(said.split()[:2]) or "wrk", is_bundled=False)


def _load(target: Target, *, connections: int, seconds: float) -> Load:
    """Each connection asks and waits for the answer, over and over."""
    request, taken_ms, failed = request_bytes(target), list[float](), 0
    started_at = time.monotonic()
    until = started_at + seconds

    def keep_asking() -> None:
        nonlocal failed
        while time.monotonic() < until:
            try:
                with create_connection(target.address, timeout=_ANSWER_S) as connection:
                    while (asked_at := time.monotonic()) < until:
                        connection.sendall(request)
                        received = read_answer(connection)
                        taken_ms.append((time.monotonic() - asked_at) * 1e3)
                        failed += not received.startswith(b"HTTP/1.1 2")
            except OSError:
                failed += 1

    jobs = [spawn(keep_asking) for _ in range(connections)]
    joinall(jobs, timeout=seconds + _ANSWER_S, raise_error=True)
    took_s = time.monotonic() - started_at
    p50_ms, p99_ms = (percentile(taken_ms or [0.0], percent) for percent in (50, 99))
    return Load(len(taken_ms), took_s, p50_ms, p99_ms, failed)


if __name__ == "__main__":
    url, connections, seconds = sys.argv[1:]
    headers = dict(line.split(": ", 1) for line in os.environ["LOAD_HEADERS"].splitlines())
    target = Target(url, os.environ["LOAD_KEY"], os.environ["LOAD_BODY"], headers)
    done = _load(target, connections=int(connections), seconds=float(seconds))
    sys.stdout.write(json.dumps(asdict(done)) + "\n")
