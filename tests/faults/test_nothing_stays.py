"""A request is forgotten as soon as it has ended, however it ended.

Web workers collect garbage rarely, so whatever refers to itself keeps its prompt for long. Here the
worker has no garbage collector at all.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.bench import DEAR, endpoint, model
from tests.faults.conftest import GatewayWith
from tests.faults.desks import begin, open_holds
from tests.support.gateways import seed_account
from tests.support.remembering import FILE
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

Ending = Callable[[Desk], None]
# The next looks of the worker: one may be under way while the request ends.
LOOKS = 2
LOOK = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
CLOCK = [{"type": "router:datetime"}]
FAULTY = endpoint("first", "sim/503")


@pytest.fixture(scope="module")
def remembering(
    gateway_with: GatewayWith, simulator: SimulatedUpstream, tmp_path_factory: Any
) -> GatewayServer:
    models = [
        *bench.plain_models(),
        *bench.fault_models(simulator),
        model("pair/503", FAULTY, endpoint("second", pricing=DEAR)),
        model("alone/503", FAULTY),
        model("dear/one", endpoint("first", pricing=DEAR)),
        model("small/one", endpoint("first", context_length=50), context_length=50),
        model("gone/one", endpoint("nowhere")),
        model("gone/pair", endpoint("nowhere"), endpoint("second", pricing=DEAR)),
    ]
    # Nothing listens on the port of discarded bytes.
    nowhere = bench.provider("nowhere", "http://127.0.0.1:9/v1")
    env = {
        "GUNICORN_CMD_ARGS": "--worker-class tests.support.remembering.RememberingWorker",
        FILE: str(tmp_path_factory.mktemp("remembering") / "remembered.json"),
    }
    return gateway_with(models, providers=[*bench.personas(simulator), nowhere], **env)


@pytest.fixture
def mine(remembering: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    account = seed_account(remembering, credits_usd="1000")
    return Desk(remembering, simulator, account, "plain/first")


def read_remembered(server: GatewayServer) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(server.env[FILE]).read_text(encoding="utf-8"))
    return told


def look_on(desk: Desk, looks: int) -> None:
    """Until the worker has looked so many times more."""
    until = read_remembered(desk.server)["looks"] + looks
    desk.server.wait_until(lambda: read_remembered(desk.server)["looks"] >= until)


def answer_both_ways(desk: Desk) -> None:
    desk.ok()
    desk.stream()


def fell_back(desk: Desk) -> None:
    for name in ("pair/503", "gone/pair"):
        desk.ok(model=name)
        desk.stream(model=name)


def fell_back_after_a_refusal(desk: Desk) -> None:
    refused = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}
    desk.upstream.script("first", {"json": refused})
    desk.ok(models=["plain/third"])


def all_failed(desk: Desk) -> None:
    for stream in (False, True):
        assert desk.post(model="alone/503", stream=stream).status_code == 503
        assert desk.post(model="gone/one", stream=stream).status_code == 502


def failed_after_commitment(desk: Desk) -> None:
    desk.upstream.script("first", {"events": [{"gate": "never"}]})
    desk.upstream.script("second", {"gate": "never"})
    stream = desk.stream(models=["plain/second"])
    assert stream.comments
    assert "error" in stream.chunks[-1]


def refuse_requests(desk: Desk) -> None:
    """Before routing, and by the books."""
    poor, broke = (
        Desk(desk.server, desk.upstream, seed_account(desk.server, credits_usd=usd))
        for usd in ("0.01", "0")
    )
    for stream in (False, True):
        assert desk.post(model="small/one", max_tokens=1000, stream=stream).status_code == 400
        assert poor.post(model="dear/one", stream=stream).status_code == 402
    assert broke.post(model="small/one", max_tokens=1000).status_code == 402


def broke_off(desk: Desk) -> None:
    error = {"json": {"error": {"code": 502, "message": "no more"}}}
    both = 'data: {"choices":[{"index":0,"delta":{"content":"Hi."}}]}\n\ndata: {"error":"x"}\n\n'
    for events in ([{"text": "Hello."}, error], [both], [{"text": "Hello."}, {"cut": "reset"}]):
        desk.upstream.script("first", {"events": events})
        assert "error" in desk.stream().chunks[-1]
    page = {"events": [{"text": "No stream."}, {"cut": "reset"}], "content_type": "text/html"}
    desk.upstream.script("first", page)
    assert desk.post(stream=True).status_code == 502


def every_fault(desk: Desk) -> None:
    for fault in desk.upstream.control("GET", "/_faults")["faults"]:
        desk.post(model=f"alone/{fault}.whole")
        desk.post(model=f"pair/{fault}.stream", stream=True)


def decide_both_ways(desk: Desk) -> None:
    for count in (1, 12):
        assert decide(desk, "plain/first", count) == 200
        assert decide(desk, "pair/503", count) == 200


def nothing_decided(desk: Desk) -> None:
    for count in (1, 12):
        assert decide(desk, "alone/503", count) == 503
        assert decide(desk, "gone/one", count) == 502
        desk.upstream.script("first", {"text": "no number"}, repeat=True)
        assert decide(desk, "plain/first", count) == 502
        desk.upstream.clear()


def decide(desk: Desk, name: str, count: int) -> int:
    question = {"type": "noul", "instructions": "Is all well?"}
    body = {"state": "Well", "questions": {str(n): question for n in range(count)}}
    key = desk.account.api_key
    path = "/api/alpha/decisions"
    return desk.server.post(path, key=key, json={"model": name, **body}).status_code


def left_inside(desk: Desk) -> None:
    desk.upstream.script("first", {"events": [{"text": "Hello."}, {"gate": "never"}]})
    leave_early(desk, "plain/first", after=b"Hello.")


def left_while_read_out(desk: Desk) -> None:
    desk.upstream.script(
        "drained", {"events": [{"text": "Hello."}, {"gate": "left"}, {"json": {"error": "x"}}]}
    )
    leave_early(desk, "plain/drained", after=b"Hello.", gate="left")


def left_while_the_upstream_broke_off(desk: Desk) -> None:
    """At once, and when it is being read out already."""
    for reads_out in (False, True):
        desk.upstream.clear()
        steps = [{"text": "Hello."}, {"gate": "left"}, {"cut": "reset"}]
        desk.upstream.script("drained", {"events": steps})
        leave_early(
            desk, "plain/drained", after=b"Hello.", gate="left", looks=3 if reads_out else 0
        )


def left_before_the_head(desk: Desk) -> None:
    desk.upstream.script("first", {"gate": "never"})
    leave_early(desk, "pair/503")
    desk.upstream.clear()
    desk.upstream.script("drained", {"gate": "go", "status": 503})
    leave_early(desk, "plain/drained", gate="go")


def loop_tools(desk: Desk) -> None:
    for stream in (False, True):
        desk.upstream.script("first", LOOK, LOOK, {"text": "Late."})
        assert "Late." in desk.post(tools=CLOCK, stream=stream).text
        desk.upstream.script("first", LOOK, {"fault": "500"})
        assert "error" in desk.post(tools=CLOCK, stream=stream).text


def ask_an_agent(desk: Desk) -> None:
    advisor = {"type": "router:advisor", "parameters": {"model": "plain/second"}}
    call = {"tool_calls": [{"name": "advisor", "arguments": {"question": "Why?"}}]}
    for stream in (False, True):
        desk.upstream.script("first", call, {"text": "So."})
        assert "So." in desk.post(tools=[advisor], stream=stream).text


def leave_early(
    desk: Desk, name: str, *, after: bytes = b"", gate: str = "", looks: int = 0
) -> None:
    """A caller who goes away after those bytes, and then the upstream goes on at its gate."""
    wire = begin(desk, model=name)
    if after:
        wire.head()
        wire.read_until(after)
    else:
        desk.upstream.wait(1, "received")
    wire.close()
    # Its event loop has seen the closed socket once it has answered something that came later.
    desk.server.get("/healthz")
    look_on(desk, looks)
    if gate:
        desk.upstream.open_gate(gate)
    desk.server.wait_until(lambda: open_holds(desk) == 0)


ENDINGS: list[Any] = [
    *(answer_both_ways, fell_back, fell_back_after_a_refusal, all_failed, failed_after_commitment),
    *(
        refuse_requests,
        broke_off,
        decide_both_ways,
        nothing_decided,
        loop_tools,
        ask_an_agent,
    ),
    *(left_inside, left_while_read_out, left_while_the_upstream_broke_off, left_before_the_head),
    pytest.param(every_fault, id="every_fault", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_nothing_of_a_request_stays_once_it_has_ended(mine: Desk, ending: Ending) -> None:
    before = read_remembered(mine.server)
    ending(mine)

    look_on(mine, LOOKS)
    # Calls that an earlier ending left behind are that ending's failure.
    assert read_remembered(mine.server)["calls"] == before["calls"]


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_stays_with_a_connection_that_is_kept(mine: Desk, stream: bool) -> None:
    before = read_remembered(mine.server)["calls"]
    wire = begin(mine, model="plain/first", stream=stream)
    _, headers = wire.head()
    wire.body(headers)

    mine.server.wait_until(lambda: read_remembered(mine.server)["calls"] == before)
    wire.close()


def test_a_call_under_way_is_seen(mine: Desk) -> None:
    """Or the test above would say nothing."""
    mine.upstream.script("first", {"events": [{"text": "Hello."}, {"gate": "never"}]})
    wire = begin(mine, model="plain/first")
    wire.head()

    mine.server.wait_until(lambda: "plain/first" in read_remembered(mine.server)["calls"])
    wire.close()
