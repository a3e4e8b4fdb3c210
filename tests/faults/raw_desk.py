"""A gateway with short limits in front of a scripted raw upstream, and a caller at it."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from routing.simulator.testing import RawConnection, SimulatedUpstream
from tests.conformance.desk import Desk, Streamed, open_stream, read_stream
from tests.faults.bench import DEAR, as_yaml, endpoint, model, personas, provider
from tests.faults.conftest import start_loaded
from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.raw_upstream import Script, Stage, Visit
from tests.support.server import GatewayServer

MIB = 1024 * 1024
MODELS = 30
FIRST_BYTE_S = IDLE_S = 1.5
TOTAL_S = 4.0
ANSWER_BYTES_MAX, EVENT_BYTES_MAX = 7 * MIB, 6 * MIB
CONCURRENCY_MAX = 23
# Nobody listens there: whoever took a proxy from the environment would reach nothing at all.
_NO_PROXY_HERE = "http://127.0.0.1:9"
_PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
LIMITS = {
    "ROUTER_FIRST_BYTE_TIMEOUT": str(FIRST_BYTE_S),
    "ROUTER_IDLE_TIMEOUT": str(IDLE_S),
    "ROUTER_TOTAL_TIMEOUT": str(TOTAL_S),
    "ROUTER_MAX_ANSWER_BYTES": str(ANSWER_BYTES_MAX),
    "ROUTER_MAX_EVENT_BYTES": str(EVENT_BYTES_MAX),
    "ROUTER_MAX_CONCURRENCY": str(CONCURRENCY_MAX),
    **dict.fromkeys(_PROXIES, _NO_PROXY_HERE),
}
# What a call costs beside the wait it is about, on a machine that does other things too.
REST_S = 0.6


@dataclass
class RawDesk:
    """`alone` has the raw endpoint only. In `pair` a good one stands behind it at a thousand times
    its price. `drain` is alone with a provider whose streams cannot be cancelled. No model of a
    pair is asked for twice, so that no test meets the health another one left.
    """

    desk: Desk
    stage: Stage
    _numbers: "dict[str, itertools.count[int]]"

    @property
    def server(self) -> GatewayServer:
        return self.desk.server

    def model(self, script: Script, kind: str = "alone") -> str:
        """A model of the gateway's that meets this script."""
        number = next(self._numbers[kind])
        assert kind != "pair" or number < MODELS
        number %= MODELS
        self.stage.play(f"{kind}-{number}", script)
        return f"{kind}/{number}"

    def visit(self, model_id: str, nth: int = 1) -> Visit:
        """What the upstream saw of the nth request for a model."""
        return self.stage.wait_visit(model_id.replace("/", "-"), nth)

    def visits(self, model_id: str) -> list[Visit]:
        return self.stage.visits(model_id.replace("/", "-"))

    def ask(self, script: Script, *, kind: str = "alone", **body: Any) -> requests.Response:
        return self.desk.post(model=self.model(script, kind), **body)

    def stream(self, script: Script, *, kind: str = "alone", **body: Any) -> Streamed:
        return read_stream(self.ask(script, kind=kind, stream=True, **body))

    def begin(self, model_id: str, *, stream: bool = True) -> RawConnection:
        """A request on a connection that the test can drop or leave unread."""
        return open_stream(self.desk, model=model_id, stream=stream)

    def wait_settled(self) -> None:
        """Until nothing is held any more, and the books add up."""
        self.server.wait_until(lambda: self.server.manage("audit_ledger")["open_holds"] == 0)
        self.server.check_books()


@contextmanager
def raw_desk(
    stores: Bed, simulator: SimulatedUpstream, folder: Path, **env: str
) -> Iterator[Callable[[], RawDesk]]:
    """A running gateway; each call of what it yields is a fresh account at it."""
    with Stage() as stage, StartGateway(stores, folder) as starter:
        providers = [
            provider("raw", f"{stage.url}/v1"),
            provider("drained", f"{stage.url}/v1", supports_cancellation=False),
            *(each for each in personas(simulator) if each["slug"] != "drained"),
        ]
        server = start_loaded(starter, as_yaml(providers, _models()), **env)
        numbers = {kind: itertools.count() for kind in ("alone", "pair", "drain")}

        def sit_down() -> RawDesk:
            simulator.clear()
            account = seed_account(server, credits_usd="1000")
            return RawDesk(Desk(server, simulator, account), stage, numbers)

        yield sit_down
        server.check_books()


def _models() -> list[dict[str, Any]]:
    found = []
    for number in range(MODELS):
        raw = endpoint("raw", f"alone-{number}")
        found.append(model(f"alone/{number}", raw))
        raw = endpoint("raw", f"pair-{number}")
        found.append(model(f"pair/{number}", raw, endpoint("second", pricing=DEAR)))
        found.append(model(f"drain/{number}", endpoint("drained", f"drain-{number}")))
    return found


def error_of(response: requests.Response) -> Any:
    """The error of a JSON refusal, or of the last event of a committed stream."""
    if response.headers["Content-Type"] == "application/json":
        return response.json()["error"]
    last = response.text.removesuffix("\n\n").split("\n\n")[-1]
    return json.loads(last.removeprefix("data: "))["error"]


def worker_pids(server: GatewayServer) -> list[int]:
    """The web workers: gunicorn's children. None while one that died has not been replaced."""
    return processes.children(server.pid)


def status_kib(pid: int, name: str) -> int:
    """A line of /proc/PID/status, such as VmRSS or its high-water mark VmHWM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1])


def forget_peak(pid: int) -> None:
    """Let VmHWM begin anew from here."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
