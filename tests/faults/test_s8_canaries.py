"""S8: secrets planted everywhere a caller or an operator puts them, then every fault there is. None
of them shows up in an answer, a log, a table, a hint or the interface description."""

import hashlib
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
from django.db import connection

from routing.simulator.testing import SimulatedUpstream
from tests.accounts.dump import database_text
from tests.faults import bench
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
CREDENTIAL = f"canary-credential-{uuid.uuid4().hex}"
PROMPT = f"canary-prompt-{uuid.uuid4().hex}"
HEADER = f"canary-header-{uuid.uuid4().hex}"
HEADERS = {
    "X-Canary": HEADER,
    "Cookie": f"session={HEADER}",
    "Proxy-Authorization": f"Basic {HEADER}",
    "X-Api-Key": HEADER,
}
SHORT = {
    "LOG_LEVEL": "DEBUG",
    "LEDGER_TIMEOUT": "1",
    "ROUTER_CONNECT_TIMEOUT": "0.3",
    "ROUTER_FIRST_BYTE_TIMEOUT": "0.4",
    "ROUTER_IDLE_TIMEOUT": "0.4",
    "ROUTER_STREAM_COMMIT_SECONDS": "0.2",
    "ROUTER_OUTAGE_WINDOW_SECONDS": "0.001",
}


class Scene:
    """A gateway whose only provider fails in every way, and what it told its callers."""

    def __init__(self, server: GatewayServer, simulator: SimulatedUpstream, folder: Path) -> None:
        self.server = server
        self.simulator = simulator
        self.faults = sorted(simulator.control("GET", "/_faults")["faults"])
        file = folder / "canaries.yaml"
        file.write_text(self._catalogue(), encoding="utf-8")
        server.manage("load_catalogue", str(file), "--wait")
        self.account = seed_account(server)
        self.answers: list[requests.Response] = []

    def _catalogue(self) -> str:
        provider = bench.provider("leaky", f"{self.simulator.url}/canary/v1")
        named = {f"leaky/{fault}": f"sim/{fault}" for fault in self.faults} | {"leaky/good": "good"}
        models = [bench.model(id, bench.endpoint("leaky", real)) for id, real in named.items()]
        return bench.as_yaml([provider | {"credential": CREDENTIAL}], models)

    def ask(self, **body: Any) -> requests.Response:
        message = {"role": "user", "content": f"say 3 words {PROMPT}"}
        given: dict[str, Any] = {"model": "leaky/good", "max_tokens": 50, "messages": [message]}
        key = body.pop("key", self.account.api_key)
        path = "/api/v1/chat/completions"
        answer = self.server.post(path, key=key, json=given | body, headers=HEADERS, timeout=20)
        self.answers.append(answer)
        return answer

    def ask_for_every_fault(self, *odd: dict[str, Any]) -> str:
        """And what else is to be asked; what the provider has seen of it."""
        ways = product(self.faults, (False, True))
        asked = [{"model": f"leaky/{fault}", "stream": stream} for fault, stream in ways]
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda body: self.ask(**body), [*asked, *odd]))
        seen = self.simulator.requests("canary")
        assert len(seen) > 0.9 * len(asked)  # Some cut the connection before there is a request.
        return repr(seen)

    def repeats(self, secret: str) -> None:
        """The provider's refusals say it again."""
        message = f"Incorrect API key provided: {secret}. Bearer {secret}"
        for status in (401, 402, 403, 400, 429, 500):
            error = {"error": {"message": message, "code": secret}}
            self.simulator.script("canary", {"status": status, "json": error})
            for stream in (False, True):
                self.ask(stream=stream)

    def check_untold(self, kept: str, **canaries: str) -> None:
        """Nothing that is kept holds them, and nobody was told of them."""
        for name, canary in canaries.items():
            assert canary not in kept, name
            told = [each.url for each in self.answers if canary in f"{each.headers}{each.text}"]
            assert told == [], name


