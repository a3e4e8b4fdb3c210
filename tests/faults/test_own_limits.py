"""Rate limits of keys, workspaces and endpoints over HTTP. Two gateways on one shared cache count
as one, an endpoint without room is passed over, and the books stay right."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pytest
import requests

from accounts.keystring import hash_key
from gateway.limits.limits import MINUTE_S
from routing.simulator.testing import SimulatedUpstream
from tests.faults.bench import as_yaml, endpoint, model, provider
from tests.support.bed import Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer
from tests.support.windows import within_one

PER_MINUTE: Final = 6
HELLO: Final = [{"role": "user", "content": "Hello there"}]
JUDGING: Final = ["temperature", "max_tokens", "logprobs", "top_logprobs"]
DEAR: Final = {"prompt": "0.000009", "completion": "0.000009"}
MODELS: Final = [
    model(
        "acme/both",
        endpoint("small", rate_limits=[{"concurrent": 2}]),
        endpoint("large", pricing=DEAR),
    ),
    model("acme/alone", endpoint("large")),
    *(
        model(
            name,
            endpoint(
                "small",
                supported_parameters=JUDGING,
                rate_limits=[{"concurrent": 2, "requests_per_minute": 8}],
            ),
        )
        for name in ("acme/judge", "acme/jury")
    ),
]
# REDIS_TIMEOUT and as long again for everything else, on a busy machine.
PROMPT_S: Final = 2.0
_names = count()


@dataclass
class Pair:
    """Two gateways on the same stores; the nth request goes to one of them in turn."""

    servers: list[GatewayServer]
    simulator: SimulatedUpstream
    valkey: ValkeyServer

    def account(self, **key: Any) -> SeededAccount:
        account = seed_account(self.servers[0])
        if key:
            self.change_key(account, **key)
        return account

    def change_key(self, account: SeededAccount, **changes: Any) -> None:
        path, key = f"/api/v1/keys/{hash_key(account.api_key)}", account.management_key
        answer = self.servers[0].request("PATCH", path, key=key, json=changes)
        assert answer.status_code == 200, answer.text

    def chat(self, n: int, key: str, **body: Any) -> requests.Response:
        given = {"model": "acme/alone", "messages": HELLO, "max_tokens": 10} | body
        return self.servers[n % 2].chat(key=key, **given)

    def statuses(self, count: int, key: str, **body: Any) -> Counter[int]:
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda n: self.chat(n, key, **body), range(count))
            return Counter(answer.status_code for answer in answers)

    def providers(self, answers: list[requests.Response]) -> Counter[str]:
        return Counter(answer.json()["provider"] for answer in answers)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("own-limits")
    valkey = ValkeyServer(folder / "v")
    valkey.start()
    with StartGateway(stores, folder) as starter:
        providers = [provider(name, f"{simulator.url}/{name}/v1") for name in ("small", "large")]
        catalogue = as_yaml(providers, MODELS)
        now: dict[str, Any] = {"API_KEY_CACHE_SECONDS": "0"}
        servers = starter.two_with_catalogue(catalogue, redis_url=valkey.url, **now)
        yield Pair([*servers], simulator, valkey)
        servers[0].check_books()
    valkey.stop()


@pytest.fixture(autouse=True)
def quiet(simulator: SimulatedUpstream) -> None:
    simulator.clear()


def hold_back(pair: Pair, persona: str) -> str:
    """Let the persona answer only when the gate is opened; its name."""
    gate = f"own-limits-{next(_names)}"
    pair.simulator.script(persona, {"text": "Hi", "gate": gate}, repeat=True)
    return gate


def wait_finished(asked: list[Future[requests.Response]], count: int) -> list[requests.Response]:
    """The first so many answers; the others wait meanwhile."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if len(found := [each.result() for each in asked if each.done()]) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError([each.done() for each in asked])


def test_a_key_s_requests_count_together_and_a_new_limit_holds_at_once(pair: Pair) -> None:
    account = pair.account(rate_limits=[{"requests_per_minute": PER_MINUTE}])
    other = pair.account()

    def work() -> requests.Response:
        fresh = pair.account(rate_limits=[{"requests_per_minute": PER_MINUTE}])
        assert pair.statuses(3 * PER_MINUTE, fresh.api_key) == {200: PER_MINUTE, 429: 12}
        return pair.chat(0, fresh.api_key)

    refused = within_one(MINUTE_S, work)
    error = refused.json()["error"]
    assert error["message"] == "Rate limit exceeded: 6 requests per minute of this key"
    assert error["metadata"]["limit_source"] == "router_rate_limit"
    assert 1 <= int(refused.headers["Retry-After"]) <= MINUTE_S
    assert refused.headers["x-ratelimit-limit-requests"] == str(PER_MINUTE)
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    # Others are not held to it, and see no limits.
    free = pair.chat(0, other.api_key)
    assert free.status_code == 200
    assert not [name for name in free.headers if "ratelimit" in name.lower()]

    answer = pair.chat(0, account.api_key)
    assert answer.headers["x-ratelimit-limit-requests"] == str(PER_MINUTE)
    assert 0 <= int(answer.headers["x-ratelimit-remaining-requests"]) < PER_MINUTE
    body = {"model": "acme/alone", "messages": HELLO, "max_tokens": 10}
    answer = pair.servers[0].post("/api/v1/messages", key=account.api_key, json=body)
    assert answer.headers["anthropic-ratelimit-requests-limit"] == str(PER_MINUTE)
    assert answer.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
    assert "x-ratelimit-limit-requests" not in answer.headers
    pair.change_key(account, rate_limits=None)
    assert pair.statuses(2 * PER_MINUTE, account.api_key) == {200: 2 * PER_MINUTE}


