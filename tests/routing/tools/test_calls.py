"""Whatever a tool does, its model gets a result, in order and within bounds."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from django.test import override_settings

from routing.tools.calls import RunningCalls, ServerToolCall
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.toolbox import RequestTool
from tests.routing.tools.made import Echo, context
from tests.support.promptness import in_time

TOO_LONG = "The tool took too long and was stopped"


class Odd:
    """Does what a test says."""

    definition = Definition("odd", "", {})

    def __init__(self, work: Any, time_s: float | None = None) -> None:
        self._work, self.time_s = work, time_s

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return self._work()


def call(tool: Any, arguments: str = "{}", refused: str | None = None) -> ServerToolCall:
    return ServerToolCall(RequestTool("router:odd", "odd", tool), "call_1", arguments, refused)


def results(*calls: ServerToolCall, **given: Any) -> list[Result]:
    running = RunningCalls(calls, context(**given))
    assert running.wait(None)
    return running.results()


def error_of(result: Result) -> str:
    assert result.failed
    (told,) = json.loads(result.text).items()
    assert told[0] == "error"
    return cast(str, told[1])


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a tool that hangs waits for."""
    gate = threading.Event()
    yield gate
    gate.set()


def raises() -> Result:
    raise ValueError("a secret of ours")


def refuses() -> Result:
    raise ToolFailed("Not on Sundays")


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (raises, "The tool failed"),
        (refuses, "Not on Sundays"),
        (lambda: None, "The tool gave no result"),
        (lambda: Result(cast(str, b"bytes")), "The tool gave no result"),
        (lambda: Result("x", item={"big": "x" * 5_000_000}), "The tool's result is too large"),
    ],
)
def test_what_goes_wrong_is_told_and_nothing_more(work, told) -> None:
    assert [error_of(result) for result in results(call(Odd(work)))] == [told]


def test_arguments_are_an_object_or_none() -> None:
    for odd in ("[]", "{", "5", '{"a": NaN}', "null"):
        (result,) = results(call(Echo({}), odd))
        assert error_of(result) == "The arguments are no JSON object"
    for none in ("", "  ", "{}"):
        (result,) = results(call(Echo({}), none))
        assert (result.text, result.failed) == ("{}", False)


@override_settings(ROUTER_TOOL_RESULT_CHARS=1000)
def test_ten_megabytes_are_cut() -> None:
    (result,) = results(call(Odd(lambda: Result("x" * 10_000_000))))
    assert result.text.startswith("x" * 1000)
    assert result.text.endswith("[cut: the first 1000 of 10000000 characters]")
    assert len(result.text) < 1100


def test_one_that_hangs_is_left_behind_and_the_others_are_not(gate: threading.Event) -> None:
    began = time.monotonic()
    hung, echoed = results(call(Odd(gate.wait, time_s=0.2)), call(Echo({})))
    assert (error_of(hung), echoed.text) == (TOO_LONG, "{}")
    # The request's deadline ends what has none of its own.
    endless = Odd(gate.wait, time_s=float("inf"))
    (result,) = results(call(endless), deadline=time.monotonic() + 0.2)
    assert result.failed
    in_time(time.monotonic() - began, 5)


def test_they_run_side_by_side_and_answer_in_order() -> None:
    first, second = threading.Event(), threading.Event()

    def one() -> Result:
        first.set()
        assert second.wait(60)
        return Result("one")

    def other() -> Result:
        assert first.wait(60)
        second.set()
        return Result("other")

    assert [result.text for result in results(call(Odd(one)), call(Odd(other)))] == ["one", "other"]


def test_one_that_is_refused_is_not_run() -> None:
    ran: list[int] = []
    (result,) = results(call(Odd(lambda: ran.append(1)), refused="No steps left"))
    assert (error_of(result), ran) == ("No steps left", [])


def test_waiting_ends_before_they_do(gate: threading.Event) -> None:
    running = RunningCalls([call(Odd(gate.wait, time_s=5))], context())
    assert not running.wait(0.05)
    assert running.stop() == []
    # Who has no limit does not keep others beyond theirs.
    agent, late = (Odd(gate.wait, time_s=limit) for limit in (float("inf"), 0.0))
    running = RunningCalls([call(agent), call(late)], context())
    assert not running.wait(0.0)
    assert [error_of(result) for result in running.stop()] == [TOO_LONG]
