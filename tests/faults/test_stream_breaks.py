"""Streams that break: content first, then one error chunk, then nothing."""

from typing import Any

import pytest

from tests.conformance.desk import Desk, Streamed
from tests.faults.bench import CHEAP, DEAR, endpoint, model
from tests.faults.conftest import Open
from tests.faults.test_u3_silence import OrmOf, upstream_cost_nano
from tests.support.gateways import seed_account

pytestmark = pytest.mark.thorough

BREAKS = ["die-after-first", "die-mid-stream", "sse-error-mid", "sse-garbage", "error-finish"]


def broken_end(stream: Streamed, code: int) -> Any:
    """The error chunk that ends a stream; nothing may follow it, not even `[DONE]`."""
    *content, last = stream.chunks
    assert stream.blocks[-1].startswith("data: {")
    assert all("error" not in chunk and "usage" not in chunk for chunk in content)
    assert last["error"]["code"] == code
    assert "usage" not in last
    assert last["choices"] == [
        {
            "index": 0,
            "delta": {"content": ""},
            "finish_reason": "error",
            "native_finish_reason": None,
        }
    ]
    return last


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("fault", BREAKS)
def test_after_content_there_is_no_second_try(desk: Desk, fault: str, pair: bool) -> None:
    stream = desk.stream(model=f"{'pair' if pair else 'alone'}/{fault}.stream")

    last = broken_end(stream, 502)
    assert stream.text, "what the upstream said before it broke is not lost"
    assert last["provider"] == "First"
    assert len(desk.upstream.requests()) == 1
    assert desk.charged_nano(last["id"]) == 0


def test_content_and_failure_in_one_write_keep_their_order(desk: Desk) -> None:
    content = 'data: {"choices":[{"index":0,"delta":{"content":"Said before."}}]}\n\n'
    failure = 'data: {"error":{"code":429,"message":"no more"}}\n\n'
    desk.upstream.script("first", {"events": [content + failure + content]})

    stream = desk.stream()

    broken_end(stream, 429)
    assert stream.text == "Said before."


def test_what_an_upstream_bills_of_its_failure_is_on_record(desk: Desk, orm_of: OrmOf) -> None:
    """Nobody pays it here, but the operator will."""
    usage = {"prompt_tokens": 43, "completion_tokens": 10, "total_tokens": 53}
    failure = {"error": {"code": 400, "message": "Token limit reached"}, "choices": []}
    desk.upstream.script(
        "first", {"events": [{"text": "Said"}, {"json": {**failure, "usage": usage}}]}
    )

    last = broken_end(desk.stream(model="plain/first"), 400)

    assert desk.charged_nano(last["id"]) == 0
    assert upstream_cost_nano(desk, orm_of, last["id"]) == 43 * 1_000 + 10 * 2_000


def test_what_a_model_wrote_and_its_provider_refuses_is_told(desk: Desk) -> None:
    """Groq says 400 within a stream of status 200."""
    refused = {"code": "tool_use_failed", "status_code": 400, "failed_generation": "{}"}
    failure = {"json": {"error": {"message": "No call.", **refused}}}
    desk.upstream.script("first", {"events": [failure]}, {"events": [{"text": "Hm."}, failure]})

    early, late = desk.post(stream=True), desk.stream()

    assert early.status_code == 400
    for error in (early.json()["error"], broken_end(late, 400)["error"]):
        assert (error["code"], error["message"]) == (400, "No call.")
        assert error["metadata"]["failed_generation"] == "{}"
    assert len(desk.upstream.requests()) == 2, "the request is refused, not the endpoint"


@pytest.mark.parametrize("code", [502, "429", "rate_limit", None, 200, 99999, True])
def test_an_error_object_before_content_is_an_honest_status(desk: Desk, code: Any) -> None:
    error = {"message": "Simulated.", "code": code}
    desk.upstream.script("first", {"events": [{"json": {"error": error}}]})

    response = desk.post(stream=True)

    assert response.status_code == (429 if code == "429" else 502)
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def test_a_role_alone_is_no_content(desk: Desk) -> None:
    role = {"json": {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}}
    desk.upstream.script("first", {"events": [role, {"pause_s": 0.3}, {"cut": "reset"}]})

    stream = desk.stream(model="plain/first", models=["plain/second"])

    assert {chunk["provider"] for chunk in stream.chunks} == {"Second"}
    assert {chunk["model"] for chunk in stream.chunks} == {"plain/second"}
    assert stream.blocks[-1] == "data: [DONE]"
    assert desk.paid_nano(stream.chunks[-1]) > 0


@pytest.mark.parametrize("stream", [False, True])
def test_the_error_chunk_carries_metadata_for_those_who_asked(desk: Desk, stream: bool) -> None:
    desk.upstream.script("first", {"events": [{"text": "Hello."}, {"cut": "close"}]})

    told = desk.stream(headers={"X-Router-Metadata": "enabled"} if stream else {})

    last = broken_end(told, 502)
    assert ("router_metadata" in last) is stream
    if stream:
        assert last["router_metadata"]["attempts"][0]["provider"] == "First"


@pytest.mark.parametrize("stream", [False, True])
def test_a_dearer_fallback_raises_the_hold_first(desk_on: Open, stream: bool) -> None:
    cheap, dear = endpoint("first", "sim/503"), endpoint("second", pricing=DEAR)
    mine = desk_on([model("top/up", cheap, dear)])
    enough = mine.post(max_tokens=100, stream=stream)
    spent_nano = mine.charged_nano(enough.headers["X-Generation-Id"])
    assert spent_nano > 0
    poor = Desk(mine.server, mine.upstream, seed_account(mine.server, credits_usd="0.1"), "top/up")
    mine.upstream.clear()

    refused = poor.post(max_tokens=100, stream=stream)

    error = poor.told(refused, 402, "payment_required")
    assert error["metadata"]["limit_source"] == "router_credits"
    assert error["message"].startswith("This request requires more credits")
    assert len(poor.sent("first")) == 1
    assert poor.sent("second") == []
    assert poor.charged_nano(refused.headers["X-Generation-Id"]) == 0
    assert poor.server.manage("audit_ledger")["open_holds"] == 0


def test_an_unaffordable_endpoint_is_skipped_for_one_that_fits(desk_on: Open) -> None:
    cheap = {"prompt": CHEAP["prompt"], "completion": "0.0000021"}
    mine = desk_on(
        [
            model("skip/one", endpoint("first", "sim/503"), endpoint("second", pricing=DEAR)),
            model("skip/two", endpoint("third", pricing=cheap)),
        ]
    )
    poor = Desk(mine.server, mine.upstream, seed_account(mine.server, credits_usd="0.1"))

    answer = poor.ok(model="skip/one", models=["skip/two"], max_tokens=100)

    assert answer["provider"] == "Third"
    assert poor.sent("second") == []
    assert poor.paid_nano(answer) > 0