def test_requests_under_way_count_over_both_until_they_end(pair: Pair) -> None:
    key = pair.account(rate_limits=[{"concurrent": 3}]).api_key
    gate = hold_back(pair, "large")
    with ThreadPoolExecutor(9) as pool:
        asked = [pool.submit(pair.chat, n, key, stream=n % 3 == 0) for n in range(9)]
        refused = wait_finished(asked, 6)
        pair.simulator.open_gate(gate)
        assert Counter(each.result().status_code for each in asked) == {200: 3, 429: 6}
    assert refused[0].json()["error"]["message"].endswith("3 concurrent requests of this key")
    assert refused[0].headers["Retry-After"] == "1"
    pair.servers[0].wait_until(lambda: pair.statuses(3, key) == {200: 3}, within_s=5)


def test_who_hangs_up_frees_the_place(pair: Pair) -> None:
    key = pair.account(rate_limits=[{"concurrent": 1}]).api_key
    pair.simulator.script("large", {"text": "slow " * 500, "options": {}}, repeat=True)
    hold_back(pair, "large")
    with pytest.raises(requests.Timeout):
        pair.servers[0].post(
            "/api/v1/chat/completions",
            key=key,
            json={"model": "acme/alone", "messages": HELLO, "stream": True},
            timeout=0.5,
            stream=True,
        )
    pair.simulator.clear()
    pair.servers[0].wait_until(lambda: pair.chat(1, key).status_code == 200, within_s=10)


def test_an_endpoint_without_room_is_passed_over_with_a_reason(pair: Pair) -> None:
    key = pair.account().api_key
    cheapest = {"model": "acme/both", "provider": {"sort": "price"}}
    gate = hold_back(pair, "small")
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(pair.chat, n, key, **cheapest) for n in range(6)]
        beside = wait_finished(asked, 4)
        pair.simulator.open_gate(gate)
        assert pair.providers([each.result() for each in asked]) == {"Small": 2, "Large": 4}

    server = pair.servers[0]
    route = server.get(f"/api/v1/generation/{beside[0].json()['id']}/route", key=key).json()["data"]
    (small,) = [each for each in route["endpoints"] if each["endpoint_id"] == "small"]
    assert (small["verdict"], small["reason"]) == ("removed", "Rate Limits")
    assert small["would_have_won"]["setting"] == "rate_limits"

    gate = hold_back(pair, "small")
    alone = cheapest | {"provider": {"only": ["small"]}}
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(pair.chat, n, key, **alone) for n in range(3)]
        (refused,) = wait_finished(asked, 1)
        pair.simulator.open_gate(gate)
    assert refused.status_code == 429
    assert refused.json()["error"]["message"].endswith("2 concurrent requests of this endpoint")


def decide(pair: Pair, key: str, count: int, model: str = "acme/judge") -> requests.Response:
    asked = [{"type": "noul", "instructions": f"Is it {n}?"} for n in range(count)]
    questions = {f"q{n}": question for n, question in enumerate(asked)}
    body = {"model": model, "state": "Ten", "questions": questions}
    return pair.servers[0].post("/api/alpha/decisions", key=key, json=body)


def test_calls_of_decisions_are_bounded_as_any_others(pair: Pair) -> None:
    key = pair.account().api_key

    def work() -> None:
        pair.simulator.clear()
        gate = f"own-limits-{next(_names)}"
        pair.simulator.verdicts("small", {"when": "Is it", "gate": gate})
        with ThreadPoolExecutor(1) as pool:
            deciding = pool.submit(decide, pair, key, 6)
            pair.simulator.wait(2, "received", timeout_s=60)
            pair.simulator.open_gate(gate)
            assert deciding.result().status_code == 200, deciding.result().text
        calls = pair.simulator.requests("small")
        assert len(calls) == 6
        for call in calls:
            moment = call["received_at"]
            under_way = [each["received_at"] <= moment < each["ended_at"] for each in calls]
            assert sum(under_way) <= 2
        # Of eight in a minute two are left.
        assert [decide(pair, key, each).status_code for each in (3, 9, 2)] == [429, 400, 200]

    within_one(MINUTE_S, work)


def test_calls_that_a_refusal_spared_are_left_to_others(pair: Pair) -> None:
    key = pair.account().api_key

    def work() -> None:
        pair.simulator.clear()
        pair.simulator.script("small", *[{"status": 400}] * 8)
        assert decide(pair, key, 8, model="acme/jury").status_code == 400
        left = 8 - len(pair.simulator.requests("small"))
        pair.simulator.clear()
        assert left >= 6
        assert decide(pair, key, left, model="acme/jury").status_code == 200
        assert decide(pair, key, 1, model="acme/jury").status_code == 429

    within_one(MINUTE_S, work)


