"""Rules of a responses body that span several fields (inference reference 5.1 to 5.3).

They read a body that has passed its schema.
"""

from collections.abc import Iterator
from typing import Any, Final

from gateway.http.validation import ISSUES_MAX, Issue, shortened
from routing.formats.chat.rules import cross_field_issues as chat_issues
from routing.formats.responses.agents import INHERITED_MAX, agent_issues, names_of_heirs
from routing.formats.responses.tools import named, with_nested
from routing.formats.server_tools import (
    ADVISOR,
    FUNCTIONS,
    SERVER_PREFIX,
    SUBAGENT,
    WAITING,
    canonical_tool,
)

_CALLS: Final = ("function_call", "custom_tool_call")
_CALL_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_INSTRUCTION_ROLES: Final = ("system", "developer")
# Choices that say which tool by its name.
_NAMED: Final = ("function", "custom")


def cross_field_issues(body: dict[str, Any]) -> list[Issue]:
    """What is wrong between the fields, in the order of the reference; empty when nothing is."""
    tools = body.get("tools", [])
    issues = list(_message_issues(body["input"])) if type(body["input"]) is list else []
    issues += _item_issues(body["input"])
    issues += chat_issues(_as_in_chat(body))
    issues += _heir_issues(tools)
    issues += agent_issues(body["input"], tools)
    choice = body.get("tool_choice")
    if type(choice) is dict:
        issues += _choice_issues(choice, _offered(tools))
    return issues


def orphan_issues(items: str | list[dict[str, Any]]) -> list[Issue]:
    """Outputs that answer no earlier call."""
    called: set[str] = set()
    issues: list[Issue] = []
    for index, item in enumerate(items if type(items) is list else ()):
        kind = item.get("type")
        if kind in _CALLS:
            called.add(item["call_id"])
        elif kind in _CALL_OUTPUTS and item["call_id"] not in called:
            text = "Invalid input: matches no call among the items before it"
            issues.append(Issue(f"input.{index}.call_id", text))
    return issues[:ISSUES_MAX]


def _item_issues(items: str | list[dict[str, Any]]) -> Iterator[Issue]:
    """References to what is not there, and tools of the gateway where it does not look for any."""
    references: list[tuple[int, str]] = []
    known: set[Any] = set()
    for index, item in enumerate(items if type(items) is list else ()):
        kind = item.get("type")
        if kind == "item_reference":
            references.append((index, item["id"]))
        elif kind == "additional_tools":
            for place, tool in enumerate(item["tools"]):
                if any(each["type"].startswith(SERVER_PREFIX) for each in with_nested([tool])):
                    path = f"input.{index}.tools.{place}.type"
                    yield Issue(path, "Invalid input: tools of the gateway stand in `tools`")
        elif isinstance(item.get("id"), str):
            known.add(item["id"])
    for index, reference in references:
        if reference not in known:
            text = "Invalid input: nothing is stored: set store: false, so that items are sent"
            yield Issue(f"input.{index}.id", text)


def _message_issues(items: list[dict[str, Any]]) -> Iterator[Issue]:
    for index, item in enumerate(items):
        content = item.get("content")
        if item.get("type", "message") != "message" or type(content) is not list:
            continue
        path = f"input.{index}.content"
        if item["role"] == "user" and not content:
            yield Issue(path, "Too small: expected array to have >=1 items")
        elif item["role"] in _INSTRUCTION_ROLES:
            yield from _instruction_issues(content, path)


def _instruction_issues(parts: list[dict[str, Any]], path: str) -> Iterator[Issue]:
    for index, part in enumerate(parts):
        if part["type"] not in ("input_text", "output_text"):
            text = "Invalid input: only text is allowed in system and developer messages"
            yield Issue(f"{path}.{index}.type", text)


def _as_in_chat(body: dict[str, Any]) -> dict[str, Any]:
    """The fields whose rules, and names, are the chat format's."""
    names = ("max_tool_calls", "stop_server_tools_when")
    shared: dict[str, Any] = {name: body[name] for name in names if name in body}
    if tools := body.get("tools"):
        shared["tools"] = [_agent_name(tool) for tool in tools]
    if body.get("tool_choice") == "required":
        shared["tool_choice"] = "required"
    return shared


def _agent_name(tool: dict[str, Any]) -> dict[str, Any]:
    """An agent by its name; what other tools have for settings is no matter of these rules."""
    settings = tool.get("parameters", {}) if tool["type"] in (ADVISOR, SUBAGENT) else {}
    name = {"name": settings["name"]} if "name" in settings else {}
    return {"type": tool["type"], "parameters": name}


def _heir_issues(tools: list[dict[str, Any]]) -> Iterator[Issue]:
    """Subagents that should have functions which the request does not."""
    functions = {tool["name"] for tool in tools if tool["type"] == "function"}
    if _inherited(tools, len(functions)) > INHERITED_MAX:
        text = f"Too big: expected subagents to have <={INHERITED_MAX} functions in all"
        yield Issue("tools", text)
        return
    for index, tool in enumerate(tools):
        settings = tool.get("parameters", {}) if tool["type"] == SUBAGENT else {}
        path = f"tools.{index}.parameters"
        for place, name in enumerate(names_of_heirs(settings)):
            if name not in functions:
                text = f'Invalid input: no function named "{shortened(name)}" in tools'
                yield Issue(f"{path}.inherited_function_names.{place}", text)
        for key in (FUNCTIONS, WAITING):
            if key in settings:
                yield Issue(f"{path}.{key}", "Invalid input: not a setting of callers")


def _inherited(tools: list[dict[str, Any]], functions: int) -> int:
    """How many functions all subagents have together."""
    agents = [tool.get("parameters", {}) for tool in tools if tool["type"] == SUBAGENT]
    return sum(
        functions if each.get("inherit_functions") else len(names_of_heirs(each)) for each in agents
    )


def _offered(tools: list[dict[str, Any]]) -> set[tuple[str, str | None]]:
    """What a choice may point at: types, and types with a name."""
    offered: set[tuple[str, str | None]] = set()
    for tool in with_nested(tools):
        kind = canonical_tool(tool["type"])
        offered |= {(kind, None), (kind, named(tool))}
    return offered


def _choice_issues(choice: dict[str, Any], offered: set[tuple[str, str | None]]) -> Iterator[Issue]:
    if choice["type"] != "allowed_tools":
        yield from _tool_issues(choice, "tool_choice", offered)
        return
    for index, tool in enumerate(choice["tools"]):
        yield from _tool_issues(tool, f"tool_choice.tools.{index}", offered)


def _tool_issues(
    choice: dict[str, Any], path: str, offered: set[tuple[str, str | None]]
) -> Iterator[Issue]:
    kind = canonical_tool(choice["type"])
    if kind in _NAMED:
        name = choice.get("name")
        if name is None or (kind, name) not in offered:
            text = f'Invalid input: no {kind} named "{shortened(str(name))}" in tools'
            yield Issue(f"{path}.name", text)
    elif (kind, None) not in offered:
        yield Issue(f"{path}.type", f"Invalid input: no {shortened(kind)} in tools")
