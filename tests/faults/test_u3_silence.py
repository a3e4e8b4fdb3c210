"""U3: silence before the first token and in the middle of a stream."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.faults.bench import CHEAP_NANO, DEAR, endpoint, model
from tests.faults.conftest import FIRST_BYTE_S, IDLE_S, KEEP_ALIVE_S, Open
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

REST_S = 0.5
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def statuses(desk: Desk, generation_id: str) -> list[int]:
    attempts = desk.generation(generation_id)["provider_responses"]
    return [each["status"] for each in attempts]


@pytest.mark.parametrize("stream", [False, True])
def test_no_headers_in_time_and_the_next_endpoint_answers(desk: Desk, stream: bool) -> None:
    mode = "stream" if stream else "whole"
    started = time.monotonic()
    if stream:
        told: Any = desk.stream(model=f"pair/hang.{mode}").chunks[-1]
    else:
        told = desk.ok(model=f"pair/hang.{mode}")
    elapsed_s = time.monotonic() - started

    in_time(elapsed_s, FIRST_BYTE_S * 1.1 + REST_S, at_least_s=FIRST_BYTE_S)
    assert told["provider"] == "Second"
    assert statuses(desk, told["id"]) == [524, 200]
    assert desk.paid_nano(told) > 0
    assert desk.upstream.wait(1, "disconnected")["closed_by"] == "client"


def test_no_headers_at_all_is_an_honest_status_even_for_a_stream(desk: Desk) -> None:
    started = time.monotonic()

    response = desk.post(model="alone/hang.stream", stream=True)

    in_time(time.monotonic() - started, FIRST_BYTE_S * 1.1 + REST_S)
    desk.told(response, 524, "timeout")
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def test_silence_after_the_headers_falls_back_behind_a_committed_stream(desk: Desk) -> None:
    started = time.monotonic()

    stream = desk.stream(model="pair/headers-then-silence.stream")

    in_time(time.monotonic() - started, IDLE_S * 1.1 + REST_S)
    assert {chunk["provider"] for chunk in stream.chunks} == {"Second"}
    assert stream.blocks[-1] == "data: [DONE]"
    # The stream was committed 0.2 s after the headers, so comments fill the rest of the wait.
    assert stream.comments >= (IDLE_S - 0.2) / KEEP_ALIVE_S / 2
    assert stream.blocks[0] == ": ROUTER PROCESSING"
    assert statuses(desk, stream.chunks[0]["id"]) == [524, 200]
    assert desk.paid_nano(stream.chunks[-1]) > 0


def test_silence_after_the_headers_of_the_only_endpoint(desk: Desk) -> None:
    stream = desk.stream(model="alone/headers-then-silence.stream")

    (chunk,) = stream.chunks
    assert chunk["error"]["code"] == 524
    assert chunk["error"]["metadata"]["error_type"] == "timeout"
    assert chunk["choices"][0]["finish_reason"] == "error"
    assert stream.blocks[-1].startswith("data: {")
    assert desk.charged_nano(chunk["id"]) == 0


@pytest.mark.parametrize("alone", [True, False])
def test_silence_mid_stream_ends_it_with_an_error_and_no_second_try(
    desk: Desk, orm_of: OrmOf, alone: bool
) -> None:
    model_id = f"{'alone' if alone else 'pair'}/silence-mid-stream.stream"
    started = time.monotonic()

    stream = desk.stream(model=model_id)

    elapsed_s = time.monotonic() - started
    in_time(elapsed_s, IDLE_S * 1.1 + REST_S, at_least_s=IDLE_S)
    assert stream.text
    last = stream.chunks[-1]
    assert (last["error"]["code"], last["error"]["metadata"]["error_type"]) == (524, "timeout")
    assert "data: [DONE]" not in stream.blocks
    assert stream.comments >= IDLE_S / KEEP_ALIVE_S / 2
    assert len(desk.upstream.requests()) == 1
    assert desk.charged_nano(last["id"]) == 0
    assert upstream_cost_nano(desk, orm_of, last["id"]) == expected_nano(desk, stream.text)


def upstream_cost_nano(desk: Desk, orm_of: OrmOf, generation_id: str) -> int:
    """What the provider is expected to bill, for the operator's eyes only."""
    from routing.metering.models import Generation

    with orm_of(desk.server):
        return Generation.objects.get(pk=generation_id).upstream_cost_nano


def expected_nano(desk: Desk, produced: str) -> int:
    prompt = "".join(message["content"] for message in desk.sent("first")[0]["messages"])
    return len(prompt) // 4 * CHEAP_NANO[0] + len(produced) // 4 * CHEAP_NANO[1]


def test_comments_come_while_the_model_thinks(desk: Desk) -> None:
    desk.upstream.script("first", {"events": [{"pause_s": 0.6}, {"text": "Hm."}, {"cut": "close"}]})

    stream = desk.stream()

    before_content = stream.blocks[: stream.blocks.index(first_data(stream.blocks))]
    assert len(before_content) >= 2
    assert set(before_content) == {": ROUTER PROCESSING"}


def first_data(blocks: list[str]) -> str:
    return next(block for block in blocks if block.startswith("data: "))


def test_silence_in_a_whole_answer_goes_to_the_next_endpoint(desk: Desk) -> None:
    answer = desk.ok(model="pair/headers-then-silence.whole")

    assert answer["provider"] == "Second"
    assert statuses(desk, answer["id"]) == [524, 200]
    assert desk.paid_nano(answer) > 0


@pytest.mark.parametrize("stream", [False, True])
def test_the_total_deadline_travels_through_every_attempt(desk_on: Open, stream: bool) -> None:
    mine = desk_on(TOTAL_MODELS, ROUTER_TOTAL_TIMEOUT="0.6")
    started = time.monotonic()

    response = mine.post(stream=stream)

    in_time(time.monotonic() - started, 0.6 * 1.1 + REST_S)
    mine.told(response, 408, "timeout")
    assert mine.charged_nano(response.headers["X-Generation-Id"]) == 0


TOTAL_MODELS = [
    model("slow/one", endpoint("first", "sim/hang"), endpoint("second", "sim/hang", pricing=DEAR))
]
