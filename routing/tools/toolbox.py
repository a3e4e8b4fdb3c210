"""The tools of one request as its model sees them: server tools as functions among the caller's."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.formats.server_tools import TOOL_SEARCH, canonical_tool
from routing.tools.interface import Definition, Tool
from routing.tools.registry import maker_of, parameters_of
from routing.tools.sandbox.workspace import ToolWorkspace, WorkspaceTool
from routing.tools.tool_search import DeferredFunctions, ToolSearch

NAME_CHARS_MAX: Final = 64
# Of a number behind a name, with its line.
_NUMBER_CHARS_MAX: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class RequestTool(NamedTuple):
    """A server tool of a request: its type, its function name, and the tool."""

    type: str
    name: str
    tool: Tool


class Toolbox:
    """The tools of a request as functions, with their shared workspace. `close` it at the end.

    `tools` are checked ones of the chat format, each server tool with a maker. `called` names the
    functions that the conversation calls or `tool_choice` requires: these are never deferred.
    """

    def __init__(self, tools: Sequence[JsonObject], called: Iterable[str] = ()) -> None:
        self._fitted: dict[str, RequestTool] = {}
        self._taken = {_function(tool)["name"] for tool in tools if tool["type"] == "function"}
        # The last number appended to each name that several tools want.
        self._numbers: dict[str, int] = {}
        self._workspace = ToolWorkspace()
        deferred: dict[str, JsonObject] = {}
        if any(tool["type"] == TOOL_SEARCH for tool in tools):
            # There is a tool to find them.
            for tool in tools:
                if tool["type"] == "function" and tool.get("defer_loading"):
                    deferred[_function(tool)["name"]] = _function(tool)
        self._deferred = DeferredFunctions(deferred)
        for name in called:
            self._deferred.show(name)
        self._tools = [
            tool if tool["type"] == "function" else self._build_function(tool) for tool in tools
        ]

    @property
    def visible_tools(self) -> list[JsonObject]:
        """The functions that the model sees now, in the caller's order."""
        return [tool for tool in self._tools if not self._deferred.hides(_function(tool)["name"])]

    @property
    def found_count(self) -> int:
        """The number of deferred functions found so far."""
        return self._deferred.shown_count

    def find(self, name: str) -> RequestTool | None:
        """The server tool that a model's call names."""
        return self._fitted.get(name)

    def choice(self, choice: object) -> Any:
        """A `tool_choice` of the chat format with server tools replaced by their functions."""
        if not isinstance(choice, dict) or choice["type"] == "function":
            return choice
        kind = canonical_tool(choice["type"])
        named = (each.name for each in self._fitted.values() if each.type == kind)
        return {"type": "function", "function": {"name": next(named)}}

    def close(self) -> None:
        """End the workspace and delete its files."""
        self._workspace.close()

    def _build_function(self, tool: JsonObject) -> JsonObject:
        kind = canonical_tool(tool["type"])
        maker = maker_of(kind)
        assert maker is not None  # Refused before.
        made = maker(parameters_of(tool))
        if isinstance(made, WorkspaceTool):
            made.workspace = self._workspace
        elif isinstance(made, ToolSearch):
            made.deferred = self._deferred
        fitted = RequestTool(kind, self._choose_name(made.definition), made)
        self._fitted[fitted.name] = fitted
        function = {
            "name": fitted.name,
            "description": made.definition.description,
            "parameters": made.definition.parameters,
        }
        return {"type": "function", "function": function}

    def _choose_name(self, definition: Definition) -> str:
        """A function name that no other tool of the request has. Numbering goes on from the last
        one, so that many equal names take linear time."""
        name = _NOT_IN_NAMES.sub("_", definition.name)[:NAME_CHARS_MAX]
        beginning = name[: NAME_CHARS_MAX - _NUMBER_CHARS_MAX]
        while name in self._taken:
            number = self._numbers[beginning] = self._numbers.get(beginning, 1) + 1
            name = f"{beginning}_{number}"
        self._taken.add(name)
        return name


def _function(tool: JsonObject) -> JsonObject:
    function: JsonObject = tool["function"]
    return function
