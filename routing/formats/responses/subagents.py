"""Subagents that call functions of the request.

Such a call ends the answer like one of the model itself. The gateway stores nothing meanwhile: the
agent's messages go out with its first call (`subagent_items`) and come back with the results of the
functions. Then the model reads that the agent waits, and calls it once more to resume it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject, dumps
from gateway.http.validation import Issue
from routing.formats.responses.conversation import read_content
from routing.formats.server_tools import FUNCTIONS, SUBAGENT, WAITING

AGENT_ID: Final = "subagent_id"
AGENT_ITEMS: Final = "subagent_items"
_OUTPUT: Final = "function_call_output"
_CALLS: Final = ("function_call", "custom_tool_call")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
# The model reads of each agent that waits, and an agent of each function that it may call.
WAITING_MAX: Final = 128
INHERITED_MAX: Final = 1_024
_RESUME_NOTE: Final = (
    "The agent waits: it has called functions, whose results are there now. Call it again with "
    "this id as `resume` to let it go on."
)


class WaitingAgent(NamedTuple):
    """An agent whose functions have been called: the name of its tool, None where it has none, and
    its conversation, chat-shaped, up to their results."""

    id: str
    name: str | None
    messages: list[JsonObject]


class _AgentCalls(NamedTuple):
    """Calls that one agent made at once: where they are among the items, and the items."""

    id: str
    calls: list[tuple[int, JsonObject]]

    @property
    def state(self) -> Mapping[str, Any] | None:
        items = (item for _, call in self.calls for item in call.get(AGENT_ITEMS) or ())
        return next(items, None)

    @property
    def call_ids(self) -> list[str]:
        return [call["call_id"] for _, call in self.calls]


def split_agent_items(
    items: str | list[JsonObject],
) -> tuple[str | list[JsonObject], list[WaitingAgent]]:
    """Checked items of the model that the request is for, and the agents that wait. What agents
    called that have gone on since is left out, as all that server tools did."""
    if isinstance(items, str) or not (rounds := _group_agent_calls(items)):
        return items, []
    of_agents = {call_id for each in rounds for call_id in each.call_ids}
    others = [
        item
        for item in items
        if item.get("type") not in ("function_call", _OUTPUT) or item["call_id"] not in of_agents
    ]
    last = _last_answer_index(items)
    outputs = {item["call_id"]: item for item in items if item.get("type") == _OUTPUT}
    waiting = []
    for each in rounds:
        if _is_waiting(each, last):
            state = each.state
            assert state is not None  # Refused before.
            messages = list(state["messages"])
            for call_id in each.call_ids:
                content = read_content(outputs[call_id]["output"])
                messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
            waiting.append(WaitingAgent(each.id, state.get("name"), messages))
    return others, waiting


def build_waiting_messages(waiting: Iterable[WaitingAgent]) -> list[JsonObject]:
    """What the model reads of them: its own calls, which it has forgotten, and their results."""
    messages: list[JsonObject] = []
    for each in waiting:
        # What the model knows the tool by, where no function has its name.
        name = _NOT_IN_NAMES.sub("_", f"subagent_{each.name}" if each.name else "subagent")[:64]
        function = {"name": name, "arguments": dumps({"resume": each.id}).decode()}
        call = {"id": each.id, "type": "function", "function": function}
        result = dumps({"status": "waiting", "id": each.id, "note": _RESUME_NOTE}).decode()
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": each.id, "content": result})
    return messages


def add_inherited_functions(fields: JsonObject, waiting: list[WaitingAgent]) -> JsonObject:
    """Translated fields whose subagents have the functions that are theirs, and their own past.
    Those that wait are let go on first."""
    tools: list[JsonObject] = fields.get("tools") or []
    if not any(tool["type"] == SUBAGENT for tool in tools):
        return fields
    functions = {
        tool["function"]["name"]: {"type": "function", "function": tool["function"]}
        for tool in tools
        if tool["type"] == "function"
    }
    past: dict[str | None, list[JsonObject]] = {}
    for each in waiting:
        past.setdefault(each.name, []).append({"id": each.id, "messages": each.messages})
    built = [
        _build_subagent_tool(tool, functions, past) if tool["type"] == SUBAGENT else tool
        for tool in tools
    ]
    fields = fields | {"tools": built}
    is_free = fields.get("tool_choice", "auto") == "auto"
    # Some models that think before they call cannot be made to.
    if waiting and is_free and "reasoning" not in fields:
        alone = sum(tool["type"] == SUBAGENT for tool in built) == 1
        fields["tool_choice"] = {"type": SUBAGENT} if alone else "required"
    return fields


def inherited_names(settings: Mapping[str, Any]) -> list[str]:
    """The functions that a subagent is to have by name."""
    if settings.get("inherit_functions"):
        return []
    return [name.strip() for name in settings.get("inherited_function_names") or ()]


def find_subagent_issues(items: str | list[JsonObject], tools: list[JsonObject]) -> Iterator[Issue]:
    """Calls of agents that cannot go on: of another one than there is, or without what they need.
    Items are looked at where their schema was met."""
    if isinstance(items, str) or not (rounds := _group_agent_calls(items)):
        return
    names = {_agent_name(tool) for tool in tools if tool["type"] == SUBAGENT}
    answered = {item["call_id"] for item in items if item.get("type") == _OUTPUT}
    last = _last_answer_index(items)
    if sum(_is_waiting(each, last) for each in rounds) > WAITING_MAX:
        yield Issue("input", f"Too big: expected <={WAITING_MAX} agents that wait")
        return
    for each in rounds:
        first_index = each.calls[0][0]
        if not _is_waiting(each, last):
            continue
        if each.state is None:
            text = "Invalid input: what the agent said is missing, send its items as they came"
            yield Issue(f"input.{first_index}.{AGENT_ITEMS}", text)
        elif each.state.get("name") not in names:
            text = "Invalid input: the subagent that made this call is not in tools"
            yield Issue(f"input.{first_index}.{AGENT_ID}", text)
        for index, call in each.calls:
            if call["call_id"] not in answered:
                text = "Invalid input: no output for this call"
                yield Issue(f"input.{index}.call_id", text)


def _group_agent_calls(items: list[JsonObject]) -> list[_AgentCalls]:
    rounds: list[_AgentCalls] = []
    latest: dict[str, _AgentCalls] = {}
    for index, item in enumerate(items):
        if item.get("type") != "function_call" or not item.get(AGENT_ID):
            continue
        agent = item[AGENT_ID]
        # Models give the same ids again: the first call has what the agent said.
        if agent not in latest or item.get(AGENT_ITEMS):
            latest[agent] = _AgentCalls(agent, [])
            rounds.append(latest[agent])
        latest[agent].calls.append((index, item))
    return rounds


def _last_answer_index(items: list[JsonObject]) -> int:
    """Where the model, or a tool that the gateway ran, has last said anything but calls."""
    last = -1
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        is_model = kind == "message" and item["role"] == "assistant"
        is_tool = kind != "message" and kind not in _CALLS and not kind.endswith("_output")
        if is_model or is_tool:
            last = index
    return last


def _is_waiting(each: _AgentCalls, last_text: int) -> bool:
    """Once it goes on there is a new item of it."""
    return each.calls[-1][0] > last_text


def _build_subagent_tool(
    tool: JsonObject,
    functions: Mapping[str, JsonObject],
    past: Mapping[str | None, list[JsonObject]],
) -> JsonObject:
    settings = tool.get("parameters", {})
    names = functions if settings.get("inherit_functions") else inherited_names(settings)
    inherited = [functions[name] for name in dict.fromkeys(names) if name in functions]
    agent_past = past.get(_agent_name(tool), [])
    if not (inherited or agent_past):
        return tool
    return {**tool, "parameters": settings | {FUNCTIONS: inherited, WAITING: agent_past}}


def _agent_name(tool: Mapping[str, Any]) -> str | None:
    name = tool.get("parameters", {}).get("name")
    return name.strip() if isinstance(name, str) else None
