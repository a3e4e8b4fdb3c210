"""Rules of a chat body that span several fields (inference reference 1.1, 1.6, 1.7).

They read a body that has passed its schema, and cost nothing for fields that are absent.
"""

from collections.abc import Iterator
from typing import Any, Final

from gateway.http.validation import Issue, shortened
from routing.formats.server_tools import (
    ADVISOR,
    FUNCTIONS,
    INHERITING,
    SUBAGENT,
    WAITING,
    canonical_tool,
)

TOOL_STEPS_MAX: Final = 30
# Settings of a subagent that the responses format alone has.


def cross_field_issues(body: dict[str, Any]) -> list[Issue]:
    """What is wrong between the fields, in the order of the reference; empty when nothing is."""
    issues: list[Issue] = []
    if tools := body.get("tools"):
        issues += _tool_issues(tools)
    if "tool_choice" in body:
        issues += _choice_issues(body["tool_choice"], tools or ())
    if "function_call" in body:
        issues += _function_call_issues(body)
    if body.get("max_tool_calls") is not None and "stop_server_tools_when" not in body:
        issues += _step_issues(body["max_tool_calls"])
    if body.get("reasoning_effort") is not None:
        issues += _effort_issues(body)
    if "audio" in body:
        issues += _audio_issues(body)
    return issues


def _tool_issues(tools: list[dict[str, Any]]) -> Iterator[Issue]:
    taken: dict[str, set[str | None]] = {ADVISOR: set(), SUBAGENT: set()}
    for index, tool in enumerate(tools):
        names = taken.get(tool["type"])
        if names is None:
            continue
        settings: dict[str, Any] = tool.get("parameters", {})
        path = f"tools.{index}.parameters"
        name = settings["name"].strip() if "name" in settings else None
        if name in names:
            yield Issue(f"{path}.name", _taken(tool["type"], name))
        names.add(name)
        if tool["type"] == SUBAGENT:
            yield from _subagent_issues(settings, path)


def _taken(kind: str, name: str | None) -> str:
    if name is None:
        return f"Invalid input: only one {kind} may have no name"
    return f'Invalid input: another {kind} is named "{name}"'


def _subagent_issues(settings: dict[str, Any], path: str) -> Iterator[Issue]:
    for key in (*INHERITING, FUNCTIONS, WAITING):
        if key in settings:
            text = "Invalid input: only in the responses format may agents call functions"
            yield Issue(f"{path}.{key}", text)


def _choice_issues(choice: Any, tools: Any) -> Iterator[Issue]:
    if choice == "required" and not tools:
        yield Issue("tool_choice", "Invalid input: required needs at least one tool")
    elif isinstance(choice, dict) and choice["type"] == "function":
        name = choice["function"]["name"]
        if not any(_is_function(tool, name) for tool in tools):
            text = f'Invalid input: no function named "{shortened(name)}" in tools'
            yield Issue("tool_choice.function.name", text)
    elif isinstance(choice, dict):
        kind = canonical_tool(choice["type"])
        if not any(canonical_tool(tool["type"]) == kind for tool in tools):
            yield Issue("tool_choice.type", f"Invalid input: no {kind} in tools")


def _function_call_issues(body: dict[str, Any]) -> Iterator[Issue]:
    choice = body["function_call"]
    if "tool_choice" in body:
        yield Issue("function_call", "Invalid input: send either tool_choice or function_call")
    elif isinstance(choice, dict):
        name = choice["name"]
        if not any(each["name"] == name for each in body.get("functions", ())):
            text = f'Invalid input: no function named "{shortened(name)}" in functions'
            yield Issue("function_call.name", text)


def _is_function(tool: dict[str, Any], name: str) -> bool:
    return tool["type"] == "function" and bool(tool["function"]["name"] == name)


def _step_issues(steps: float) -> Iterator[Issue]:
    if steps < 1:
        yield Issue("max_tool_calls", "Too small: expected number to be >=1")
    elif steps > TOOL_STEPS_MAX:
        yield Issue("max_tool_calls", f"Too big: expected number to be <={TOOL_STEPS_MAX}")


def _effort_issues(body: dict[str, Any]) -> Iterator[Issue]:
    effort = body.get("reasoning", {}).get("effort")
    if effort is not None and effort != body["reasoning_effort"]:
        yield Issue("reasoning_effort", "Invalid input: differs from reasoning.effort")


def _audio_issues(body: dict[str, Any]) -> Iterator[Issue]:
    if "audio" not in body.get("modalities", ()) or not body.get("stream"):
        yield Issue("audio", 'Invalid input: needs "audio" in modalities and stream: true')