def test_a_key_s_limit_on_a_provider_moves_it_on_and_users_and_tags_count_apart(
    pair: Pair,
) -> None:
    limits = [
        {"scope": {"provider": "small"}, "requests_per_minute": 2},
        {"scope": {"user": "*"}, "requests_per_minute": 3},
        {"scope": {"tag": "team=*"}, "requests_per_minute": 2},
    ]
    cheapest = {"model": "acme/both", "provider": {"sort": "price"}}

    def work() -> None:
        key = pair.account(rate_limits=limits).api_key
        answers = [pair.chat(n, key, user="ann", **cheapest) for n in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert pair.providers(answers[:3]) == {"Small": 2, "Large": 1}
        assert "of this key and end user" in answers[3].json()["error"]["message"]
        assert "ann" not in answers[3].json()["error"]["message"]
        assert pair.chat(0, key, user="bob", **cheapest).status_code == 200
        assert pair.statuses(4, key, **cheapest) == {200: 4}
        for team in ("blue", "red"):
            answers = [pair.chat(n, key, metadata={"team": team}) for n in range(3)]
            assert [each.status_code for each in answers] == [200, 200, 429]
        assert "of this key and tag" in answers[2].json()["error"]["message"]

    within_one(MINUTE_S, work)


def test_a_dear_model_counts_as_often_as_its_weight_says(pair: Pair) -> None:
    weights = {"acme/alone": 4, "acme/*": 2}

    def work() -> None:
        account = pair.account(rate_limits=[{"requests_per_minute": 7, "weights": weights}])
        key, remaining = account.api_key, "x-ratelimit-remaining-requests"
        shown = pair.servers[1].get("/api/v1/key", key=key).json()["data"]["rate_limits"]
        assert shown[0]["weights"] == weights
        assert pair.chat(0, key).headers[remaining] == "3"
        refused = pair.chat(1, key)
        assert refused.status_code == 429
        assert refused.json()["error"]["message"].endswith("This request counts as 4")
        assert refused.headers[remaining] == "3"
        # A fallback that answers counts as what it is.
        pair.simulator.script("large", {"status": 500})
        pair.change_key(account, rate_limits=[{"requests_per_minute": 8, "weights": weights}])
        models = ["acme/alone", "acme/both"]
        answer = pair.chat(0, key, models=models)
        assert (answer.status_code, answer.json()["model"]) == (200, "acme/both")
        assert pair.chat(1, key, model="acme/both").headers[remaining] == "0"

    within_one(MINUTE_S, work)


def test_a_workspace_s_limit_is_that_of_all_its_keys(pair: Pair) -> None:
    server = pair.servers[0]

    def work() -> None:
        account = pair.account()
        management: dict[str, Any] = {"key": account.management_key}
        other = server.post(
            "/api/v1/keys", json={"name": "b", "workspace_id": account.workspace_id}, **management
        ).json()["key"]
        limits = {"rate_limits": [{"requests_per_minute": 4}]}
        path = f"/api/v1/workspaces/{account.workspace_id}"
        changed = server.request("PATCH", path, json=limits, **management)
        assert changed.status_code == 200, changed.text
        answers = [pair.chat(n, (account.api_key, other)[n // 2 % 2]) for n in range(6)]
        assert [each.status_code for each in answers] == [200] * 4 + [429] * 2
        assert answers[5].json()["error"]["message"].endswith("of this workspace")

    within_one(MINUTE_S, work)


@pytest.mark.parametrize("harm", ["killed", "frozen"])
def test_without_the_store_each_gateway_counts_on_for_itself(pair: Pair, harm: str) -> None:
    valkey, is_killed, most = pair.valkey, harm == "killed", 4 * PER_MINUTE

    def work() -> None:
        key = pair.account(rate_limits=[{"requests_per_minute": most}]).api_key
        assert pair.statuses(10, key) == {200: 10}
        (valkey.stop if is_killed else valkey.pause)()
        try:
            with ThreadPoolExecutor(8) as pool:
                during = list(pool.map(lambda n: pair.chat(n, key), range(80)))
        finally:
            (valkey.start if is_killed else valkey.resume)()
        # Each knew of at most the ten, and of at least its own five.
        statuses = Counter(each.status_code for each in during)
        assert set(statuses) == {200, 429}
        assert 2 * (most - 10) <= statuses[200] <= 2 * (most - 5)
        in_time(max(each.elapsed.total_seconds() for each in during), PROMPT_S)

    within_one(MINUTE_S, work)
    # The store is asked again after a rest.
    pair.servers[0].wait_until(lambda: counts_together(pair), within_s=20)


def counts_together(pair: Pair) -> bool:
    """Whether both gateways count in the store again."""
    key = pair.account(rate_limits=[{"requests_per_minute": PER_MINUTE}]).api_key
    return pair.statuses(PER_MINUTE + 2, key)[429] == 2
