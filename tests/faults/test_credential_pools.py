"""Several credentials for one provider. One that is refused or throttled is parked and others
serve. Each has its own spend on the books, and callers never learn of them."""

import hashlib
from collections import Counter
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.faults import bench
from tests.support.gateways import seed_account

POOLED = bench.model("pooled/model", bench.endpoint("pooled"))
APART = bench.model("apart/model", bench.endpoint("apart"))
PAIR = bench.model("paired/model", bench.endpoint("pooled"), bench.endpoint("second"))
MENDING = bench.model("mending/model", bench.endpoint("mending"))
COUNTED = bench.model("counted/model", bench.endpoint("counting"))
VECTORS = bench.model("a/vectors", bench.endpoint("pooled"), output_modalities=["embeddings"])


def name_sent(entry: dict[str, Any]) -> str:
    """The label of the credential that a request came with."""
    headers = entry["headers"]
    for label in ("one", "two", "three"):
        digest = hashlib.sha256(f"secret-{label}".encode()).hexdigest()[:16]
        if f"sha256:{digest}" in (headers.get("authorization"), headers.get("x-api-key")):
            return label
    raise AssertionError(headers)


def pool_of(simulator: Any, slug: str, **weights: int) -> dict[str, Any]:
    pool = [
        {"label": label, "credential": f"secret-{label}", "weight": weight}
        for label, weight in weights.items()
    ]
    found = bench.provider(slug, f"{simulator.url}/{slug}/v1", credentials=pool)
    del found["credential"]
    return found


@pytest.fixture(scope="module")
def pooling(gateway_with: Any, simulator: Any) -> Any:
    pools = [
        pool_of(simulator, "pooled", one=1, two=1, three=0),
        pool_of(simulator, "apart", a=1, b=1, c=1),
        pool_of(simulator, "mending", one=1, two=1),
    ]
    counting = pool_of(simulator, "counting", one=1, two=1, three=0)
    counting |= {"kind": "anthropic", "base_url": f"{simulator.url}/pooled/v1"}
    server = gateway_with(
        [POOLED, APART, PAIR, MENDING, COUNTED, VECTORS],
        providers=[*pools, counting, *bench.personas(simulator)],
        ROUTER_ENDPOINT_RETRIES="0",
        ROUTER_CREDENTIAL_PARK_SECONDS="2",
        ROUTER_RETRY_FLOOR="1000",
    )
    yield server
    server.check_books()


@pytest.fixture
def desk(pooling: Any, simulator: Any) -> Any:
    simulator.clear()
    return Desk(pooling, simulator, seed_account(pooling), "pooled/model")


def spend(desk: Desk) -> dict[str, tuple[int, float]]:
    rows = desk.server.manage("credentials")["credentials"]
    return {
        row["label"]: (row["requests_this_month"], row["usd_this_month"])
        for row in rows
        if row["provider"] == "pooled"
    }


def test_requests_go_by_weight_and_each_credential_has_its_spend(desk: Desk) -> None:
    before = spend(desk)

    paid_nano = sum(desk.paid_nano(desk.ok()) for _ in range(16))

    sent = Counter(map(name_sent, desk.upstream.requests("pooled")))
    after = spend(desk)
    rows = {label: (after[label][0] - before[label][0]) for label in after}
    assert rows == {"one": sent["one"], "two": sent["two"], "three": 0}
    assert min(sent["one"], sent["two"]) >= 1
    spent = sum(after[label][1] - before[label][1] for label in after)
    assert round(spent * 1e9) == paid_nano


@pytest.mark.parametrize(("status", "stream"), [(401, True), (429, False)])
def test_one_that_is_refused_is_parked_and_another_serves(
    desk: Desk, status: int, stream: bool
) -> None:
    refusal = {"status": status, "headers": {"Retry-After": "2"}}
    desk.upstream.script("pooled", refusal, {"text": "Well"})

    response = desk.post(stream=stream)
    assert response.status_code == 200, response.text
    record = desk.generation(response.headers["X-Generation-Id"])
    assert [each["status"] for each in record["provider_responses"]] == [status, 200]
    assert "credential" not in str(record["provider_responses"])
    parked, served = map(name_sent, desk.upstream.requests("pooled"))
    assert parked != served

    assert desk.post().status_code == 200
    assert name_sent(desk.upstream.requests("pooled")[-1]) == served
    desk.server.wait_until(lambda: is_used(desk, parked), within_s=60)


def is_used(desk: Desk, label: str) -> bool:
    """Whether a request went with this credential."""
    assert desk.post().status_code == 200
    return name_sent(desk.upstream.requests("pooled")[-1]) == label


def test_one_that_is_refused_beside_another_endpoint_gives_way_to_the_next(desk: Desk) -> None:
    desk.upstream.script("second", {"gate": "never", "status": 503})
    desk.upstream.script("pooled", {"status": 401, "headers": {"Retry-After": "2"}})
    wishes = {"order": ["second", "pooled"], "hedge_after_s": 0.2, "hedge": True}

    response = desk.post(model="paired/model", provider=wishes, stream=True)

    assert response.status_code == 200, response.text
    record = desk.generation(response.headers["X-Generation-Id"])
    assert [each["status"] for each in record["provider_responses"]] == [499, 401, 200]
    refused, served = map(name_sent, desk.upstream.requests("pooled"))
    assert refused != served
    desk.server.wait_until(lambda: is_used(desk, refused), within_s=60)


