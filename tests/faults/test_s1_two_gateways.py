"""S1: what one gateway revokes, another on the same database lets in no longer than a second."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

DEAD_AFTER_S = 1.0
# Watched longer than that, or nothing would be seen of one who is late.
WATCHED_S = 1.8
CHAT = {"model": "acme/solo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}


@dataclass
class Two:
    """Two gateways on one database, and one's management key."""

    here: GatewayServer
    there: GatewayServer
    owner: SeededAccount

    def manage(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the one answers to a change, which must be good."""
        key = self.owner.management_key
        answer = self.here.request(method, f"/api/v1{path}", key=key, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def new_key(self, **body: Any) -> Any:
        return self.manage("POST", "/keys", {"name": "k"} | body)


@pytest.fixture(scope="module")
def two(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Two]:
    folder: Path = tmp_path_factory.mktemp("two")
    file = folder / "catalogue.yaml"
    file.write_text(rewritten(simulator.url), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        here = starter.build()
        here.manage("load_catalogue", str(file))
        shared: dict[str, Any] = {"GATEWAY_HOME": here.env["GATEWAY_HOME"]}
        there = starter.build(database_url=here.env["DATABASE_URL"], **shared)
        here.start()
        there.start()
        yield Two(here, there, seed_account(here, credits_usd="100"))


@dataclass
class Watch:
    """Callers with a key that never stop asking; when the last one that was let in began."""

    stopped: threading.Event = field(default_factory=threading.Event)
    last_let_in: float = 0.0
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, ask: Callable[[], requests.Response]) -> None:
        while not self.stopped.is_set():
            began_at = time.monotonic()
            status = ask().status_code
            assert status in (200, 401), status
            with self.lock:
                self.asked += 1
                if status == 200:
                    self.last_let_in = max(self.last_let_in, began_at)


@contextmanager
def watched(two: Two, key: str) -> Iterator[Watch]:
    """Both gateways are asked all the time, for what costs money too."""
    watch = Watch()
    asks: list[Callable[[], requests.Response]] = [
        lambda: two.there.get("/api/v1/key", key=key),
        lambda: two.there.chat(key=key, **CHAT),
        lambda: two.here.get("/api/v1/key", key=key),
        lambda: two.here.chat(key=key, **CHAT),
    ]
    threads = [threading.Thread(target=watch.run, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        watch.stopped.set()
        for thread in threads:
            thread.join()


def deleted(two: Two, made: Any) -> None:
    two.manage("DELETE", f"/keys/{made['data']['hash']}", {})


def disabled(two: Two, made: Any) -> None:
    two.manage("PATCH", f"/keys/{made['data']['hash']}", {"disabled": True})


def rotated(two: Two, made: Any) -> None:
    two.manage("POST", f"/keys/{made['data']['hash']}/rotate", {"grace_seconds": 0})


def left_without_a_workspace(two: Two, made: Any) -> None:
    for key in two.manage("GET", f"/keys?workspace_id={made['data']['workspace_id']}", {})["data"]:
        two.manage("DELETE", f"/keys/{key['hash']}", {})
    two.manage("DELETE", f"/workspaces/{made['data']['workspace_id']}", {})


@pytest.mark.parametrize("revoked", [deleted, disabled, rotated, left_without_a_workspace])
def test_no_request_is_let_in_a_second_later(two: Two, revoked: Callable[[Two, Any], None]) -> None:
    slug = revoked.__name__.replace("_", "-")
    workspace = two.manage("POST", "/workspaces", {"name": "W", "slug": slug})["data"]["id"]
    made = two.new_key(workspace_id=workspace)
    with watched(two, made["key"]) as watch:
        two.here.wait_until(lambda: watch.asked > 20)
        assert watch.last_let_in
        revoked(two, made)
        revoked_at = time.monotonic()
        two.here.wait_until(lambda: time.monotonic() > revoked_at + WATCHED_S)

    assert watch.last_let_in - revoked_at < DEAD_AFTER_S
    for server in (two.here, two.there):
        assert server.get("/api/v1/key", key=made["key"]).status_code == 401
        assert server.chat(key=made["key"], **CHAT).status_code == 401
