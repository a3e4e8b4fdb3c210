"""Tool calls can be carried out when they name a function and give it a JSON object, or nothing."""

from typing import Any

import pytest

from routing.serving.tool_calls import StreamedCalls, well_formed


def call(name: Any = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


WHOLE: list[tuple[Any, bool | None]] = [
    *((none, None) for none in (None, [], "text")),
    *(([call(arguments=good)], True) for good in ("{}", '{"a": [1, 2]}', "")),
    ([call(), call(name="other")], True),
    *(([call(arguments=bad)], False) for bad in ('{"a": ', " ", "nothing", None, "[1]", {"a": 1})),
    *(([call(name=bad)], False) for bad in ("", None)),
    ([call(), call(arguments="{")], False),
    ([{"id": "c1"}], False),
    (["call"], False),
]


@pytest.mark.parametrize(("calls", "good"), WHOLE, ids=str)
def test_of_an_answer_in_one_piece(calls: Any, good: bool | None) -> None:
    assert well_formed(calls) is good


def streamed(*deltas: Any) -> bool | None:
    calls = StreamedCalls()
    for delta in deltas:
        calls.add(delta)
    return calls.good


def piece(index: int, name: str | None = None, arguments: str | None = None) -> dict[str, Any]:
    said = {"name": name, "arguments": arguments}
    return {"index": index, "function": {k: v for k, v in said.items() if v is not None}}


def test_of_a_stream_piece_by_piece() -> None:
    assert streamed() is None
    assert streamed([piece(0, "look", "")], [piece(0, arguments='{"a"')], [piece(0, None, ":1}")])
    assert streamed([piece(0, "look", '{"a"')]) is False
    assert streamed([piece(0, "look", "")], [piece(0, None, "")]) is True
    assert streamed([piece(0, "look")]) is False
    assert streamed([piece(0, "look", "")], [piece(0, None, "no object")]) is False
    assert streamed([piece(0, arguments="{}")]) is False
    assert streamed([piece(0, "a", "{}")], [piece(1, "b", "{")]) is False
    two, end = [piece(0, "a", "{"), piece(1, "b", "{")], piece(1, None, "}")
    assert streamed(two, [end]) is False
    assert streamed(two, [end, piece(0, None, "}")])


def test_of_a_stream_that_numbers_no_calls() -> None:
    assert streamed([call()], [call("other", '{"b": 2}')])
    assert streamed([call()], [call("other", "{")]) is False


@pytest.mark.parametrize("odd", [None, "text", {}, [None], ["text"], [{"index": 0}], [5]])
def test_whatever_an_upstream_puts_there(odd: Any) -> None:
    assert streamed(odd) in (None, False)


def test_too_much_to_look_at_is_not_judged() -> None:
    assert streamed(*([piece(0, "look", "x" * 100_000)] for _ in range(12))) is None
    assert well_formed([call(arguments="x" * 2_000_000)]) is None
