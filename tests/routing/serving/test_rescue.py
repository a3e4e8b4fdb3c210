"""The parts of a stream that is rescued. It tests what the next upstream is asked, what the caller
reads of it, and what all of it costs."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from routing.entities.entries import EndpointEntry, HouseCredential
from routing.metering.byok import fee_nano
from routing.serving.answer.relays import RescueRelay
from routing.serving.answer.stream_setup import begin_rescue, build_relay
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.upstream_call import build_upstream_request
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.legs import bound_charges
from routing.serving.request.outcome import abandoned_outcome, own_usage
from routing.serving.request.rescue import Rescue
from routing.serving.settlement.booking import _failed_outcome, stream_outcome
from routing.serving.settlement.records import settle_order
from routing.upstreams.failures import from_status
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import attempt_at, call_to, own_entry

FIRST, SECOND = endpoint("first"), endpoint("second")
CLAUDE = endpoint("claude", kind="anthropic")
DONE = b"data: [DONE]\n\n"


def chunk(finish: str | None = None, usage: Any = None, **delta: Any) -> bytes:
    value: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if usage is not None:
        value["usage"] = dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True))
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def call(call_id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {"index": 0, "id": call_id, "type": "function", "function": function}


def rescuable(*endpoints: EndpointEntry, **body: Any) -> RequestProgress:
    progress = call_to(*(endpoints or (FIRST, SECOND)), stream=True, **body)
    progress.rescue = Rescue(progress.context.chat)
    return progress


def relay_at(progress: RequestProgress, attempt: Attempt) -> RescueRelay:
    progress.attempts.append(attempt)
    relay = build_relay(progress, attempt)
    assert isinstance(relay, RescueRelay)
    return relay


def broken_off(progress: RequestProgress, *pieces: bytes, **attempt: Any) -> None:
    """The first endpoint says so much and no more."""
    first = attempt_at(FIRST, **attempt)
    relay = relay_at(progress, first)
    for piece in pieces:
        relay.feed_bytes(piece)
    assert begin_rescue(progress, first, relay)


def body_for(progress: RequestProgress, target: EndpointEntry) -> Any:
    return json.loads(build_upstream_request(progress, target).body)


def test_what_was_said_is_a_beginning_where_the_wire_has_that_and_else_instructed() -> None:
    progress = rescuable(max_tokens=100, response_format={"type": "json_object"})
    broken_off(progress, chunk(content='{"one": '), chunk(content='"tw '))

    asked = body_for(progress, SECOND)
    assert [each["role"] for each in asked["messages"]] == ["user", "assistant", "user"]
    assert asked["messages"][1]["content"] == '{"one": "tw '
    assert asked["max_tokens"] == 100 - 3
    assert "response_format" not in asked
    begun = body_for(progress, CLAUDE)["messages"]
    assert begun[-1] == {"role": "assistant", "content": [{"type": "text", "text": '{"one": "tw'}]}


def test_blanks_that_were_not_shown_are_not_told_again() -> None:
    progress = rescuable()
    broken_off(progress, chunk(content="One two \n"))
    body_for(progress, CLAUDE)
    relay = relay_at(progress, attempt_at(CLAUDE))
    assert relay._drop_blanks(" ") == ""
    assert relay._drop_blanks("\n\nthree ") == "\nthree "
    assert relay._drop_blanks(" four") == " four"


def test_an_endpoint_that_refuses_a_beginning_is_instructed_once() -> None:
    progress = rescuable()
    broken_off(progress, chunk(content="One"))
    body_for(progress, CLAUDE)
    attempt, refusal = attempt_at(CLAUDE), from_status(400, {}, b"{}")
    assert progress.rescue is not None
    assert progress.rescue.note_refusal(attempt, refusal)
    assert body_for(progress, CLAUDE)["messages"][-1]["role"] == "user"
    assert not progress.rescue.note_refusal(attempt, refusal)


def test_a_pool_of_one_credential_is_asked_again_with_it() -> None:
    pool = (HouseCredential(1, "claude", "c1", "secret", "s" * 24),)
    pooled = endpoint("claude", provider=provider("claude", kind="anthropic", credentials=pool))
    progress = rescuable(pooled)
    progress.context = progress.context._replace(deadline=math.inf)
    broken_off(progress, chunk(content="One"))
    # The hold covers it.
    progress.held_nano = 10**12
    attempts = Attempts(progress)
    asking = iter(attempts)
    prefilled = next(asking)

    attempts.record_failure(prefilled, from_status(400, {}, b"{}"))

    instructed = next(asking)
    assert instructed.house is prefilled.house is pool[0]
    assert instructed.request is not None
    assert json.loads(instructed.request.body)["messages"][-1]["role"] == "user"


@pytest.mark.parametrize("said", [{"content": "One"}, {"reasoning": "Hm"}])
def test_what_thoughts_have_used_is_taken_off_the_maximum(said: dict[str, str]) -> None:
    progress = rescuable(max_tokens=100)
    broken_off(progress, chunk(**said, usage=(50, 60)))
    assert body_for(progress, SECOND)["max_tokens"] == 100 - 60
    assert progress.context.demand.output_tokens_asked == 100 - 60


def test_calls_are_told_when_one_upstream_has_ended_well() -> None:
    progress = rescuable()
    broken_off(
        progress, chunk(content="Let me see. "), chunk(tool_calls=[call("call_lost", '{"a')])
    )
    relay = relay_at(progress, attempt_at(SECOND))

    held = relay.feed_bytes(chunk(tool_calls=[call("call_kept", "{}")]))
    told = relay.feed_bytes(chunk("tool_calls") + DONE)

    assert held == b""
    assert told.count(b"call_kept") == 1
    assert b"router_rescue" in told
    assert relay.finish_reason == "tool_calls"
    assert relay.tool_calls.good


def test_both_parts_are_charged_each_at_its_own_usage_and_credential() -> None:
    progress = rescuable()
    broken_off(progress, chunk(content="x" * 40, usage=(50, 10)), own=own_entry("first"))
    second = attempt_at(SECOND)
    relay = relay_at(progress, second)
    relay.feed_bytes(chunk(content="rest", finish="stop", usage=(70, 5)) + DONE)

    outcome = stream_outcome(progress, second, relay, cancelled=False)

    own_nano, shared_nano = 50 * 1000 + 10 * 2000, 70 * 1000 + 5 * 2000
    assert (outcome.usage.prompt_tokens, outcome.usage.completion_tokens) == (120, 15)
    assert outcome.cost.total_nano == own_nano + shared_nano
    assert (outcome.byok_nano, outcome.shared_nano) == (own_nano, shared_nano)
    assert outcome.charged_nano == shared_nano + fee_nano(own_nano)
    assert progress.rescue is not None
    assert bound_charges(progress.rescue.legs)[1] == own_nano


@pytest.mark.parametrize("leaves", [True, False])
def test_who_leaves_or_set_a_deadline_before_the_second_part_pays_for_the_first(
    leaves: bool,
) -> None:
    progress = rescuable(provider={"deadline_ms": 1})
    progress.context = progress.context._replace(deadline=0.0)
    attempts = Attempts(progress)
    broken_off(progress, chunk(content="x" * 40, usage=(50, 10)))
    [first] = progress.attempts
    attempts.record_failure(first, from_status(502, {}, b"{}"))
    error = attempts.error()
    outcome = (
        abandoned_outcome(progress) if leaves else _failed_outcome(progress, first, None, error)
    )
    assert (outcome.status, outcome.cancelled) == (200, True)
    assert outcome.charged_nano == 50 * 1000 + 10 * 2000


def test_what_caches_saved_is_summed_over_both_parts() -> None:
    # A cached token saves 900 nano-dollars at the one and 400 at the other.
    first, second = (
        endpoint(tag, pricing={"prompt": "0.000001", "completion": "0", "input_cache_read": read})
        for tag, read in (("first", "0.0000001"), ("second", "0.0000006"))
    )
    progress = rescuable(first, second)

    def read_to(where: Attempt, cached: int, finish: str | None = None) -> RescueRelay:
        relay = relay_at(progress, where)
        usage: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 5}
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
        value = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": finish}]}
        relay.feed_bytes(b"data: " + json.dumps(value | {"usage": usage}).encode() + b"\n\n")
        return relay

    broken, whole = attempt_at(first), attempt_at(second)
    assert begin_rescue(progress, broken, read_to(broken, 10))
    outcome = stream_outcome(progress, whole, read_to(whole, 20, "stop"), cancelled=False)

    detail = json.loads(settle_order(progress, outcome).record["detail"])

    assert detail["cache_saved_nano"] == 10 * 900 + 20 * 400
    assert own_usage(whole, outcome).prompt_tokens == 100


def test_nobody_goes_on_with_a_picture() -> None:
    progress = rescuable()
    first = attempt_at(FIRST)
    relay = relay_at(progress, first)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    relay.feed_bytes(chunk(images=[image]))
    assert relay.started
    assert not begin_rescue(progress, first, relay)


def test_the_record_says_when_a_part_broke_off() -> None:
    progress = rescuable()
    first, second = attempt_at(FIRST, first_token=1.05), attempt_at(SECOND)
    relay = relay_at(progress, first)
    relay.feed_bytes(chunk(content="One"))
    assert begin_rescue(progress, first, relay)
    Attempts(progress).record_failure(first, from_status(502, {}, b"{}"))
    first.ended = 2.2
    relay = relay_at(progress, second)
    relay.feed_bytes(chunk(content="two", finish="stop", usage=(70, 5)) + DONE)
    second.ended = second.first_token = 3.0

    order = settle_order(progress, stream_outcome(progress, second, relay, cancelled=False))

    broken, whole = json.loads(order.record["attempts"])
    assert (broken["latency"], broken["broke_off_ms"]) == (50, 1200)
    assert "broke_off_ms" not in whole


@pytest.mark.parametrize(
    ("said", "of_key", "wanted"),
    [
        (None, True, True),
        (None, False, False),
        (False, True, False),
        (True, False, True),
    ],
)
def test_the_request_has_the_last_word(said: bool | None, of_key: bool, wanted: bool) -> None:
    asked = call_to(FIRST, provider={} if said is None else {"hedge": said, "rescue": said})
    caller = replace(asked.context.caller, hedge=of_key, rescue=of_key)
    context = asked.context._replace(caller=caller)
    assert (context.wants_hedge, context.wants_rescue) == (wanted, wanted)
