"""The queue in front of a full endpoint: tenants are served in turn, each is told its place, and
who leaves gives it up."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conformance.desk import Desk, open_stream
from tests.faults.bench import endpoint, model
from tests.faults.conftest import GatewayWith
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer

MODEL = "full/first"
# Longer than any of these tests takes.
LONG_S = "60"
LARGE, SMALL = 20, 2
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith) -> Iterator[GatewayServer]:
    running = gateway_with(
        [model(MODEL, endpoint("first", rate_limits=[{"concurrent": 1}]))],
        ROUTER_QUEUE_SECONDS=LONG_S,
        ROUTER_FIRST_BYTE_TIMEOUT=LONG_S,
        METRICS_TOKEN="token-of-the-metrics",
    )
    yield running
    running.check_books()


@pytest.fixture
def new_desk(server: GatewayServer, simulator: Any) -> Callable[[], Desk]:
    simulator.clear()
    return lambda: Desk(server, simulator, seed_account(server, credits_usd="1000"), MODEL)


def count_waiting(server: GatewayServer) -> int:
    file = Path(server.env["GATEWAY_HOME"]) / "run" / "metrics" / "url"
    text = requests.get(file.read_text(encoding="utf-8"), timeout=60).text
    lines = [line.split() for line in text.splitlines()]
    return next(int(float(line[1])) for line in lines if line[0] == "gateway_requests_waiting")


def wait_for(server: GatewayServer, waiting: int) -> None:
    server.wait_until(lambda: count_waiting(server) == waiting, within_s=30)


def hold_place(stack: ExitStack, desk: Desk) -> None:
    """Take the only place until the gate `hold` is open; those behind are answered at once."""
    desk.upstream.script("first", {"gate": "hold", "text": "First"})
    opened_first = stack.enter_context(closing(open_stream(desk, stream=False, user="first")))
    assert opened_first
    desk.upstream.wait_gate("hold")


def list_served(desk: Desk) -> list[str]:
    return [entry["body"]["messages"][0]["content"] for entry in desk.upstream.requests()]


def ask(desk: Desk, words: str, **more: Any) -> requests.Response:
    return desk.post(messages=[{"role": "user", "content": words}], **more)


def test_the_tenth_as_large_is_served_in_turn_and_told_its_place(
    server: GatewayServer, new_desk: Callable[[], Desk]
) -> None:
    large, small = new_desk(), new_desk()
    with ExitStack() as stack, ThreadPoolExecutor(LARGE + SMALL) as pool:
        hold_place(stack, large)
        of_large = [pool.submit(ask, large, "large", stream=n % 2 == 0) for n in range(LARGE)]
        wait_for(server, LARGE)
        of_small = [pool.submit(ask, small, "small", stream=n % 2 == 0) for n in range(SMALL)]
        wait_for(server, LARGE + SMALL)
        large.upstream.open_gate("hold")
        answers = [each.result() for each in (*of_large, *of_small)]
    assert {each.status_code for each in answers} == {200}
    served = list_served(large)[1:]
    assert len(served) == LARGE + SMALL
    # Never more than one other in between.
    assert [place for place, who in enumerate(served) if who == "small"][-1] <= 2 * SMALL
    places = sorted(int(each.headers["X-Router-Queue-Place"]) for each in answers)
    assert (places[0], places[-1]) == (1, LARGE)
    told = answers[-1].headers
    assert int(told["X-Router-Queue-Place"]) <= 2 * SMALL
    path = f"/api/v1/generation/{told['X-Generation-Id']}/route"
    route = server.get(path, key=small.account.api_key).json()["data"]
    assert route["queue"] == {
        "place": int(told["X-Router-Queue-Place"]),
        "waited_ms": int(told["X-Router-Queue-Ms"]),
    }
    assert [each["verdict"] for each in route["endpoints"]] == ["chosen"]


@pytest.mark.parametrize("stream", [False, True])
def test_who_leaves_gives_up_his_place(
    stream: bool, server: GatewayServer, new_desk: Callable[[], Desk]
) -> None:
    desk = new_desk()
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        hold_place(stack, desk)
        leaving = open_stream(desk, stream=stream)
        wait_for(server, 1)
        asked = pool.submit(ask, desk, "behind")
        wait_for(server, 2)
        leaving.close()
        wait_for(server, 1)
        desk.upstream.open_gate("hold")
        assert asked.result().status_code == 200
    assert list_served(desk)[1:] == ["behind"]


def test_whose_time_is_over_is_told_429(gateway_with: GatewayWith, simulator: Any) -> None:
    simulator.clear()
    server = gateway_with(
        [model(MODEL, endpoint("first", rate_limits=[{"concurrent": 1}]))],
        ROUTER_QUEUE_SECONDS="0.3",
    )
    desk = Desk(server, simulator, seed_account(server, credits_usd="1000"), MODEL)
    with ExitStack() as stack:
        hold_place(stack, desk)
        refused = desk.post()
        assert refused.status_code == 429
        assert refused.json()["error"]["message"].endswith("1 concurrent requests of this endpoint")
        assert int(refused.headers["X-Router-Queue-Ms"]) >= 300
        simulator.open_gate("hold")
    # The one that had the place ends when its answer has come, whether or not somebody reads it.
    server.wait_until(lambda: server.manage("audit_ledger")["open_holds"] == 0, within_s=60)
    server.check_books()
