"""A destination in use: a whole gateway with the worker that delivers."""

from collections.abc import Iterator
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.conformance.wide import wide_catalogue
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.procfile import running_line
from tests.support.receiver import Receiver, list_spans, read_attributes, serve_receiver
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
PATH = "/observability/destinations"
SECRET = "sk-lf-canary-0123456789abcdef"


PROMPT = "canary prompt of a broadcast"


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


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
        with running_line(server, "destinations"):
            yield server


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
    def list_arrived() -> list[Any]:
        return [span for each in receiver.received for span in list_spans(each.json)]

    desk.server.wait_until(lambda: len(list_arrived()) >= count, within_s=20)
    return list_arrived()


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
