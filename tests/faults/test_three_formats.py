"""U4 to U6 again for every caller format at every wire kind: in detail they are those of chat; here
each fault has a look through some of the nine pairs, at night through all."""

import json
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.asking import PERSONAS
from tests.conformance.desk import Desk, exact
from tests.conformance.pairs import HELLO, Pair
from tests.faults.bench import CHEAP_NANO, endpoint, model, provider
from tests.faults.conftest import GatewayWith
from tests.faults.raw_desk import forget_peak, status_kib, worker_pids
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS, read_stream

# A fault is read by one adapter and written by one format: the two meet in the shape of chat only.
pytestmark = [pytest.mark.grid, pytest.mark.thorough]
MIB = 1024 * 1024
CAPS = {"ROUTER_MAX_ANSWER_BYTES": str(4 * MIB), "ROUTER_MAX_EVENT_BYTES": str(3 * MIB)}
GROWTH_KIB = 20 * 1024
WHOLE, STREAMED = False, True
NOTHING_IN_IT = ["sse-error-inside", "empty-body", "html", "wrong-content-type", "null-body"]
FINE = ["sse-crlf", "sse-comments", "sse-bom", "sse-multi-line", "sse-one-write", "sse-unended"]
FINE += ["sse-after-done", "gzip"]
BROKEN = ["sse-garbage", "sse-error-mid", "silence-mid-stream"]
LIES = ["missing-usage", "usage-negative", "usage-absurd", "usage-string"]
BAD = [(fault, STREAMED) for fault in [*NOTHING_IN_IT, "sse-big-event"]]
BAD += [(fault, WHOLE) for fault in [*NOTHING_IN_IT, "truncated-json", "empty-choices", "bad-utf8"]]
BAD += [("long-content-length", WHOLE)]
GOOD = [(fault, STREAMED) for fault in [*FINE, *LIES]] + [(fault, WHOLE) for fault in LIES]
TOO_MUCH = ["endless-body", "endless-headers", "gzip-bomb?decoded_mib=64"]
FAULTS = {fault for fault, _ in [*BAD, *GOOD]} | {*BROKEN, *TOO_MUCH, "sse-no-done"}


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> Any:
    providers = [
        provider(persona, f"{simulator.url}/{persona}-a/v1", kind=kind)
        for kind, persona in PERSONAS.items()
    ]
    models = [
        model(f"{kind}/{fault.partition('?')[0]}", endpoint(persona, f"sim/{fault}"))
        for kind, persona in PERSONAS.items()
        for fault in sorted(FAULTS)
    ]
    running = gateway_with(models, providers=providers, **CAPS)
    yield running
    running.check_books()


@pytest.fixture(params=PERSONAS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=SPEAKERS)
def pair(
    request: pytest.FixtureRequest, server: GatewayServer, simulator: SimulatedUpstream, kind: str
) -> Pair:
    simulator.clear()
    desk = Desk(server, simulator, seed_account(server, credits_usd="1000"))
    return Pair(SPEAKERS[request.param], kind, desk)


def ask(pair: Pair, fault: str, *, stream: bool) -> Any:
    return pair.post(model=f"{pair.kind}/{fault.partition('?')[0]}", stream=stream)


def charged_nano(pair: Pair, response: Any) -> int:
    return pair.desk.ledger_nano(response.headers["X-Generation-Id"])


def check_broken(
    pair: Pair, response: Any, *texts: str, error: str = "provider_unavailable"
) -> None:
    """A stream that ends with one error event of its format, charged nothing."""
    streamed = read_stream(response)
    said = pair.speaker.heard_stream(streamed)
    assert said.failure is not None
    assert said.text in texts
    assert not streamed.done
    assert error in json.dumps(streamed.values[-1], default=str)
    assert charged_nano(pair, response) == 0


def check_good(pair: Pair, response: Any) -> None:
    """Whole or streamed, charged what it says."""
    assert response.status_code == 200, response.text
    if response.headers["Content-Type"] == "application/json":
        said = pair.speaker.heard(exact(response))
    else:
        streamed = read_stream(response)
        assert streamed.done, streamed.events[-1]
        said = pair.speaker.heard_stream(streamed)
    answer = f"Simulated answer to: {HELLO}"
    assert (said.failure, said.text, said.finish) == (None, answer, "stop")
    assert said.cost_nano == charged_nano(pair, response) > 0


def check_refused(pair: Pair, response: Any) -> None:
    """An honest 502, or the only event of a stream that was committed already."""
    if response.status_code == 200:
        check_broken(pair, response, "")
        return
    assert response.headers["Content-Type"] == "application/json"
    assert pair.speaker.told(exact(response))[:2] == (502, "provider_unavailable")
    assert charged_nano(pair, response) == 0
    assert "Traceback" not in response.text


@pytest.mark.parametrize(("fault", "stream"), BAD)
def test_an_answer_with_nothing_in_it_is_a_502(pair: Pair, fault: str, stream: bool) -> None:
    check_refused(pair, ask(pair, fault, stream=stream))


@pytest.mark.parametrize(("fault", "stream"), GOOD)
def test_an_odd_shape_that_is_whole_is_served(pair: Pair, fault: str, stream: bool) -> None:
    """And where the usage is a lie, the estimate is charged."""
    response = ask(pair, fault, stream=stream)

    check_good(pair, response)
    if fault in LIES:
        answer = f"Simulated answer to: {HELLO}"
        estimate = len(HELLO) // 4 * CHEAP_NANO[0] + len(answer) // 4 * CHEAP_NANO[1]
        assert charged_nano(pair, response) == estimate


@pytest.mark.parametrize("fault", BROKEN)
def test_a_shape_that_breaks_after_some_words(pair: Pair, fault: str) -> None:
    error = "timeout" if fault == "silence-mid-stream" else "provider_unavailable"
    response = ask(pair, fault, stream=True)

    check_broken(pair, response, "Simulated", "Simulated answer", error=error)


def test_a_missing_terminator(pair: Pair) -> None:
    """Chat and messages have said why they stopped before it; responses say it in it."""
    response = ask(pair, "sse-no-done", stream=True)

    if pair.kind == "responses":
        check_broken(pair, response, f"Simulated answer to: {HELLO}")
    else:
        check_good(pair, response)


@pytest.mark.parametrize("fault", TOO_MUCH)
def test_too_much_is_cut_at_its_cap(pair: Pair, fault: str) -> None:
    (pid,) = worker_pids(pair.desk.server)
    forget_peak(pid)
    before_kib = status_kib(pid, "VmHWM")

    response = ask(pair, fault, stream=False)

    assert status_kib(pid, "VmHWM") - before_kib < GROWTH_KIB
    check_refused(pair, response)
    assert pair.desk.upstream.wait(1, "disconnected")["closed_by"] == "client"
