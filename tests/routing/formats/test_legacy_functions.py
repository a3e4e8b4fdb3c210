"""Functions as they were called before there were tools: read as tools, answered as functions."""

from typing import Any

import pytest

from tests.routing.formats.chat_bodies import FUNCTION, USER, accepted, paths, refused

F: dict[str, Any] = FUNCTION["function"]
CALLED: dict[str, Any] = {"name": "f", "arguments": "{not json"}
CALLING: dict[str, Any] = {"role": "assistant", "content": None, "function_call": CALLED}
RESULT: dict[str, Any] = {"role": "function", "name": "f", "content": "42"}


def test_functions_are_tools_of_which_one_is_called() -> None:
    request = accepted(functions=[F], function_call={"name": "f"})

    assert request.offers_functions
    assert request.tools_given
    assert "functions" not in request.body
    assert "function_call" not in request.body
    assert request.body["tools"] == [FUNCTION]
    assert request.body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert request.body["parallel_tool_calls"] is False


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_choice_in_a_word_is_the_same_word(choice: str) -> None:
    assert accepted(functions=[F], function_call=choice).body["tool_choice"] == choice
    assert accepted(function_call=choice).body["tool_choice"] == choice


def test_functions_stand_beside_tools() -> None:
    request = accepted(tools=[{"type": "router:datetime"}], functions=[F])

    assert request.body["tools"] == [{"type": "router:datetime"}, FUNCTION]


@pytest.mark.parametrize("absent", [{"functions": []}, {"functions": None, "function_call": None}])
def test_no_functions_are_offered(absent: dict[str, Any]) -> None:
    request = accepted(**absent)

    assert not request.offers_functions
    assert not request.tools_given
    assert "parallel_tool_calls" not in request.body


def test_calls_and_results_find_each_other() -> None:
    request = accepted(messages=[USER, CALLING, RESULT, CALLING, {**RESULT, "content": None}])

    first, second = ({"id": each, "type": "function"} for each in ("call00001", "call00003"))
    assert request.body["messages"] == [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [{**first, "function": CALLED}]},
        {"role": "tool", "tool_call_id": "call00001", "content": "42"},
        {"role": "assistant", "content": None, "tool_calls": [{**second, "function": CALLED}]},
        {"role": "tool", "tool_call_id": "call00003", "content": ""},
    ]
    assert not request.offers_functions


@pytest.mark.parametrize("empty", [None, {"name": "", "arguments": ""}])
def test_an_answer_that_called_no_function_comes_back(empty: Any) -> None:
    message = {"role": "assistant", "content": "Hi", "function_call": empty}

    assert accepted(messages=[message]).body["messages"] == [{"role": "assistant", "content": "Hi"}]


def test_a_result_of_no_call_is_refused_where_it_stands() -> None:
    error = refused(messages=[USER, CALLING, RESULT, RESULT])

    assert [issue.path for issue in error.issues] == ["messages.3.name"]
    assert error.error_type == "invalid_prompt"


def test_what_is_wrong_is_named_in_the_callers_words() -> None:
    assert paths(functions=[{"name": "no spaces"}]) == ["functions.0.name"]
    assert paths(functions=[F], function_call={"name": "g"}) == ["function_call.name"]
    assert paths(functions=[F], function_call="required") == ["function_call"]
    assert paths(functions=[F], function_call="auto", tool_choice="auto") == ["function_call"]
    assert paths(messages=[{"role": "function", "content": "42"}]) == ["messages.0.name"]
