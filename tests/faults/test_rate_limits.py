"""Rate limits over HTTP: two gateways on one hint store count as one, and each for itself while the
store is gone. Nothing stalls and nothing fails meanwhile."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
import requests

from gateway.limits.limits import MINUTE_S
from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer
from tests.support.windows import within_one

pytestmark = pytest.mark.thorough

PER_MINUTE, TOKENS = 20, 20_000
SETTINGS: dict[str, Any] = {
    "ROUTER_KEY_RPM": str(PER_MINUTE),
    "ROUTER_KEY_TPM": str(TOKENS),
}
PAID = "acme/solo"
# REDIS_TIMEOUT and as long again for everything else, on a busy machine.
PROMPT_S = 2.0
HELLO = [{"role": "user", "content": "Hello there"}]


@dataclass
class Pair:
    """Two gateways on the same stores."""

    servers: list[GatewayServer]
    valkey: ValkeyServer

    def account(self) -> SeededAccount:
        return seed_account(self.servers[0])

    def chat(self, n: int, key: str, **body: Any) -> requests.Response:
        """The nth request goes to the nth server, in turn."""
        given = {"model": PAID, "messages": HELLO, "max_tokens": 10} | body
        return self.servers[n % 2].chat(key=key, **given)

    def crowd(self, count: int, ask: Callable[[int], requests.Response]) -> Counter[int]:
        """How often each status came of so many requests, 16 at a time."""
        with ThreadPoolExecutor(16) as pool:
            return Counter(answer.status_code for answer in pool.map(ask, range(count)))


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("rates")
    valkey = ValkeyServer(folder / "v")
    valkey.start()
    with StartGateway(stores, folder) as starter:
        catalogue = rewritten(simulator.url)
        servers = starter.two_with_catalogue(catalogue, redis_url=valkey.url, **SETTINGS)
        yield Pair([*servers], valkey)
    valkey.stop()


@pytest.fixture(autouse=True)
def quiet(simulator: SimulatedUpstream) -> None:
    simulator.clear()


def test_two_gateways_let_exactly_as_many_through_as_one(pair: Pair) -> None:
    def work() -> Counter[int]:
        key = pair.account().api_key
        return pair.crowd(3 * PER_MINUTE, lambda n: pair.chat(n, key))

    assert within_one(MINUTE_S, work) == {200: PER_MINUTE, 429: 2 * PER_MINUTE}


# --- Tokens ---------------------------------------------------------------------------------------


def test_tokens_are_reserved_while_requests_run_and_corrected_when_they_end(
    pair: Pair, simulator: SimulatedUpstream
) -> None:
    gate = iter(range(100))

    def work() -> None:
        key, name = pair.account().api_key, f"rates-{next(gate)}"
        simulator.script("gamma", {"text": "Hi", "gate": name}, repeat=True)
        # Three of 6,000 tokens and a little are all that fits beside each other.
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(pair.chat, n, key, max_tokens=6_000) for n in range(8)]
            # The others wait at the gate.
            ended = islice(as_completed(asked, timeout=20), 5)
            refused = [each.result() for each in ended]
            assert [each.status_code for each in refused] == [429] * 5
            simulator.open_gate(name)
            assert Counter(each.result().status_code for each in asked) == {200: 3, 429: 5}
        error = refused[0].json()["error"]
        assert error["message"].startswith("Rate limit exceeded: tokens-per-min. This request may")
        assert error["metadata"]["limit_source"] == "router_key_tokens"
        assert refused[0].headers["X-RateLimit-Limit"] == str(TOKENS)
        # Nearly nothing of it was used. The correction is not waited for.
        pair.servers[0].wait_until(
            lambda: pair.chat(0, key, max_tokens=6_000).status_code == 200, within_s=5
        )

    within_one(MINUTE_S, work)


ASKED: dict[str, dict[str, Any]] = {
    "/api/v1/chat/completions": {"messages": HELLO},
    "/api/v1/messages": {"max_tokens": 10, "messages": HELLO},
    "/api/v1/responses": {"max_output_tokens": 16, "input": "Hello"},
}


def test_every_format_is_limited_and_told_nothing_of_routing(pair: Pair) -> None:
    def work() -> list[requests.Response]:
        key, asked = pair.account().api_key, {"X-Router-Metadata": "enabled"}
        pair.crowd(PER_MINUTE, lambda n: pair.chat(n, key))
        server = pair.servers[1]
        return [
            server.post(path, key=key, json={"model": PAID} | body, headers=asked)
            for path, body in ASKED.items()
        ]

    for refused in within_one(MINUTE_S, work):
        assert refused.status_code == 429
        assert refused.headers["X-RateLimit-Limit"] == str(PER_MINUTE)
        assert "Rate limit exceeded: requests-per-min" in refused.text
        assert "router_metadata" not in refused.json()
        assert "X-Generation-Id" not in refused.headers
        assert 1 <= int(refused.headers["Retry-After"]) <= MINUTE_S


# --- The store dies -------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["killed", "frozen"])
def test_without_the_store_each_gateway_counts_on_for_itself(pair: Pair, harm: str) -> None:
    def work() -> None:
        key = pair.account().api_key
        before = pair.crowd(10, lambda n: pair.chat(n, key))
        assert before == {200: 10}
        took_s: list[float] = []
        valkey = pair.valkey
        (valkey.stop if harm == "killed" else valkey.pause)()
        try:
            during = pair.crowd(80, lambda n: _timed(took_s, lambda: pair.chat(n, key)))
        finally:
            (valkey.start if harm == "killed" else valkey.resume)()
        # Each knew of at most the ten, and of at least its own five.
        assert set(during) == {200, 429}
        assert 2 * (PER_MINUTE - 10) <= during[200] <= 2 * (PER_MINUTE - 5)
        in_time(max(took_s), PROMPT_S)

    within_one(MINUTE_S, work)
    # The store is asked again after a rest.
    pair.servers[0].wait_until(lambda: _together(pair), within_s=20)


def _together(pair: Pair) -> bool:
    """Whether both gateways count in the store again."""
    key = pair.account().api_key
    return pair.crowd(PER_MINUTE + 2, lambda n: pair.chat(n, key))[429] == 2


def _timed(took_s: list[float], ask: Callable[[], requests.Response]) -> requests.Response:
    began_at = time.monotonic()
    answer = ask()
    took_s.append(time.monotonic() - began_at)
    return answer
