"""A crowd of callers, an upstream that counts, and a gateway between the two."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults import bench
from tests.load.crowd import Plan
from tests.support import processes
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.manage import PROJECT
from tests.support.server import GatewayServer

MODEL = "counting/model"
_END_S = 60.0


class Program:
    """A module of the tests as a process whose stdout is read line by line."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=processes.dies_with_parent(),
        )

    def line(self) -> str:
        """The next line. Fails where the process ended without one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, f"it ended with {self.process.wait(_END_S)}"
        return line

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(_END_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Between:
    """A gateway whose one provider is the counting upstream, and an account with much credit."""

    server: GatewayServer
    account: SeededAccount

    @contextmanager
    def crowd(self, **plan: Any) -> Iterator["Running"]:
        """Callers at work; `plan` is that of `tests.load.crowd.Plan`."""
        url = f"{self.server.base_url}/chat/completions"
        whole = Plan(url=url, key=self.account.api_key, model=MODEL, **plan)
        program = Program("tests.load.crowd", json.dumps(asdict(whole)))
        try:
            yield Running(program)
        finally:
            program.close()

    def health(self, path: str) -> int:
        return self.server.get(path).status_code

    def audit(self) -> dict[str, Any]:
        outcome = self.server.run_command("audit_ledger", "--json")
        found: dict[str, Any] = outcome.json()
        return found

    def check_books(self) -> None:
        """Within the time a settlement takes, nothing is held, and all accounts agree."""
        self.server.wait_until(lambda: self.audit()["open_holds"] == 0, within_s=15)
        assert self.audit()["mismatches"] == []


class Running:
    """A crowd at work."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def wait_open(self) -> None:
        """Until every stream has its first token, or has ended, and requests are answered."""
        assert self._program.line() == "open"

    def end(self) -> dict[str, Any]:
        """What became of everyone: `tests.load.crowd.Crowd` in figures."""
        figures: dict[str, Any] = json.loads(self._program.line())
        sys.stdout.write(f"{figures}\n")
        return figures


@contextmanager
def counting_gateway(starter: StartGateway, folder: Path, **options: Any) -> Iterator[Between]:
    """A running gateway with two workers in front of a counting upstream.

    `options` are those of `StartGateway.build`.
    """
    upstream = Program("tests.load.counting_upstream")
    try:
        provider = bench.provider("counting", f"{upstream.line()}/v1")
        model = bench.model(MODEL, bench.endpoint("counting", max_completion_tokens=100_000))
        file = folder / "catalogue.yaml"
        file.write_text(bench.as_yaml([provider], [model]), encoding="utf-8")
        server = starter.build(**({"WEB_CONCURRENCY": "2"} | options))
        server.manage("load_catalogue", str(file))
        server.start()
        yield Between(server, seed_account(server, credits_usd="100000"))
    finally:
        upstream.close()


def workers_of(master: int) -> set[int]:
    """The pids of a gunicorn master's workers."""
    text = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="ascii")
    return {int(word) for word in text.split()}
