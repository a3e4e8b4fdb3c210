"""The server tools of one request, as its model sees them: functions among the caller's own."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from routing.formats.server_tools import canonical_tool
from routing.tools.interface import Definition, Maker, Tool
from routing.tools.registry import maker_of, parameters_of

NAME_CHARS_MAX: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class Fitted(NamedTuple):
    """A tool of a request: its type, the name that the model calls it by, and itself."""

    type: str
    name: str
    tool: Tool


class Toolbox:
    """`shown` are the tools that the model is given, functions all of them, in the caller's order.

    `tools` are checked ones of the chat format, each server tool with a maker.
    """

    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._fitted: dict[str, Fitted] = {}
        self._taken = {_function(tool)["name"] for tool in tools if tool["type"] == "function"}
        self.shown = [tool if tool["type"] == "function" else self._fit(tool) for tool in tools]

    def find(self, name: str) -> Fitted | None:
        """The server tool that a model's call names."""
        return self._fitted.get(name)

    def choice(self, choice: Any) -> Any:
        """A `tool_choice` of the chat format in the model's terms."""
        if not isinstance(choice, dict) or choice["type"] == "function":
            return choice
        kind = canonical_tool(choice["type"])
        named = (each.name for each in self._fitted.values() if each.type == kind)
        return {"type": "function", "function": {"name": next(named)}}

    def _fit(self, tool: dict[str, Any]) -> dict[str, Any]:
        kind = canonical_tool(tool["type"])
        maker = maker_of(kind)
        assert maker is not None  # Refused before.
        made = _made(maker, tool)
        fitted = Fitted(kind, self._free(made.definition), made)
        self._fitted[fitted.name] = fitted
        function = {
            "name": fitted.name,
            "description": made.definition.description,
            "parameters": made.definition.parameters,
        }
        return {"type": "function", "function": function}

    def _free(self, definition: Definition) -> str:
        """A name that no other tool of the request has."""
        wish = _NOT_IN_NAMES.sub("_", definition.name)[:NAME_CHARS_MAX]
        name, number = wish, 1
        while name in self._taken:
            number += 1
            end = f"_{number}"
            name = f"{wish[: NAME_CHARS_MAX - len(end)]}{end}"
        self._taken.add(name)
        return name


def _made(maker: Maker, tool: dict[str, Any]) -> Tool:
    return maker(parameters_of(tool))


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function: dict[str, Any] = tool["function"]
    return function