def fingerprint(secret: str) -> str:
    """What the simulated provider shows of a credential."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> Iterator[GatewayServer]:
    with StartGateway(stores, tmp_path_factory.mktemp("canaries")) as starter:
        yield starter(**SHORT, LOG_FORMAT="json")


@pytest.fixture
def scene(server: GatewayServer, simulator: SimulatedUpstream, tmp_path: Path) -> Scene:
    simulator.clear()
    return Scene(server, simulator, tmp_path)


@pytest.fixture
def last_scene(start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path) -> Scene:
    """For what no gateway comes back from."""
    simulator.clear()
    return Scene(start_gateway(**SHORT), simulator, tmp_path)


def kept_by(scene: Scene, stores: Bed, orm_of: Orm) -> str:
    """Logs, tables, hints and metrics."""
    with orm_of(scene.server):
        kept = database_text()
    if stores.is_postgres:
        with redis.Redis.from_url(stores.redis_url) as client:
            kept += repr([(name, client.dump(name)) for name in client.scan_iter()])
    metrics = (Path(scene.server.env["GATEWAY_HOME"]) / "run" / "metrics").iterdir()
    kept += "".join(file.read_text(errors="replace") for file in metrics)
    return kept + scene.server.log()


def test_after_every_fault_no_canary_is_found_anywhere(
    scene: Scene, stores: Bed, orm_of: Orm
) -> None:
    key = scene.account.api_key
    seen = scene.ask_for_every_fault(
        {"model": "leaky/none"},
        {"temperature": PROMPT},
        {"provider": {"only": ["nobody"]}},
        {"messages": [{"role": PROMPT, "content": PROMPT}]},
        {"key": key[:-1]},
        {"key": scene.account.management_key},
        {"max_tokens": 10**9},
    )
    assert fingerprint(CREDENTIAL) in seen, "the rig: the credential does travel"
    scene.repeats(CREDENTIAL)
    scene.answers += [
        scene.server.get(path, key=key, headers=HEADERS)
        for path in ("/api/v1/openapi.json", "/api/v1/models", "/api/v1/key", "/api/v1/nope")
    ]

    kept = kept_by(scene, stores, orm_of)
    scene.check_untold(kept, credential=CREDENTIAL, header=HEADER, key=key[15:-6])
    assert PROMPT not in kept
    assert "Upstream request failed: generation gen-" in kept
    assert "routing.requests" in kept, "the rig: requests are logged"
    assert scene.account.api_key_hash in kept, "the rig: the dump does hold the keys"
    assert scene.server.manage("audit_ledger")["mismatches"] == []


def test_a_bug_s_traceback_and_a_broken_table_give_nothing_away(
    last_scene: Scene, stores: Bed, orm_of: Orm
) -> None:
    scene = last_scene
    assert scene.ask().status_code == 200
    with orm_of(scene.server), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE routing_generation RENAME TO routing_generation_gone")

    broken = [scene.ask(stream=stream) for stream in (False, True)]

    assert broken[0].status_code >= 500
    kept = kept_by(scene, stores, orm_of)
    key = scene.account.api_key[15:-6]
    scene.check_untold(kept, credential=CREDENTIAL, header=HEADER, key=key)
    assert PROMPT not in kept


def test_contents_that_are_kept_are_read_by_nobody_in_the_tables(
    scene: Scene, stores: Bed, orm_of: Orm
) -> None:
    server, account = scene.server, scene.account
    path, key = f"/api/v1/workspaces/{account.workspace_id}", account.management_key
    switch = {"is_observability_io_logging_enabled": True}
    assert server.request("PATCH", path, key=key, json=switch).status_code == 200

    def has_prompt() -> bool:
        """Within a second of the switch."""
        generation = scene.ask().headers["X-Generation-Id"]
        path = f"/api/v1/generation/content?id={generation}"
        return PROMPT in server.get(path, key=account.api_key).text

    server.wait_until(has_prompt, within_s=10)
    for stream in (False, True):
        scene.ask(model=f"leaky/{scene.faults[0]}", stream=stream)

    assert PROMPT not in kept_by(scene, stores, orm_of)
