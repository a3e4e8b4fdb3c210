"""U5: answers whose body is not what it should be. A bad or absent usage is no failure: the
estimate is charged. Nobody ever sees a traceback or a page. Where a bad body leads is
`test_fallback_classes`'s.

U3: silence before the first token and in the middle of a stream, and streams that break: content
first, then one error chunk, then nothing.
"""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from tests.conformance.desk import Desk, Streamed, exact, nano
from tests.faults.bench import CHEAP_NANO, DEAR, MODES, endpoint, model
from tests.faults.conftest import IDLE_S, KEEP_ALIVE_S, Open
from tests.faults.desks import attempts, read_answer
from tests.support.gateways import seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough
TEXT = "A text of some length, to be counted."
# These never end by themselves; what ends them is the byte caps' business, not the reader's.
ENDLESS = {"endless-headers", "endless-body", "drip", "drip-headers", "gzip-bomb", "slow-stream"}
FINE = {200, 400, 403, 404, 413, 422, 429, 502, 503, 524, 529}


def estimate(text: str) -> int:
    return max(1, len(text) // 4)


def prompt_nano(desk: Desk) -> int:
    """What the prompt costs by the estimator."""
    messages = desk.list_sent_bodies("first")[-1]["messages"]
    return estimate("".join(message["content"] for message in messages)) * CHEAP_NANO[0]


@pytest.mark.parametrize(
    ("usage", "stream"),
    [(None, True), ({"prompt_tokens": 10**12, "completion_tokens": 1}, False)],
    ids=["absent", "impossible"],
)
def test_usage_of_any_shape_costs_what_the_text_does(desk: Desk, usage: Any, stream: bool) -> None:
    """Which reports are believed is `test_usage`'s."""
    desk.upstream.script("first", {"text": TEXT, "usage": usage})

    said = read_answer(desk, stream=stream)

    assert said["usage"]["completion_tokens"] == estimate(TEXT)
    assert desk.paid_nano(said) == prompt_nano(desk) + estimate(TEXT) * CHEAP_NANO[1]


MESSAGE = '{"role":"assistant","content":"Hi"}'
GOOD = f'{{"choices":[{{"message":{MESSAGE},"finish_reason":"stop"}}]}}'
# Which values break no reader is `test_readers`'; these go into tables, headers and logs.
ODD_BODIES = {
    "message null": '{"choices":[{"message":null,"finish_reason":"stop"}]}',
    "finish of 300 characters": GOOD.replace('"stop"', f'"{"x" * 300}"'),
    "finish with NUL": GOOD.replace('"stop"', '"st\\u0000op"'),
    "id with NUL": f'{{"id":"a\\u0000b",{GOOD[1:]}',
    "id of 1000 characters": f'{{"id":"{"i" * 1000}",{GOOD[1:]}',
    "tier with NUL": f'{{"service_tier":"d\\u0000",{GOOD[1:]}',
    "a lone surrogate": GOOD.replace('"Hi"', '"\\ud800"'),
    "an integer of 5,000 digits": f'{{"created":{"9" * 5000},{GOOD[1:]}',
    "deep nesting": f'{{"extra":{"[" * 100_000}{"]" * 100_000},{GOOD[1:]}',
}


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES.keys())
def test_no_answer_is_odd_enough_for_a_500(desk: Desk, body: str, stream: bool) -> None:
    step: dict[str, Any] = {"status": 200, "body": body, "content_type": "application/json"}
    if stream:
        event = body.replace('"message"', '"delta"')
        step = {"events": [f"data: {event}\n\n", "[DONE]"]}
    desk.upstream.script("first", step)

    response = desk.post(stream=stream)

    assert response.status_code in {200, 502}, response.text
    assert '"code":500' not in response.text
    check_manners(response)
    charged_nano = desk.charged_nano(response.headers["X-Generation-Id"])
    if response.status_code == 502:
        assert charged_nano == 0
    elif not stream:
        assert nano(exact(response)["usage"]["cost"]) == charged_nano


def all_faults() -> list[str]:
    from routing.simulator.faults import FAULTS

    return sorted(FAULTS.keys() - ENDLESS)


@pytest.mark.grid
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", all_faults())
def test_every_fault_ends_in_json_or_events(desk: Desk, fault: str, mode: str) -> None:
    for model_id in (f"alone/{fault}.{mode}", f"pair/{fault}.{mode}"):
        response = desk.post(model=model_id, stream=mode == "stream")

        assert response.status_code in FINE
        check_manners(response)
        desk.charged_nano(response.headers["X-Generation-Id"])


def check_manners(response: requests.Response) -> None:
    """JSON or well-formed events; nothing of the inside shows."""
    text = response.text
    for inside in ("Traceback", 'File "', "first-secret", "second-secret", "routing/"):
        assert inside not in text
    if response.headers["Content-Type"] == "application/json":
        json.loads(text)
        return
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert text.endswith("\n\n")
    for block in text[:-2].split("\n\n"):
        if block not in ("data: [DONE]", ": ROUTER PROCESSING"):
            assert block.startswith("data: {"), block[:200]
            json.loads(block.removeprefix("data: "))