def test_who_is_refused_in_a_repair_is_parked_although_it_gave_the_first_answer(desk: Desk) -> None:
    refusal = {"status": 401, "headers": {"Retry-After": "60"}}
    desk.upstream.script("mending", {"text": '{"a": "one"}'}, refusal, {"text": '{"a": 1}'})
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    # A conversation keeps its credential.
    asked: dict[str, Any] = {"model": "mending/model", "session_id": "mended"}

    repair = [{"id": "response-healing", "repair": True}]
    answer = desk.post(plugins=repair, response_format=shape, **asked)

    assert answer.headers["X-Router-Schema"] == "repaired"
    first, refused, served = map(name_sent, desk.upstream.requests("mending"))
    assert first == refused != served
    assert desk.post(**asked).status_code == 200
    assert name_sent(desk.upstream.requests("mending")[-1]) == served


BEGUN = {"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("stream", "broken"),
    [
        (True, {"events": [{"json": BEGUN}, {"cut": "reset"}]}),
        (False, {"text": "Half of it", "finish_reason": "error"}),
    ],
    ids=["stream", "whole"],
)
def test_what_nobody_has_read_is_spent_on_the_credential_that_it_came_with(
    desk: Desk, stream: bool, broken: dict[str, Any]
) -> None:
    before = spend(desk)
    desk.upstream.script("pooled", broken)

    order = {"order": ["pooled", "second"]}
    answer = desk.post(model="paired/model", provider=order, stream=stream)

    assert answer.status_code == 200, answer.text
    record = desk.generation(answer.headers["X-Generation-Id"])
    assert [each["status"] for each in record["provider_responses"]] == [502, 200]
    used = name_sent(desk.upstream.requests("pooled")[0])
    after = spend(desk)
    assert after[used][1] > before[used][1]


def test_vectors_that_do_not_fit_are_spent_too(desk: Desk) -> None:
    before = spend(desk)
    usage = {"prompt_tokens": 1_000, "total_tokens": 1_000}
    vectors = {"data": [{"index": 0, "embedding": [0.5]}], "usage": usage}
    desk.upstream.script("pooled", {"json": vectors})
    asked = {"model": "a/vectors", "input": "Hello", "dimensions": 3}

    answer = desk.server.post("/api/v1/embeddings", key=desk.account.api_key, json=asked)

    assert answer.status_code == 400, answer.text
    used = name_sent(desk.upstream.requests("pooled")[0])
    assert spend(desk)[used][1] > before[used][1]


def test_prompts_are_counted_with_one_that_is_not_parked(desk: Desk) -> None:
    refusal = {"status": 401, "headers": {"Retry-After": "60"}}

    def count() -> list[str]:
        """The credentials that the upstream was asked to count with."""
        seen = len(desk.upstream.requests("pooled"))
        answer = desk.server.post(
            "/api/v1/messages/count_tokens",
            key=desk.account.api_key,
            json={"model": "counted/model", "messages": [{"role": "user", "content": "Hello"}]},
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["input_tokens"] >= 1
        return [name_sent(each) for each in desk.upstream.requests("pooled")[seen:]]

    desk.upstream.script("pooled", refusal)
    assert desk.post(model="counted/model").status_code == 200
    parked, served = map(name_sent, desk.upstream.requests("pooled"))
    assert parked != served
    assert count() == [served]

    desk.upstream.script("pooled", refusal)
    desk.check_error(desk.post(model="counted/model"), 502, "provider_unavailable")
    assert count() == []


def test_a_request_that_is_refused_with_two_is_not_sent_with_a_third(desk: Desk) -> None:
    refusal = {"status": 403, "json": {"error": {"message": "No permission for this model"}}}
    desk.upstream.script("apart", refusal, refusal)
    desk.check_error(desk.post(model="apart/model"), 502, "provider_unavailable")
    assert len(desk.upstream.requests("apart")) == 2


def test_with_all_parked_the_next_endpoint_is_asked_and_the_route_says_why(desk: Desk) -> None:
    desk.upstream.script("pooled", {"status": 401}, {"status": 401})
    desk.check_error(desk.post(), 502, "provider_unavailable")

    answer = desk.post(model="paired/model", provider={"order": ["pooled", "second"]})
    assert answer.status_code == 200, answer.text
    assert len(desk.upstream.requests("pooled")) == 2
    generation_id = answer.headers["X-Generation-Id"]
    route = desk.manage("GET", f"/generation/{generation_id}/route").json()["data"]
    assert "Credentials Parked" in str(route)

    # Where nothing else is left, parked ones are tried again, but not by every request.
    desk.upstream.script("pooled", {"status": 401}, {"status": 401})
    desk.check_error(desk.post(), 502, "provider_unavailable")
    assert len(desk.upstream.requests("pooled")) == 4
    alone = desk.post()
    desk.check_error(alone, 503, "provider_overloaded")
    assert int(alone.headers["Retry-After"]) >= 1
    desk.server.wait_until(lambda: desk.post().status_code == 200, within_s=60)


def test_a_loop_that_a_parked_credential_began_goes_on(desk: Desk) -> None:
    throttled = {"status": 429, "headers": {"Retry-After": "60"}}
    clock = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
    desk.upstream.script("apart", throttled, throttled, throttled, clock, {"text": "It is late."})
    assert desk.post(model="apart/model").status_code == 429

    answer = desk.post(model="apart/model", tools=[{"type": "router:datetime"}])

    assert answer.status_code == 200, answer.text
    assert "It is late." in answer.text
    generation_id = answer.headers["X-Generation-Id"]
    assert desk.generation(generation_id)["finish_reason"] == "stop"
    route = desk.manage("GET", f"/generation/{generation_id}/route").json()["data"]
    assert [each["verdict"] for each in route["endpoints"]] == ["chosen"]
