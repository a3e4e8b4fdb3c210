"""U1: providers that cannot be reached. The next endpoint answers within the connect limit, every
attempt is listed, and only the one that answered is paid."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults.bench import DEAR, as_yaml, endpoint, model, personas, provider
from tests.faults.conftest import CONNECT_S, loaded
from tests.routing.upstreams.conftest import certificate as certificate
from tests.routing.upstreams.raw_upstream import RawUpstream, always, answer
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

# Status of the attempt, and what the caller is told when nobody else answers.
WAYS = {
    "refused": (502, "provider_unavailable"),
    "blackhole": (524, "timeout"),
    "mute": (524, "timeout"),
    "badname": (502, "provider_unavailable"),
    "deadname": (502, "provider_unavailable"),
    "reset": (502, "provider_unavailable"),
}
# What a request costs beside the wait itself, on a machine that does other things too.
REST_S = 0.5
GOOD = b'{"choices":[{"message":{"role":"assistant","content":"over TLS"},"finish_reason":"stop"}]}'
each_way = pytest.mark.parametrize("way", WAYS)
each_mode = pytest.mark.parametrize("stream", [False, True])


@contextmanager
def refused_port() -> Iterator[int]:
    """A port that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def black_hole() -> Iterator[int]:
    """A listener whose backlog is full: connecting neither works nor fails."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextmanager
def mute_port() -> Iterator[int]:
    """Connections are taken, and nothing is ever said on them: no TLS handshake ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def refusing(
    tmp_path_factory: pytest.TempPathFactory,
    stores: Bed,
    simulator: SimulatedUpstream,
    certificate: Path,
) -> Iterator[GatewayServer]:
    """`alone/W` meets way W; `pair/W` has a good endpoint after it."""
    folder = tmp_path_factory.mktemp("refusing")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with ExitStack() as stack:
        reply = answer(GOOD, "Content-Type: application/json")
        secure = stack.enter_context(RawUpstream(always(reply), tls))
        urls = {
            "refused": f"http://127.0.0.1:{stack.enter_context(refused_port())}",
            "blackhole": f"http://127.0.0.1:{stack.enter_context(black_hole())}",
            "mute": f"https://127.0.0.1:{stack.enter_context(mute_port())}",
            "badname": f"https://localhost:{secure.port}",
            "goodname": f"https://127.0.0.1:{secure.port}",
            "deadname": "http://gateway-upstream.invalid",
            "reset": f"{simulator.url}/reset",
        }
        upstream_model = {"reset": "sim/reset"}
        ways = [provider(way, f"{url}/v1") for way, url in urls.items()]
        models = [
            each
            for way in urls
            for bad in [endpoint(way, upstream_model.get(way, "good"))]
            for each in (
                model(f"alone/{way}", bad),
                model(f"pair/{way}", bad, endpoint("second", pricing=DEAR)),
            )
        ]
        # Whose first endpoint no other test has tried: what one did is remembered.
        models.append(
            model("pair/untried", endpoint("refused", "good"), endpoint("second", pricing=DEAR))
        )
        catalogue = as_yaml(ways + personas(simulator), models)
        starter = stack.enter_context(StartGateway(stores, folder))
        # The operator's own roots make the certificate good, so that its name alone is wrong.
        yield loaded(starter, folder, catalogue, SSL_CERT_FILE=str(certificate))


@pytest.fixture
def desk(refusing: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(refusing, simulator, seed_account(refusing, credits_usd="1000"))


@each_mode
@each_way
def test_the_next_endpoint_answers_within_the_connect_limit(
    desk: Desk, way: str, stream: bool
) -> None:
    started = time.monotonic()
    if stream:
        told: Any = desk.stream(model=f"pair/{way}").chunks[-1]
    else:
        told = desk.ok(model=f"pair/{way}")
    elapsed_s = time.monotonic() - started

    assert told["provider"] == "Second"
    in_time(elapsed_s, CONNECT_S * 1.1 + REST_S)
    attempts = desk.generation(told["id"])["provider_responses"]
    assert [(each["provider_name"], each["status"]) for each in attempts] == [
        (way.capitalize(), WAYS[way][0]),
        ("Second", 200),
    ]
    usage = told["usage"]
    expected = 1_000_000 * usage["prompt_tokens"] + 2_000_000 * usage["completion_tokens"]
    assert desk.paid_nano(told) == expected


@each_mode
@each_way
def test_without_another_endpoint_the_caller_is_told_and_pays_nothing(
    desk: Desk, way: str, stream: bool
) -> None:
    response = desk.post(model=f"alone/{way}", stream=stream)

    status, error_type = WAYS[way]
    error = desk.told(response, status, error_type)
    assert error["metadata"]["provider_name"] == way.capitalize()
    assert f"{way}-secret" not in response.text
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def test_the_certificate_is_good_for_its_own_name(desk: Desk) -> None:
    """The twin of `badname`: without it the rig could fail for another reason."""
    answer_ = desk.ok(model="alone/goodname")

    assert answer_["choices"][0]["message"]["content"] == "over TLS"


def test_a_connection_that_died_idle_is_no_outage(desk: Desk) -> None:
    """A pooled connection that dies before any byte of an answer gets one fresh retry."""
    desk.upstream.script("second", {"fault": "die-on-reuse"})
    first = desk.ok(model="pair/untried")
    assert desk.paid_nano(first) > 0

    second = desk.ok(model="pair/untried", headers={"X-Router-Metadata": "enabled"})

    assert second["provider"] == first["provider"] == "Second"
    statuses = [each["status"] for each in second["router_metadata"]["attempts"]]
    assert statuses == [502, 200]
    assert desk.paid_nano(second) > 0
    met = desk.upstream.requests("second")
    assert [each["outcome"] for each in met] == ["answered", "cut", "answered"]
    assert met[0]["connection_closed_at"] is not None
