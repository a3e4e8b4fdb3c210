"""U5: answers whose body is not what it should be, and usage that cannot be true.

A bad body is a failed attempt: the next endpoint answers, and in the end it is a 502. A bad or
absent usage is no failure: the estimate is charged. Nobody ever sees a traceback or a page.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from tests.conformance.desk import CHAT, Desk, exact, nano
from tests.faults.bench import CHEAP_NANO, MODES
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
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
]
BAD_STREAMS = ["truncated-json", "null-body", "empty-body", "html", "wrong-content-type"]
BAD_STREAMS += ["sse-error-inside", "sse-not-objects", "empty-choices"]
USAGE_FAULTS = ["missing-usage", "usage-negative", "usage-absurd", "usage-string"]
# These never end by themselves; what ends them is the byte caps' business, not the reader's.
ENDLESS = {"endless-headers", "endless-body", "drip", "drip-headers", "gzip-bomb", "slow-stream"}
FINE = {200, 400, 403, 404, 413, 422, 429, 502, 503, 524, 529}


def estimate(characters: int) -> int:
    return max(1, characters // 4) if characters else 0


def estimated_nano(desk: Desk, answer: str, persona: str = "first") -> int:
    prompt = sum(len(message["content"]) for message in desk.sent(persona)[-1]["messages"])
    return CHEAP_NANO[0] * estimate(prompt) + CHEAP_NANO[1] * estimate(len(answer))


@pytest.mark.parametrize(
    ("fault", "mode"),
    [(f, "whole") for f in BAD_WHOLE] + [(f, "stream") for f in BAD_STREAMS],
)
def test_a_bad_body_goes_to_the_next_endpoint_and_ends_as_502(
    desk: Desk, fault: str, mode: str
) -> None:
    stream = mode == "stream"
    with_next = desk.post(model=f"pair/{fault}.{mode}", stream=stream)
    alone = desk.post(model=f"alone/{fault}.{mode}", stream=stream)

    assert with_next.status_code == 200
    assert '"provider":"Second"' in with_next.text
    assert '"provider":"First"' not in with_next.text
    assert desk.ledger_nano(with_next.headers["X-Generation-Id"]) > 0
    error = error_told(alone)
    assert (error["code"], error["metadata"]["error_type"]) == (502, "provider_unavailable")
    assert error["message"] == "Provider returned error"
    assert desk.ledger_nano(alone.headers["X-Generation-Id"]) == 0


def error_told(response: requests.Response) -> Any:
    """The error of a JSON refusal, or of the only chunk of a committed stream."""
    if response.headers["Content-Type"] == "application/json":
        return response.json()["error"]
    (event,) = (block for block in response.text.split("\n\n") if block.startswith("data: "))
    return json.loads(event.removeprefix("data: "))["error"]


@pytest.mark.grid
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", USAGE_FAULTS)
def test_where_the_usage_is_a_lie_the_estimate_is_charged(
    desk: Desk, fault: str, mode: str
) -> None:
    model_id = f"alone/{fault}.{mode}"
    if mode == "whole":
        told = desk.ok(model=model_id)
        text = told["choices"][0]["message"]["content"]
    else:
        stream = desk.stream(model=model_id)
        told, text = stream.chunks[-1], stream.text

    assert desk.paid_nano(told) == estimated_nano(desk, text) > 0
    assert told["usage"]["completion_tokens"] == estimate(len(text))


USAGES: list[Any] = [
    None,
    [],
    "12",
    {},
    {"prompt_tokens": True, "completion_tokens": False},
    {"prompt_tokens": 1.5, "completion_tokens": 2},
    {"prompt_tokens": 10**12, "completion_tokens": 1},
    {"prompt_tokens": 3, "completion_tokens": 128_001},
    {"prompt_tokens": -1, "completion_tokens": 2},
    {"prompt_tokens": {"a": 1}, "completion_tokens": [2]},
    {"prompt_tokens": 10**30, "completion_tokens": 10**30},
]


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("usage", USAGES, ids=[json.dumps(usage)[:40] for usage in USAGES])
def test_usage_of_any_shape_costs_what_the_text_does(desk: Desk, usage: Any, stream: bool) -> None:
    text = "A text of some length, to be counted."
    desk.upstream.script("first", {"text": text, "usage": usage})

    told = desk.stream().chunks[-1] if stream else desk.ok()

    assert desk.paid_nano(told) == estimated_nano(desk, text)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_was_counted_alone_is_believed(desk: Desk, stream: bool) -> None:
    """Upstreams that tell of the prompt at the start may never come to tell of the rest."""
    text = "A text of some length, to be counted."
    desk.upstream.script("first", {"text": text, "usage": {"prompt_tokens": 3}})

    told = desk.stream().chunks[-1] if stream else desk.ok()

    assert told["usage"]["prompt_tokens"] == 3
    assert desk.paid_nano(told) == 3 * CHEAP_NANO[0] + estimate(len(text)) * CHEAP_NANO[1]


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "usage",
    [{"completion_tokens": 3}, {"prompt_tokens": None, "completion_tokens": 3}],
    ids=["alone", "beside null"],
)
def test_a_completion_that_was_counted_alone_is_believed(
    desk: Desk, usage: dict[str, Any], stream: bool
) -> None:
    """A stream's beginning, with the count of the prompt, may be lost."""
    text = "A text of some length, to be counted."
    desk.upstream.script("first", {"text": text, "usage": usage})

    told = desk.stream().chunks[-1] if stream else desk.ok()

    assert told["usage"]["completion_tokens"] == 3
    assert desk.paid_nano(told) == estimated_nano(desk, "") + 3 * CHEAP_NANO[1]


