"""Tools that hang, raise, say too much or take their time; holds that cannot be raised; callers who
leave while a tool is run."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.conformance.desk import Desk, Serve, nano
from tests.conformance.money import book_usage
from tests.conformance.odd_tools import BACKENDS, FEE_NANO
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
PERSONA = "gamma"
PROMPT_NANO, COMPLETION_NANO = 1_000, 2_000
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
SEARCH, FETCH, BASH, FILES = (
    {"type": f"router:{name}"} for name in ("web_search", "web_fetch", "bash", "files")
)


@pytest.fixture(scope="module")
def desks(serve: Serve) -> Callable[[], Desk]:
    return serve(
        ROUTER_TOOL_BACKENDS=BACKENDS,
        ROUTER_TOOL_TIMEOUT="1",
        ROUTER_TOOL_RESULT_CHARS="1000",
        ROUTER_KEEPALIVE_SECONDS="0.1",
        ROUTER_RESPONSE_CACHE_ENABLED="true",
    )


@pytest.fixture
def desk(desks: Callable[[], Desk]) -> Desk:
    desk = desks()
    desk.model = "acme/solo"
    desk.upstream.clear()
    return desk


def calls(*names: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": {}} for name in names], **more}


def used(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def ask(desk: Desk, *, stream: bool, **options: Any) -> tuple[str, Any, str]:
    """Text, usage and generation id of an answer."""
    if stream:
        streamed = desk.stream(**options)
        return streamed.text, streamed.usage, streamed.response.headers["X-Generation-Id"]
    answer = desk.ok(**options)
    message = answer["choices"][0]["message"]
    return message["content"] or "", answer["usage"], answer["id"]


@STREAMED
def test_whatever_a_tool_does_the_model_is_told_and_goes_on(desk: Desk, stream: bool) -> None:
    desk.upstream.script(
        PERSONA, calls("raises", "hangs", "too_much", "slow"), {"text": "So be it."}
    )
    began = time.monotonic()

    text, usage, generation_id = ask(desk, stream=stream, tools=[SEARCH, FETCH, BASH, FILES])

    assert text == "So be it."
    in_time(time.monotonic() - began, 10)
    assert usage["server_tool_use_details"]["tool_calls_executed"] == 4
    _, last = desk.sent(PERSONA)
    told = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    assert json.loads(told[0]) == {"error": "The tool failed"}
    assert json.loads(told[1]) == {"error": "The tool took too long and was stopped"}
    assert told[2].endswith("[cut: the first 1000 of 10000000 characters]")
    assert told[3] == "slowly"
    assert "4711" not in json.dumps(desk.sent(PERSONA))
    assert desk.charged_nano(generation_id) == nano(usage["cost"])


@STREAMED
def test_fees_of_tools_and_all_turns_are_one_charge(desk: Desk, stream: bool) -> None:
    desk.upstream.script(
        PERSONA, calls("slow", usage=used(100, 10)), {"text": "Done.", "usage": used(200, 20)}
    )

    if stream:
        streamed = desk.stream(tools=[FILES])
        usage, generation_id = streamed.usage, streamed.response.headers["X-Generation-Id"]
        # The line is kept alive while a tool is run.
        assert streamed.comments >= 2
    else:
        _, usage, generation_id = ask(desk, stream=False, tools=[FILES])

    turns_nano = 300 * PROMPT_NANO + 30 * COMPLETION_NANO
    assert desk.charged_nano(generation_id) == nano(usage["cost"]) == turns_nano + FEE_NANO


@STREAMED
def test_a_turn_that_cannot_be_paid_ends_the_loop_with_what_there_is(
    desk: Desk, stream: bool, orm_of: OrmOf
) -> None:
    turn = calls("slow", text="So far. ", usage=used(5_000, 16))
    desk.upstream.script(PERSONA, turn, {"text": "Never said."})
    with orm_of(desk.server):
        book_usage(desk.account.account_id, until_balance_nano=4_000_000)
    desk.spent_nano = desk.total_usage_nano()

    asked: dict[str, Any] = {"tools": [FILES], "stream": stream, "max_tokens": 16}
    response = desk.post(headers={"X-Router-Cache": "true"}, **asked)

    assert response.status_code == 200, response.text
    assert response.headers["X-Router-Cache-Status"] == "MISS"
    # Nor is it kept for later.
    assert desk.post(headers={"X-Router-Cache": "true"}, **asked).status_code == 402
    assert '"finish_reason":"length"' in response.text
    assert '"So' in response.text
    assert "Never" not in response.text
    assert len(desk.sent(PERSONA)) == 1
    turn_nano = 5_000 * PROMPT_NANO + 16 * COMPLETION_NANO
    generation_id = response.headers["X-Generation-Id"]
    assert desk.charged_nano(generation_id) == turn_nano + FEE_NANO
    assert desk.generation(generation_id)["finish_reason"] == "length"
