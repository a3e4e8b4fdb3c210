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

from gateway.limits import DAY_S, MINUTE_S
from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer
from tests.support.windows import within_one

pytestmark = pytest.mark.thorough

PER_MINUTE, PER_DAY, TOKENS, READS, WRONG = 20, 12, 20_000, 15, 10
SETTINGS: dict[str, Any] = {
    "ROUTER_KEY_RPM": str(PER_MINUTE),
    "ROUTER_KEY_TPM": str(TOKENS),
    "ROUTER_FREE_RPD_LOW": str(PER_DAY),
    "ROUTER_FREE_RPD_HIGH": "100",
    "ROUTER_FREE_CREDIT_THRESHOLD": "10",
    "RATE_MANAGEMENT_READS": str(READS),
    "RATE_FAILED_CREDENTIALS": str(WRONG),
    "TRUSTED_PROXIES": "127.0.0.1",
}
PAID, FREE = "acme/solo", "acme/small:free"
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
    file = folder / "catalogue.yaml"
    file.write_text(rewritten(simulator.url), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        one = starter.build(redis_url=valkey.url, **SETTINGS)
        one.manage("load_catalogue", str(file))
        # The same installation: stores and secrets.
        shared: dict[str, Any] = {"GATEWAY_HOME": one.env["GATEWAY_HOME"]}
        url = one.env["DATABASE_URL"]
        two = starter.build(database_url=url, redis_url=valkey.url, **(SETTINGS | shared))
        for server in (one, two):
            server.start()
        yield Pair([one, two], valkey)
    valkey.stop()


@pytest.fixture(autouse=True)
def quiet(simulator: SimulatedUpstream) -> None:
    simulator.clear()


def test_two_gateways_let_exactly_as_many_through_as_one(pair: Pair) -> None:
    def work() -> Counter[int]:
        key = pair.account().api_key
        return pair.crowd(3 * PER_MINUTE, lambda n: pair.chat(n, key))

    assert within_one(MINUTE_S, work) == {200: PER_MINUTE, 429: 2 * PER_MINUTE}


def test_a_day_s_free_requests_are_the_account_s(pair: Pair) -> None:
    def work() -> Counter[int]:
        account = pair.account()
        told = pair.servers[0].post("/api/v1/keys", key=account.management_key, json={"name": "b"})
        keys = [account.api_key, told.json()["key"]]
        return pair.crowd(3 * PER_DAY, lambda n: pair.chat(n, keys[n // 2 % 2], model=FREE))

    assert within_one(DAY_S, work) == {200: PER_DAY, 429: 2 * PER_DAY}


def test_streams_count_as_well(pair: Pair) -> None:
    def work() -> Counter[int]:
        key = pair.account().api_key
        return pair.crowd(PER_MINUTE + 5, lambda n: pair.chat(n, key, stream=True))

    assert within_one(MINUTE_S, work) == {200: PER_MINUTE, 429: 5}


def test_reads_of_management_count_together(pair: Pair) -> None:
    def work() -> Counter[int]:
        key = pair.account().management_key
        return pair.crowd(30, lambda n: pair.servers[n % 2].get("/api/v1/credits", key=key))

    assert within_one(MINUTE_S, work) == {200: READS, 429: 30 - READS}


def test_a_crowd_with_a_new_key_is_not_taken_for_guesses(pair: Pair) -> None:
    def work() -> Counter[int]:
        key = pair.account().api_key
        return pair.crowd(PER_MINUTE, lambda n: pair.chat(n, key))

    assert PER_MINUTE > WRONG
    assert within_one(MINUTE_S, work) == {200: PER_MINUTE}


def test_wrong_keys_from_one_address_count_together(pair: Pair) -> None:
    addresses = iter(range(1, 250))

    def work() -> Counter[int]:
        seen = {"X-Forwarded-For": f"1.1.1.1, 203.0.113.{next(addresses)}"}
        path = "/api/v1/chat/completions"
        return pair.crowd(
            30, lambda n: pair.servers[n % 2].post(path, key="nope", headers=seen, json={})
        )

    assert within_one(MINUTE_S, work) == {401: WRONG, 429: 30 - WRONG}


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


def test_used_tokens_stay_used(pair: Pair, simulator: SimulatedUpstream) -> None:
    def work() -> None:
        key = pair.account().api_key
        usage = {"prompt_tokens": 12_000, "completion_tokens": 7_000}
        simulator.script("gamma", {"text": "Hi", "usage": usage})
        assert pair.chat(0, key).status_code == 200
        # The correction is not waited for.
        pair.servers[1].wait_until(
            lambda: pair.chat(1, key, max_tokens=1_000).status_code == 429, within_s=5
        )

    within_one(MINUTE_S, work)


def test_a_request_past_the_whole_limit_has_its_minute(pair: Pair) -> None:
    def work() -> None:
        key = pair.account().api_key
        assert pair.chat(0, key, max_tokens=16_384 * 2).status_code == 200

    within_one(MINUTE_S, work)


# --- What does not count --------------------------------------------------------------------------


def test_what_is_refused_before_an_upstream_does_not_count(pair: Pair) -> None:
    def work() -> None:
        poor = seed_account(pair.servers[0], credits_usd="0.000001")
        dear = [pair.chat(n, poor.api_key).status_code for n in range(PER_MINUTE + 1)]
        assert dear == [402] * (PER_MINUTE + 1)
        account = pair.account()
        wrong = {"model": PAID, "provider": {"only": ["nobody"]}}
        nowhere = [pair.chat(n, account.api_key, **wrong) for n in range(3)]
        assert [each.status_code for each in nowhere] == [404] * 3
        found = pair.crowd(PER_MINUTE + 1, lambda n: pair.chat(n, account.api_key))
        assert found == {200: PER_MINUTE, 429: 1}
        # Payment before limits, limits before routing.
        assert pair.chat(0, account.api_key, **wrong).status_code == 429

    within_one(MINUTE_S, work)


def test_a_refusal_tells_nothing_of_routing(pair: Pair) -> None:
    def work() -> requests.Response:
        key = pair.account().api_key
        pair.crowd(PER_MINUTE, lambda n: pair.chat(n, key))
        body = {"model": PAID, "messages": HELLO}
        asked = {"X-Router-Metadata": "enabled"}
        path = "/api/v1/chat/completions"
        refused = pair.servers[0].post(path, key=key, json=body, headers=asked)
        assert refused.status_code == 429
        return refused

    refused = within_one(MINUTE_S, work)
    assert "router_metadata" not in refused.json()
    assert "X-Generation-Id" not in refused.headers
    assert 1 <= int(refused.headers["Retry-After"]) <= MINUTE_S
    assert refused.json()["error"]["message"] == "Rate limit exceeded: requests-per-min"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/messages", {"max_tokens": 10, "messages": HELLO}),
        ("/api/v1/responses", {"max_output_tokens": 16, "input": "Hello"}),
    ],
)
def test_every_format_is_limited(pair: Pair, path: str, body: dict[str, Any]) -> None:
    def work() -> requests.Response:
        key = pair.account().api_key
        pair.crowd(PER_MINUTE, lambda n: pair.chat(n, key))
        refused = pair.servers[1].post(path, key=key, json={"model": PAID} | body)
        assert refused.status_code == 429
        return refused

    refused = within_one(MINUTE_S, work)
    assert refused.headers["X-RateLimit-Limit"] == str(PER_MINUTE)
    assert "requests-per-min" in refused.text


# --- The store dies -------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["killed", "frozen"])
def test_without_the_store_each_gateway_counts_on_for_itself(pair: Pair, harm: str) -> None:
    def work() -> None:
        key = pair.account().api_key
        before = pair.crowd(10, lambda n: pair.chat(n, key))
        assert before == {200: 10}
        _harm(pair.valkey, harm)
        try:
            took_s: list[float] = []
            during = pair.crowd(80, lambda n: _timed(took_s, lambda: pair.chat(n, key)))
        finally:
            _mend(pair.valkey, harm)
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


def _harm(valkey: ValkeyServer, harm: str) -> None:
    valkey.stop() if harm == "killed" else valkey.pause()


def _mend(valkey: ValkeyServer, harm: str) -> None:
    valkey.start() if harm == "killed" else valkey.resume()


def _timed(took_s: list[float], ask: Callable[[], requests.Response]) -> requests.Response:
    began_at = time.monotonic()
    answer = ask()
    took_s.append(time.monotonic() - began_at)
    return answer
