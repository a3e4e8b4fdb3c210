"""Rows 78 and 79 of the management reference's section 19, and a destination in use."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.conformance.test_management_rows import error_of
from tests.conformance.wide import wide_catalogue
from tests.support import processes
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.manage import PROJECT
from tests.support.receiver import Receiver, list_spans, read_attributes, serve_receiver
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
PATH = "/observability/destinations"
SECRET = "sk-lf-canary-0123456789abcdef"
CONFIG = {"publicKey": "pk-lf-1", "secretKey": SECRET}
LANGFUSE = {"type": "langfuse", "name": "Traces", "config": CONFIG}
PROMPT = "canary prompt of a broadcast"


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


def test_a_secret_is_masked_and_its_masked_value_keeps_it(desk: Desk) -> None:
    answer = desk.manage("POST", PATH, LANGFUSE)

    assert answer.status_code == 201, answer.text
    data = as_json(answer)["data"]
    masked = data["config"]
    assert masked["secretKey"] == "****cdef"
    changed = desk.manage("PATCH", f"{PATH}/{data['id']}", {"config": masked, "name": "Other"})
    assert changed.status_code == 200, changed.text
    assert as_json(changed)["data"] == data | {
        "name": "Other",
        "updated_at": as_json(changed)["data"]["updated_at"],
    }
    assert SECRET not in answer.text + changed.text + desk.server.log()
    assert as_json(desk.manage("DELETE", f"{PATH}/{data['id']}")) == {"deleted": True}


def test_a_sixth_destination_of_a_type_is_refused(desk: Desk) -> None:
    for _ in range(5):
        assert desk.manage("POST", PATH, LANGFUSE).status_code == 201

    error = error_of(desk.manage("POST", PATH, LANGFUSE), 409)
    assert error["message"] == "A maximum of 5 destinations per type is allowed"


# --- In use ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def delivering(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """A gateway with a worker that delivers."""
    folder = tmp_path_factory.mktemp("delivering")
    with StartGateway(stores, folder) as starter:
        server = starter.with_catalogue(
            wide_catalogue(simulator.url),
            API_KEY_CACHE_SECONDS="0",
            DESTINATION_PRIVATE_HOSTS="127.0.0.1",
        )
        worker = _start_worker(server, folder / "destinations.log")
        yield server
        processes.kill(worker)


def _start_worker(server: GatewayServer, log: Path) -> subprocess.Popen[bytes]:
    """As in the Procfile."""
    lines = (PROJECT / "Procfile").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith("destinations: ")]
    words = line.split()[2:]
    celery = Path(sys.executable).parent / "celery"
    return processes.spawn([celery, *words], log=log, env=server.env, cwd=PROJECT)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serve_receiver() as site:
        yield site


@pytest.fixture
def sending(delivering: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    desk = Desk(delivering, simulator, seed_account(delivering))
    switch = {"is_observability_broadcast_enabled": True}
    changed = desk.manage("PATCH", f"/workspaces/{desk.account.workspace_id}", switch)
    assert changed.status_code == 200, changed.text
    return desk


def add(desk: Desk, receiver: Receiver, **fields: Any) -> Any:
    config = {"endpoint": receiver.url, "headers": {"Authorization": f"Bearer {SECRET}"}}
    body = {"type": "otel-collector", "name": "c", "config": config} | fields
    body["workspace_id"] = str(desk.account.workspace_id)
    answer = desk.manage("POST", PATH, body)
    assert answer.status_code == 201, answer.text
    return as_json(answer)["data"]


def ask(desk: Desk, **more: Any) -> str:
    """A chat request; the id of its generation."""
    messages = [{"role": "user", "content": PROMPT}]
    answer = desk.post(messages=messages, **more)
    assert answer.status_code == 200, answer.text
    return answer.headers["X-Generation-Id"]


def wait_for_spans(desk: Desk, receiver: Receiver, count: int) -> list[Any]:
    def arrived() -> list[Any]:
        return [span for each in receiver.received for span in list_spans(each.json)]

    desk.server.wait_until(lambda: len(arrived()) >= count, within_s=20)
    return arrived()


def test_a_request_reaches_the_destination_with_what_its_trace_says(
    sending: Desk, receiver: Receiver
) -> None:
    add(sending, receiver, broadcast_generation_request_context=True)
    generation = ask(
        sending,
        user="user-9",
        session_id="session-9",
        trace={"trace_name": "Support", "generation_name": "Draft", "team": "blue"},
    )

    root, span = wait_for_spans(sending, receiver, 2)

    assert receiver.received[0].headers["authorization"] == f"Bearer {SECRET}"
    assert (root["name"], span["name"]) == ("Support", "Draft")
    attributes = read_attributes(span)
    assert attributes["gen_ai.response.id"] == generation
    assert (attributes["user.id"], attributes["session.id"]) == ("user-9", "session-9")
    assert attributes["trace.metadata.team"] == "blue"
    assert attributes["trace.metadata.request.format"] == "chat"
    assert attributes["gen_ai.usage.input_tokens"] > 0
    assert PROMPT in attributes["gen_ai.input.messages"]
    assert "gen_ai.output.messages" in attributes
    # What a destination gets is kept nowhere.
    content = f"/api/v1/generation/content?id={generation}"
    answer = sending.server.request("GET", content, key=sending.account.management_key)
    assert answer.status_code == 404
    assert PROMPT not in sending.server.log()
    assert SECRET not in sending.server.log()


def test_a_failed_delivery_is_made_again(sending: Desk, receiver: Receiver) -> None:
    receiver.statuses = [503]
    add(sending, receiver, privacy_mode=True)
    ask(sending, stream=True)

    first, second = wait_for_spans(sending, receiver, 2)

    assert first == second
    assert PROMPT not in receiver.received[0].body.decode()


def test_nothing_is_sent_where_the_switch_is_off(sending: Desk, receiver: Receiver) -> None:
    add(sending, receiver)
    path = f"/workspaces/{sending.account.workspace_id}"
    sending.manage("PATCH", path, {"is_observability_broadcast_enabled": False})
    ask(sending)
    sending.manage("PATCH", path, {"is_observability_broadcast_enabled": True})
    later = ask(sending)

    (span,) = wait_for_spans(sending, receiver, 1)
    assert read_attributes(span)["gen_ai.response.id"] == later
