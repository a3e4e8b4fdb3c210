"""Events reach channels through the processes that are shipped: web, beat and the worker of events,
as the Procfile begins them. Nobody works the queue of long tasks, as good as one that is busy."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.local_site import LocalSite, Running, SiteHandler
from tests.support.procfile import running_line
from tests.support.server import GatewayServer, as_json

pytestmark = [pytest.mark.timeout(400), pytest.mark.thorough]
# Ticks are five and fifteen seconds apart, and a lease takes a minute to end.
PATIENCE_S = 120.0
CHANNELS = "/notifications/channels"
# Four requests cost a dollar.
QUARTER = {"prompt": "0", "completion": "0", "request": "0.25"}


@dataclass
class Inbox(LocalSite):
    """What was posted to it: the path, the id, and the message. While it `hangs` it is silent."""

    posts: list[tuple[str, str, Any]] = field(default_factory=list)
    hangs: threading.Event = field(default_factory=threading.Event)

    def kinds(self, path: str) -> set[str]:
        return {told["type"] for where, _, told in self.posts if where == path}


class _Taking(SiteHandler):
    def do_POST(self) -> None:
        told = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.site.posts.append((self.path, self.headers["webhook-id"], told))
        if self.path == "/silent" or self.site.hangs.is_set():
            self.silence()
        else:
            self.answer(b"")


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Running(Inbox, _Taking) as site:
        yield site


@pytest.fixture
def server(tmp_path: Path, stores: Bed, simulator: SimulatedUpstream) -> Iterator[GatewayServer]:
    models = [
        bench.model("told/first", bench.endpoint("first", pricing=QUARTER)),
        bench.model("told/unpriced", bench.endpoint("second", pricing=None)),
    ]
    with StartGateway(stores, tmp_path) as start:
        yield start.with_catalogue(
            bench.as_yaml(bench.personas(simulator), models),
            NOTIFICATION_PRIVATE_HOSTS="127.0.0.1",
        )


@pytest.fixture
def worker(server: GatewayServer) -> Iterator[None]:
    with running_line(server, "events"):
        yield


@pytest.fixture(autouse=True)
def beat(server: GatewayServer) -> Iterator[None]:
    with running_line(server, "beat"):
        yield


def manage(desk: Desk, method: str, path: str, status: int = 200, **body: Any) -> Any:
    answer = desk.manage(method, path, body)
    assert answer.status_code == status, answer.text
    return as_json(answer)["data"]


def open_desk(server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    return Desk(server, simulator, seed_account(server), "told/first")


def add_webhook(desk: Desk, inbox: Inbox, path: str) -> str:
    fields = {"name": path, "type": "webhook", "url": f"{inbox.url}{path}"}
    made: str = manage(desk, "POST", CHANNELS, 201, **fields)["id"]
    return made


def test_events_arrive_beside_long_tasks_and_silent_receivers(
    server: GatewayServer, worker: None, simulator: SimulatedUpstream, inbox: Inbox
) -> None:
    simulator.clear()
    desk, others = open_desk(server, simulator), open_desk(server, simulator)
    for _ in range(12):
        add_webhook(others, inbox, "/silent")
    manage(others, "POST", "/keys", 201, name="ci")
    server.wait_until(lambda: bool(inbox.kinds("/silent")), within_s=PATIENCE_S)
    channel = add_webhook(desk, inbox, "/in")
    manage(desk, "PUT", f"/workspaces/{desk.account.workspace_id}/budgets/daily", limit_usd=1)

    manage(desk, "POST", f"{CHANNELS}/{channel}/test", 201)
    manage(desk, "POST", "/keys", 201, name="ci")
    for _ in range(4):
        desk.ok()

    def levels() -> list[int]:
        budgets = [told for path, _, told in inbox.posts if told["type"] == "budget.threshold"]
        return sorted(told["data"]["details"]["level_percent"] for told in budgets)

    server.wait_until(lambda: levels() == [50, 80, 100], within_s=PATIENCE_S)
    wanted = {"channel.test", "key.created"}
    server.wait_until(lambda: inbox.kinds("/in") >= wanted, within_s=PATIENCE_S)


def test_what_keys_money_providers_and_models_come_to_arrives(
    server: GatewayServer, worker: None, simulator: SimulatedUpstream, inbox: Inbox
) -> None:
    simulator.clear()
    desk = open_desk(server, simulator)
    add_webhook(desk, inbox, "/in")
    key = desk.account.api_key_hash
    manage(desk, "PATCH", f"/keys/{key}", limit=1)
    other = manage(desk, "POST", "/keys", 201, name="ci")["hash"]
    assert desk.manage("POST", f"/keys/{other}/rotate", {}).status_code == 200
    for _ in range(2):
        desk.ok()
    assert desk.post(model="told/unpriced").status_code >= 400
    simulator.script("first", {"status": 503}, repeat=True)
    for _ in range(2):
        assert desk.post().status_code == 503

    wanted = {"key.created", "key.rotated", "key.limit_threshold", "credit.low"}
    wanted |= {"provider.down", "model.unpriced"}
    server.wait_until(lambda: inbox.kinds("/in") >= wanted, within_s=PATIENCE_S)
    simulator.clear()

    def is_back() -> bool:
        desk.post()
        return "provider.up" in inbox.kinds("/in")

    server.wait_until(is_back, within_s=PATIENCE_S)
    # Each once, whoever looks and how often.
    kinds = [told["type"] for _, _, told in inbox.posts if told["type"] != "key.limit_threshold"]
    assert sorted(kinds) == sorted(set(kinds))


def test_an_event_outlives_the_worker_that_was_killed_while_it_sent_it(
    server: GatewayServer, simulator: SimulatedUpstream, inbox: Inbox
) -> None:
    desk = open_desk(server, simulator)
    add_webhook(desk, inbox, "/in")
    inbox.hangs.set()
    manage(desk, "POST", "/keys", 201, name="ci")

    def is_delivered() -> bool:
        return bool(manage(desk, "GET", "/notifications/deliveries?state=delivered"))

    with running_line(server, "events"):
        server.wait_until(lambda: len(inbox.posts) == 1, within_s=PATIENCE_S)
    inbox.hangs.clear()
    with running_line(server, "events"):
        server.wait_until(is_delivered, within_s=PATIENCE_S)
    # It came twice, under one id, by which a receiver knows it again.
    assert len(inbox.posts) == 2
    assert len({message_id for _, message_id, _ in inbox.posts}) == 1