def test_details_that_do_not_fit_their_count_are_dropped(desk: Desk) -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 11},
        "completion_tokens_details": {"reasoning_tokens": -4, "image_tokens": "many"},
    }
    desk.upstream.script("first", {"text": "Hi", "usage": usage})

    told = desk.ok()

    assert told["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert told["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
    assert desk.paid_nano(told) == 10 * CHEAP_NANO[0] + 20 * CHEAP_NANO[1]


@pytest.mark.parametrize("mode", MODES)
def test_more_tokens_than_were_allowed_are_charged_and_flagged(
    desk: Desk, orm_of: OrmOf, mode: str
) -> None:
    from routing.metering.models import Generation

    model_id = f"alone/over-limit.{mode}"
    body: dict[str, Any] = {"model": model_id, "max_tokens": 100}
    told = desk.ok(**body) if mode == "whole" else desk.stream(**body).chunks[-1]

    assert told["usage"]["completion_tokens"] == 210
    assert desk.paid_nano(told) == nano(told["usage"]["cost"])
    with orm_of(desk.server):
        assert Generation.objects.get(pk=told["id"]).overrun is True


@pytest.mark.parametrize("mode", MODES)
def test_nothing_produced_and_no_finish_costs_nothing(desk: Desk, mode: str) -> None:
    response = desk.post(model=f"alone/zero-completion.{mode}", stream=mode == "stream")

    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


MESSAGE = '{"role":"assistant","content":"Hi"}'
GOOD = f'{{"choices":[{{"message":{MESSAGE},"finish_reason":"stop"}}]}}'
ODD_BODIES = {
    "choices an object": '{"choices":{"0":1}}',
    "choices of null": '{"choices":[null]}',
    "message null": '{"choices":[{"message":null,"finish_reason":"stop"}]}',
    "message a string": '{"choices":[{"message":"Hi","finish_reason":"stop"}]}',
    "content a number": GOOD.replace('"Hi"', "5"),
    "content a list": GOOD.replace('"Hi"', '[{"type":"text","text":"Hi"}]'),
    "content an object": GOOD.replace('"Hi"', '{"a":1}'),
    "finish a number": GOOD.replace('"stop"', "7"),
    "finish an object": GOOD.replace('"stop"', '{"a":1}'),
    "finish of 300 characters": GOOD.replace('"stop"', f'"{"x" * 300}"'),
    "finish with NUL": GOOD.replace('"stop"', '"st\\u0000op"'),
    "id with NUL": f'{{"id":"a\\u0000b",{GOOD[1:]}',
    "id a number": f'{{"id":5,{GOOD[1:]}',
    "id of 1000 characters": f'{{"id":"{"i" * 1000}",{GOOD[1:]}',
    "tier with NUL": f'{{"service_tier":"d\\u0000",{GOOD[1:]}',
    "tier an object": f'{{"service_tier":{{"a":1}},{GOOD[1:]}',
    "tool calls a string": GOOD.replace('"content":"Hi"', '"tool_calls":"x"'),
    "tool calls a number": GOOD.replace('"content":"Hi"', '"tool_calls":5'),
    "tool calls of numbers": GOOD.replace('"content":"Hi"', '"tool_calls":[1,2]'),
    "tool calls an object": GOOD.replace('"content":"Hi"', '"tool_calls":{"a":1}'),
    "tool call without a function": GOOD.replace('"content":"Hi"', '"tool_calls":[{"id":5}]'),
    "tool call of odd parts": GOOD.replace(
        '"content":"Hi"', '"tool_calls":[{"function":{"name":5,"arguments":{"a":1}}}]'
    ),
    "reasoning a list": GOOD.replace('"content":"Hi"', '"reasoning":[1],"reasoning_details":5'),
    "a lone surrogate": GOOD.replace('"Hi"', '"\\ud800"'),
    "an emoji in halves": GOOD.replace('"Hi"', '"\\ud83e\\udd8a"'),
    "duplicate keys": GOOD.replace('"content":"Hi"', '"content":"No","content":"Hi"'),
    "NaN": f'{{"created":NaN,{GOOD[1:]}',
    "1e999": f'{{"created":1e999,{GOOD[1:]}',
    "an integer of 5,000 digits": f'{{"created":{"9" * 5000},{GOOD[1:]}',
    "usage of 5,000 digits": f'{{"usage":{{"prompt_tokens":{"9" * 5000}}},{GOOD[1:]}',
    "deep nesting": f'{{"extra":{"[" * 100_000}{"]" * 100_000},{GOOD[1:]}',
    "deep logprobs": GOOD.replace(
        '"finish_reason"', f'"logprobs":{"[" * 200}{"]" * 200},"finish_reason"'
    ),
    "logprobs a string": GOOD.replace('"finish_reason"', '"logprobs":"x","finish_reason"'),
    "an error beside choices": f'{{"error":{{"code":"x","message":5}},{GOOD[1:]}',
    "an error of odd parts": '{"error":[1,2]}',
    "an error code beyond all": '{"error":{"code":10000000000000000000000,"message":"m"}}',
    "an array": "[1]",
    "a string": '"Hi"',
    "a byte-order mark": "\ufeff" + GOOD,
}


@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES.keys())
def test_no_answer_is_odd_enough_for_a_500(desk: Desk, body: str) -> None:
    step = {"status": 200, "body": body, "content_type": "application/json"}
    desk.upstream.script("first", step)

    response = desk.post()

    assert response.status_code in {200, 502}, response.text
    check_manners(response)
    generation_id = response.headers["X-Generation-Id"]
    charged_nano = desk.charged_nano(generation_id)
    if response.status_code == 502:
        assert charged_nano == 0
    else:
        assert nano(exact(response)["usage"]["cost"]) == charged_nano


@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES.keys())
def test_no_event_is_odd_enough_for_a_500(desk: Desk, body: str) -> None:
    event = body.replace('"message"', '"delta"')
    desk.upstream.script("first", {"events": [f"data: {event}\n\n", "[DONE]"]})

    response = desk.post(stream=True)

    assert response.status_code in {200, 502}, response.text
    assert '"code":500' not in response.text
    check_manners(response)
    desk.charged_nano(response.headers["X-Generation-Id"])


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


def test_an_answer_in_latin_1_is_not_guessed_at(desk: Desk) -> None:
    body = {"model": "alone/bad-utf8.whole", "messages": [{"role": "user", "content": "x"}]}

    response = desk.server.post(CHAT, key=desk.account.api_key, json=body)

    assert response.status_code == 502
