"""`functions` and `function_call` of a request, by which tools were called before there were any.

They become tools, so that every upstream takes them.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.http.validation import ISSUES_MAX, Issue

_FIELDS: Final = frozenset({"functions", "function_call"})


def with_tools(body: dict[str, Any]) -> tuple[dict[str, Any], list[Issue]]:
    """A checked chat body in the words of tools, and what is wrong with its results of functions:
    each must answer a call."""
    result = {name: each for name, each in body.items() if name not in _FIELDS}
    result["messages"], issues = _messages(body["messages"])
    result |= tools_of(body)
    return result, issues


def tools_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """What its functions and its choice among them are in the words of tools."""
    said: dict[str, Any] = {}
    if functions := body.get("functions"):
        tools = [{"type": "function", "function": function} for function in functions]
        said["tools"] = [*body.get("tools", ()), *tools]
        # An answer in the older words has room for one call.
        said["parallel_tool_calls"] = body.get("parallel_tool_calls", False)
    if choice := body.get("function_call"):
        is_named = isinstance(choice, dict)
        said["tool_choice"] = {"type": "function", "function": choice} if is_named else choice
    return said


def _messages(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Issue]]:
    results, issues = [], []
    # Ids of the calls that wait for their result, by the function's name.
    waiting: dict[str, str] = {}
    for index, message in enumerate(messages):
        if message["role"] == "function":
            call_id = waiting.pop(message["name"], None)
            if call_id is None:
                text = "Invalid input: matches no function_call of an earlier assistant message"
                issues.append(Issue(f"messages.{index}.name", text))
            content = message.get("content") or ""
            results.append({"role": "tool", "tool_call_id": call_id, "content": content})
        elif message["role"] == "assistant" and "function_call" in message:
            # Nine letters and digits, which every upstream takes for an id.
            call_id = f"call{index:05}"
            function = message["function_call"]
            rest = {name: each for name, each in message.items() if name != "function_call"}
            # Some providers answer with a call of no function.
            if function and function["name"] and not message.get("tool_calls"):
                waiting[function["name"]] = call_id
                rest["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
            results.append(rest)
        else:
            results.append(message)
    return results, issues[:ISSUES_MAX]