# --- U3: silence ----------------------------------------------------------------------------------

REST_S = 0.5
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
BREAKS = ["die-after-first", "die-mid-stream", "sse-error-mid", "sse-garbage", "error-finish"]


def broken_end(stream: Streamed, code: int) -> Any:
    """The error chunk that ends a stream; nothing may follow it, not even `[DONE]`."""
    *content, last = stream.chunks
    assert stream.blocks[-1].startswith("data: {")
    assert all("error" not in chunk and "usage" not in chunk for chunk in content)
    assert last["error"]["code"] == code
    assert "usage" not in last
    end = {"finish_reason": "error", "native_finish_reason": None}
    assert last["choices"] == [{"index": 0, "delta": {"content": ""}, **end}]
    return last


def upstream_cost_nano(desk: Desk, orm_of: OrmOf, generation_id: str) -> int:
    """What the provider is expected to bill, for the operator's eyes only."""
    from routing.metering.models import Generation

    with orm_of(desk.server):
        return Generation.objects.get(pk=generation_id).upstream_cost_nano


def test_silence_after_the_headers_falls_back_behind_a_committed_stream(desk: Desk) -> None:
    began = time.monotonic()

    stream = desk.stream(model="pair/headers-then-silence.stream")

    in_time(time.monotonic() - began, IDLE_S * 1.1 + REST_S)
    assert {chunk["provider"] for chunk in stream.chunks} == {"Second"}
    assert stream.blocks[-1] == "data: [DONE]"
    # The stream was committed 0.2 s after the headers, so comments fill the rest of the wait.
    assert stream.comments >= (IDLE_S - 0.2) / KEEP_ALIVE_S / 2
    assert stream.blocks[0] == ": ROUTER PROCESSING"
    assert attempts(desk, stream.chunks[0]["id"]) == [("First", 524), ("Second", 200)]
    assert desk.paid_nano(stream.chunks[-1]) > 0


def test_silence_mid_stream_ends_it_with_an_error_and_no_second_try(
    desk: Desk, orm_of: OrmOf
) -> None:
    began = time.monotonic()

    stream = desk.stream(model="pair/silence-mid-stream.stream")

    in_time(time.monotonic() - began, IDLE_S * 1.1 + REST_S, at_least_s=IDLE_S)
    last = broken_end(stream, 524)
    assert last["error"]["metadata"]["error_type"] == "timeout"
    assert stream.comments >= IDLE_S / KEEP_ALIVE_S / 2
    (sent,) = desk.list_sent_bodies("first")
    assert len(desk.upstream.requests()) == 1
    assert desk.charged_nano(last["id"]) == 0
    prompt = "".join(message["content"] for message in sent["messages"])
    expected_nano = len(prompt) // 4 * CHEAP_NANO[0] + len(stream.text) // 4 * CHEAP_NANO[1]
    assert upstream_cost_nano(desk, orm_of, last["id"]) == expected_nano > 0


# --- Breaks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", BREAKS)
def test_after_content_there_is_no_second_try(desk: Desk, fault: str) -> None:
    stream = desk.stream(model=f"pair/{fault}.stream")

    last = broken_end(stream, 502)
    assert stream.text, "what the upstream said before it broke is not lost"
    assert last["provider"] == "First"
    assert "router_metadata" not in last
    assert len(desk.upstream.requests()) == 1
    assert desk.charged_nano(last["id"]) == 0


def test_a_dearer_fallback_raises_the_hold_first(desk_of: Open) -> None:
    """Who cannot pay for it is told, and another model is tried only where it fits."""
    failing = [endpoint("first", "sim/503"), endpoint("second", pricing=DEAR)]
    nearly = {"prompt": "0.000001", "completion": "0.0000021"}
    fitting = model("skip/two", endpoint("third", pricing=nearly))
    mine = desk_of([model("top/up", *failing), fitting])
    enough = mine.post(max_tokens=100, stream=True)
    assert mine.charged_nano(enough.headers["X-Generation-Id"]) > 0
    poor = Desk(mine.server, mine.upstream, seed_account(mine.server, credits_usd="0.1"), "top/up")
    mine.upstream.clear()

    refused = poor.post(max_tokens=100, stream=True)

    error = poor.check_error(refused, 402, "payment_required")
    assert error["metadata"]["limit_source"] == "router_credits"
    assert error["message"].startswith("This request requires more credits")
    assert len(poor.list_sent_bodies("first")) == 1
    assert poor.charged_nano(refused.headers["X-Generation-Id"]) == 0
    assert poor.server.manage("audit_ledger")["open_holds"] == 0
    answer = poor.ok(models=["skip/two"], max_tokens=100)
    assert answer["provider"] == "Third"
    assert poor.list_sent_bodies("second") == []
    assert poor.paid_nano(answer) > 0
