"""Rows 68 to 70: the responses format."""

from typing import Any

import pytest

from tests.conformance.asking import RESPONSES, ok, post, refused
from tests.conformance.desk import Desk, exact, nano
from tests.support.speakers import read_stream

STOP: list[dict[str, Any]] = [{"type": "step_count_is", "step_count": 2}]


@pytest.mark.parametrize(
    "body", [{"previous_response_id": "r1"}, {"store": True}, {"background": True}, {"input": None}]
)
def test_nothing_is_stored_here(desk: Desk, body: dict[str, Any]) -> None:
    error = refused(desk, RESPONSES, **body)

    assert error["metadata"]["error_type"] == "invalid_request"
    assert next(iter(body)) in error["message"]


@pytest.mark.parametrize(
    "body",
    [{"previous_response_id": None}, {"store": False}, {"background": False}, {"background": None}],
)
def test_what_asks_for_no_storage_is_taken(desk: Desk, body: dict[str, Any]) -> None:
    answer = ok(desk, RESPONSES, **body)

    assert (answer["object"], answer["status"]) == ("response", "completed")
    assert (answer["store"], answer["previous_response_id"]) == (False, None)
    assert not desk.the_one_sent().keys() & {"store", "previous_response_id", "background"}


def test_more_steps_than_there_may_be(desk: Desk) -> None:
    error = refused(desk, RESPONSES, max_tool_calls=31)

    assert "max_tool_calls" in error["message"]


def test_stop_conditions_make_that_number_meaningless(desk: Desk) -> None:
    answer = ok(desk, RESPONSES, max_tool_calls=31, stop_server_tools_when=STOP)

    assert answer["status"] == "completed"
    assert not desk.the_one_sent().keys() & {"max_tool_calls", "stop_server_tools_when"}


def test_the_events_of_a_stream(desk: Desk) -> None:
    streamed = read_stream(post(desk, RESPONSES, stream=True))

    assert [name for name, _ in streamed.events] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", *["response.output_text.delta"] * 5,
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    numbers = [value["sequence_number"] for value in streamed.values]
    assert numbers == list(range(len(numbers)))
    assert streamed.done
    assert streamed.response.text.endswith("data: [DONE]\n\n")
    started, last = streamed.values[0]["response"], streamed.values[-1]["response"]
    assert (started["status"], started["output"]) == ("in_progress", [])
    assert (last["status"], last["id"]) == ("completed", started["id"])
    assert last["id"].startswith("resp_")
    (item,) = last["output"]
    assert item["content"][0]["text"] == "Simulated answer to: Hello there"
    usage = last["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 5, 8)
    generation_id = streamed.response.headers["X-Generation-Id"]
    assert nano(usage["cost"]) == desk.charged_nano(generation_id) == 3_000 + 10_000


def test_the_same_answer_whole(desk: Desk) -> None:
    response = post(desk, RESPONSES)

    assert response.status_code == 200, response.text
    answer = exact(response)
    assert (answer["status"], answer["model"]) == ("completed", desk.model)
    assert answer["output_text"] == "Simulated answer to: Hello there"
    assert (answer["error"], answer["incomplete_details"]) == (None, None)
    cost = nano(answer["usage"]["cost"])
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == cost > 0
    assert desk.the_one_sent()["messages"] == [{"role": "user", "content": "Hello there"}]
