"""What tools cost: fees on the bill of the answer, and holds that cannot be raised for a turn."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.conformance.desk import Desk, Serve, nano
from tests.conformance.money import book_usage
from tests.conformance.slow_tool import BACKENDS, FEE_NANO
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
PERSONA = "gamma"
PROMPT_NANO, COMPLETION_NANO = 1_000, 2_000
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
FILES = {"type": "router:files"}


@pytest.fixture(scope="module")
def desks(serve: Serve) -> Callable[[], Desk]:
    return serve(
        ROUTER_TOOL_BACKENDS=BACKENDS,
        ROUTER_KEEPALIVE_SECONDS="0.1",
        ROUTER_RESPONSE_CACHE_ENABLED="true",
    )


@pytest.fixture
def desk(desks: Callable[[], Desk]) -> Desk:
    desk = desks()
    desk.upstream.clear()
    return desk


def turn(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}, **more}


SLOW = {"tool_calls": [{"name": "slow", "arguments": {}}]}


@STREAMED
def test_fees_of_tools_and_all_turns_are_one_charge(desk: Desk, stream: bool) -> None:
    desk.upstream.script(PERSONA, turn(100, 10, **SLOW), turn(200, 20, text="Done."))

    if stream:
        streamed = desk.stream(tools=[FILES])
        usage, generation_id = streamed.usage, streamed.response.headers["X-Generation-Id"]
        # The line is kept alive while a tool is run.
        assert streamed.comments >= 2
    else:
        answer = desk.ok(tools=[FILES])
        usage, generation_id = answer["usage"], answer["id"]

    turns_nano = 300 * PROMPT_NANO + 30 * COMPLETION_NANO
    assert desk.charged_nano(generation_id) == nano(usage["cost"]) == turns_nano + FEE_NANO


@STREAMED
def test_a_turn_that_cannot_be_paid_ends_the_loop_with_what_there_is(
    desk: Desk, stream: bool, orm_of: OrmOf
) -> None:
    first = turn(5_000, 16, text="So far. ", **SLOW)
    desk.upstream.script(PERSONA, first, {"text": "Never said."})
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
    assert len(desk.list_sent_bodies(PERSONA)) == 1
    turn_nano = 5_000 * PROMPT_NANO + 16 * COMPLETION_NANO
    generation_id = response.headers["X-Generation-Id"]
    assert desk.charged_nano(generation_id) == turn_nano + FEE_NANO
    assert desk.generation(generation_id)["finish_reason"] == "length"
