"""Whatever a tool does, its model gets a result, in order and within bounds."""

import json
import threading
import time
from typing import Any, cast

import pytest
from django.test import override_settings

from routing.tools.interface import Context, Definition, Result, ToolFailed
from routing.tools.running import Running, ToolCall
from routing.tools.toolbox import Fitted
from tests.routing.tools.made import Echo, context
from tests.support.promptness import in_time


class Odd:
    """Does what a test says."""

    definition = Definition("odd", "", {})

    def __init__(self, work: Any, time_s: float | None = None) -> None:
        self._work, self.time_s = work, time_s

    def run(self, arguments: dict[str, Any], context: Context) -> Any:
        return self._work()


def call(tool: Any, arguments: str = "{}", refused: str | None = None) -> ToolCall:
    return ToolCall(Fitted("router:odd", "odd", tool), "call_1", arguments, refused)


def results(*calls: ToolCall, **given: Any) -> list[Result]:
    running = Running(calls, context(**given))
    assert running.wait(None)
    return running.results()


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
    (result,) = results(call(Odd(work)))
    assert json.loads(result.text) == {"error": told}
    assert result.failed


@pytest.mark.parametrize("arguments", ["[]", "{", "5", '{"a": NaN}', "null"])
def test_arguments_that_are_no_object_are_told(arguments) -> None:
    (result,) = results(call(Echo({}), arguments))
    assert json.loads(result.text) == {"error": "The arguments are no JSON object"}


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_no_arguments_are_none(arguments) -> None:
    (result,) = results(call(Echo({}), arguments))
    assert (result.text, result.failed) == ("{}", False)


@override_settings(ROUTER_TOOL_RESULT_CHARS=1000)
def test_ten_megabytes_are_cut() -> None:
    (result,) = results(call(Odd(lambda: Result("x" * 10_000_000))))
    assert result.text.startswith("x" * 1000)
    assert result.text.endswith("[cut: the first 1000 of 10000000 characters]")
    assert len(result.text) < 1100


def test_one_that_hangs_is_left_behind_and_the_others_are_not() -> None:
    gate = threading.Event()
    began = time.monotonic()
    found = results(call(Odd(gate.wait, time_s=0.2)), call(Echo({})))
    gate.set()
    assert json.loads(found[0].text) == {"error": "The tool took too long and was stopped"}
    assert found[1].text == "{}"
    in_time(time.monotonic() - began, 5)


def test_the_requests_deadline_ends_what_has_none_of_its_own() -> None:
    gate = threading.Event()
    (result,) = results(call(Odd(gate.wait, time_s=float("inf"))), deadline=time.monotonic() + 0.2)
    gate.set()
    assert result.failed


def test_they_run_side_by_side_and_answer_in_order() -> None:
    first, second = threading.Event(), threading.Event()

    def one() -> Result:
        first.set()
        assert second.wait(5)
        return Result("one")

    def other() -> Result:
        assert first.wait(5)
        second.set()
        return Result("other")

    assert [result.text for result in results(call(Odd(one)), call(Odd(other)))] == ["one", "other"]


def test_one_that_is_refused_is_not_run() -> None:
    ran: list[int] = []
    (result,) = results(call(Odd(lambda: ran.append(1)), refused="No steps left"))
    assert json.loads(result.text) == {"error": "No steps left"}
    assert ran == []


def test_waiting_ends_before_they_do() -> None:
    gate = threading.Event()
    running = Running([call(Odd(gate.wait, time_s=5))], context())
    assert not running.wait(0.05)
    assert running.stop() == []
    gate.set()


def test_who_has_no_limit_does_not_keep_others_beyond_theirs() -> None:
    gate = threading.Event()
    agent, late = Odd(gate.wait, time_s=float("inf")), Odd(gate.wait, time_s=0.0)
    running = Running([call(agent), call(late)], context())
    assert not running.wait(0.0)
    (result,) = running.stop()
    gate.set()
    assert json.loads(result.text) == {"error": "The tool took too long and was stopped"}
