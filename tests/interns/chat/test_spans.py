"""A turn is a span, and what its agent asks of models hangs below it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interns.chat.conftest import chat_settings
from tests.interns.chat.room import Room, user
from tests.interns.chat.scripted_agent import END, MODEL, USAGE, Refusal, content
from tests.support.bed import Bed
from tests.support.collector import Collector, serve_collector
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CANARY = "canary-7c1f09"


def ask(text: str) -> dict[str, object]:
    return {"stream": True, "messages": user(text)}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with serve_collector() as site:
        yield site


@pytest.fixture(scope="module")
def traced_gateway(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, places: Path, collector: Collector
) -> Iterator[GatewayServer]:
    with StartGateway(stores, tmp_path_factory.mktemp("traced")) as starter:
        yield starter(**chat_settings(places, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url))


def test_a_turn_is_a_span_whose_place_its_agent_is_told(
    traced_gateway: GatewayServer, open_room: Callable[..., Room], collector: Collector
) -> None:
    room = open_room(traced_gateway)
    room.agent.script(MODEL, content(f"{CANARY}-answer"), END)
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    assert room.post(ask(f"{CANARY}-prompt"), headers=headers).content

    (turn,) = collector.trace(TRACE, count=1)

    assert (turn.name, turn.kind, turn.parent_id) == ("invoke_agent", "server", SPAN)
    (run,) = room.runs()
    assert turn.attributes["gateway.intern.run_id"] == str(run.pk)
    assert turn.attributes["gateway.intern.outcome"] == "completed"
    assert turn.attributes["gen_ai.usage.input_tokens"] == USAGE["prompt_tokens"]
    (told,) = room.agent.bodies
    assert told["traceparent"] == f"00-{TRACE}-{turn.span_id}-01"
    assert CANARY.encode() not in b"".join(collector.bodies)


def test_a_turn_that_the_runtime_refuses_is_a_span_that_failed(
    traced_gateway: GatewayServer, open_room: Callable[..., Room], collector: Collector
) -> None:
    room = open_room(traced_gateway)
    room.agent.script(Refusal(409, "busy"))
    headers = {"traceparent": f"00-{TRACE[::-1]}-{SPAN}-01"}
    assert room.post(ask("Hi"), headers=headers).status_code == 409

    (turn,) = collector.trace(TRACE[::-1], count=1)

    assert (turn.failed, turn.attributes["gateway.intern.outcome"]) == (True, "busy")
