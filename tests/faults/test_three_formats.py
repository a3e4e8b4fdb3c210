"""U3 to U6 and U8 again for every caller format at every wire kind.

The drills in detail are those of chat; here each fault has one look through all nine pairs.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.asking import PERSONAS
from tests.conformance.desk import Desk, exact
from tests.conformance.pairs import HELLO, Pair
from tests.faults.bench import CHEAP_NANO, DEAR, as_yaml, endpoint, model, provider
from tests.faults.conftest import FIRST_BYTE_S, IDLE_S, loaded
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.raw_desk import forget_peak, status_kib, worker_pids
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS, Said, Streamed, read_stream

# A fault is read by one adapter and written by one format: the two meet in the shape of chat only.
pytestmark = [pytest.mark.grid, pytest.mark.thorough]
MIB = 1024 * 1024
ANSWER_BYTES_MAX, EVENT_BYTES_MAX = 4 * MIB, 3 * MIB
GROWTH_KIB = 20 * 1024
REST_S = 0.5
SILENT = ["hang", "headers-then-silence", "silence-mid-stream"]
FINE_SHAPES = [
    "sse-no-space",
    "sse-crlf",
    "sse-cr",
    "sse-comments",
    "sse-bom",
    "sse-multi-line",
    "sse-one-write",
    "sse-unended",
    "sse-after-done",
    "sse-split-utf8",
    "gzip",
]
BROKEN_SHAPES = ["sse-garbage", "sse-error-mid", "sse-big-event", "die-mid-stream"]
EMPTY_SHAPES = ["sse-error-inside", "empty-body", "html", "wrong-content-type", "null-body"]
BAD_WHOLE = [
    "truncated-json",
    "null-body",
    "empty-body",
    "empty-choices",
    "html",
    "wrong-content-type",
    "bad-utf8",
    "long-content-length",
    "short-content-length",
    "sse-error-inside",
]
USAGE_FAULTS = ["missing-usage", "usage-negative", "usage-absurd", "usage-string"]
TOO_MUCH = ["endless-body", "endless-headers", "gzip-bomb?decoded_mib=64"]
PAIRED = {*SILENT, *BAD_WHOLE}
FAULTS = {
    *SILENT, *FINE_SHAPES, *BROKEN_SHAPES, *EMPTY_SHAPES, *BAD_WHOLE, *USAGE_FAULTS, *TOO_MUCH,
    "sse-no-done",
}  # fmt: skip


def named(fault: str) -> str:
    return fault.partition("?")[0]


def models() -> list[dict[str, Any]]:
    """`alone-K/F` has fault F at wire kind K. `pair-K/F.C` has a good endpoint of that kind beside
    it, and is there for callers of format C alone: the others would leave their failures to it."""
    found = []
    for kind, persona in PERSONAS.items():
        good = endpoint(f"{persona}-b", pricing=DEAR)
        found.append(model(f"plain-{kind}/good", endpoint(f"{persona}-a")))
        for fault in sorted(FAULTS):
            faulty = endpoint(f"{persona}-a", f"sim/{fault}")
            found.append(model(f"alone-{kind}/{named(fault)}", faulty))
            if fault in PAIRED:
                found += [model(f"pair-{kind}/{fault}.{name}", faulty, good) for name in SPEAKERS]
    return found


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    folder = tmp_path_factory.mktemp("formats")
    providers = [
        provider(f"{persona}-{letter}", f"{simulator.url}/{persona}-{letter}/v1", kind=kind)
        for kind, persona in PERSONAS.items()
        for letter in "ab"
    ]
    caps = {
        "ROUTER_MAX_ANSWER_BYTES": str(ANSWER_BYTES_MAX),
        "ROUTER_MAX_EVENT_BYTES": str(EVENT_BYTES_MAX),
    }
    with StartGateway(stores, folder) as starter:
        running = loaded(starter, folder, as_yaml(providers, models()), **caps)
        yield running
        audit = running.manage("audit_ledger")
        assert audit["mismatches"] == []
        assert audit["open_holds"] == 0


@pytest.fixture(params=PERSONAS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=SPEAKERS)
def pair(
    request: pytest.FixtureRequest, server: GatewayServer, simulator: SimulatedUpstream, kind: str
) -> Pair:
    simulator.clear()
    account = seed_account(server, credits_usd="1000")
    desk = Desk(server, simulator, account, f"plain-{kind}/good")
    return Pair(SPEAKERS[request.param], kind, desk)


def alone(pair: Pair, fault: str, **options: Any) -> requests.Response:
    return pair.post(model=f"alone-{pair.kind}/{named(fault)}", **options)


def beside_a_good_one(pair: Pair, fault: str, **options: Any) -> requests.Response:
    return pair.post(model=f"pair-{pair.kind}/{fault}.{pair.speaker.name}", **options)


def charged_nano(pair: Pair, response: requests.Response) -> int:
    return pair.desk.ledger_nano(response.headers["X-Generation-Id"])


def answered(pair: Pair, response: requests.Response) -> Said:
    """A good answer, whole or streamed, that is charged what it says."""
    assert response.status_code == 200, response.text
    if response.headers["Content-Type"] == "application/json":
        said = pair.speaker.heard(exact(response))
    else:
        streamed = read_stream(response)
        assert streamed.done, streamed.events[-1]
        said = pair.speaker.heard_stream(streamed)
    assert said.failure is None
    assert said.cost_nano == charged_nano(pair, response)
    return said


def broken(pair: Pair, streamed: Streamed, error_type: str) -> Said:
    """A stream that ends with one error event of its format, charged nothing."""
    said = pair.speaker.heard_stream(streamed)
    assert said.failure is not None
    assert not streamed.done
    assert error_type in json.dumps(streamed.values[-1], default=str)
    assert charged_nano(pair, streamed.response) == 0
    return said


def refused(pair: Pair, response: requests.Response, status: int, error_type: str) -> None:
    """A refusal with an honest status, or the only event of a stream that was committed already."""
    if response.status_code == 200:
        said = broken(pair, read_stream(response), error_type)
        assert said.text == ""
        return
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    assert pair.speaker.told(exact(response))[:2] == (status, error_type)
    assert charged_nano(pair, response) == 0


# U3


@pytest.mark.parametrize("fault", ["hang", "headers-then-silence"])
def test_u3_silence_before_the_first_word_goes_to_the_next_endpoint(pair: Pair, fault: str) -> None:
    started = time.monotonic()

    said = answered(pair, beside_a_good_one(pair, fault, stream=True))

    assert said.text == f"Simulated answer to: {HELLO}"
    in_time(time.monotonic() - started, max(FIRST_BYTE_S, IDLE_S) * 1.1 + REST_S)
    first, second = pair.desk.upstream.requests()
    assert (first["closed_by"], second["status"]) == ("client", 200)


def test_u3_silence_in_mid_stream_is_an_error_and_no_second_try(pair: Pair) -> None:
    response = beside_a_good_one(pair, "silence-mid-stream", stream=True)

    streamed = read_stream(response)

    said = broken(pair, streamed, "timeout")
    assert said.text == "Simulated answer"
    assert pair.speaker.keep_alive.decode() in response.text
    assert len(pair.desk.upstream.requests()) == 1


# U4


@pytest.mark.parametrize("fault", FINE_SHAPES)
def test_u4_an_odd_shape_that_is_whole(pair: Pair, fault: str) -> None:
    said = answered(pair, alone(pair, fault, stream=True))

    assert said.text.startswith("Simulated")
    assert said.text == f"Simulated answer to: {HELLO}" or fault == "sse-split-utf8"
    assert said.finish == "stop"


@pytest.mark.parametrize("fault", BROKEN_SHAPES)
def test_u4_a_shape_that_breaks_after_some_words(pair: Pair, fault: str) -> None:
    response = alone(pair, fault, stream=True)

    if fault == "sse-big-event":
        refused(pair, response, 502, "provider_unavailable")
    else:
        said = broken(pair, read_stream(response), "provider_unavailable")
        assert said.text in ("Simulated", "Simulated answer")


@pytest.mark.parametrize("fault", EMPTY_SHAPES)
def test_u4_a_shape_with_nothing_in_it(pair: Pair, fault: str) -> None:
    refused(pair, alone(pair, fault, stream=True), 502, "provider_unavailable")


def test_u4_a_missing_terminator(pair: Pair) -> None:
    """Chat and messages have said why they stopped before it; responses say it in it."""
    response = alone(pair, "sse-no-done", stream=True)

    if pair.kind == "responses":
        broken(pair, read_stream(response), "provider_unavailable")
    else:
        assert answered(pair, response).finish == "stop"


# U5


@pytest.mark.parametrize("fault", BAD_WHOLE)
def test_u5_a_bad_body_goes_to_the_next_endpoint_and_ends_as_502(pair: Pair, fault: str) -> None:
    said = answered(pair, beside_a_good_one(pair, fault))
    assert said.text == f"Simulated answer to: {HELLO}"

    response = alone(pair, fault)

    refused(pair, response, 502, "provider_unavailable")
    assert "Traceback" not in response.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", USAGE_FAULTS)
def test_u5_where_the_usage_is_a_lie_the_estimate_is_charged(
    pair: Pair, fault: str, stream: bool
) -> None:
    said = answered(pair, alone(pair, fault, stream=stream))

    estimate = len(HELLO) // 4 * CHEAP_NANO[0] + len(said.text) // 4 * CHEAP_NANO[1]
    assert said.cost_nano == estimate > 0


# U6


@pytest.mark.parametrize("fault", TOO_MUCH)
def test_u6_too_much_is_cut_at_its_cap(pair: Pair, fault: str) -> None:
    pids = worker_pids(pair.desk.server)
    for pid in pids:
        forget_peak(pid)
    before_kib = {pid: status_kib(pid, "VmHWM") for pid in pids}

    response = alone(pair, fault)

    grown_kib = max(status_kib(pid, "VmHWM") - before_kib[pid] for pid in pids)
    assert grown_kib < GROWTH_KIB
    refused(pair, response, 502, "provider_unavailable")
    assert pair.desk.upstream.wait(1, "disconnected")["closed_by"] == "client"


# U8


@pytest.mark.parametrize("events", [[{"gate": "never"}], [{"text": HELLO}, {"gate": "never"}]])
def test_u8_who_leaves_closes_the_upstream(pair: Pair, events: list[Any]) -> None:
    pair.script({"events": events})
    wire = pair.open()
    if len(events) > 1:
        wire.until(HELLO.encode())
    else:
        wire.until(pair.speaker.keep_alive)

    wire.close()

    assert pair.desk.upstream.wait(1, "disconnected", timeout_s=1)["closed_by"] == "client"
    # Whatever was accepted is paid for.
    pair.desk.server.wait_until(lambda: pair.desk.total_usage_nano() > 0)
