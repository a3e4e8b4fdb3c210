"""`router:tool_search`: finds functions that the model does not see until it searches for them."""

import re
from collections.abc import Mapping
from typing import Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext
from routing.tools.model_calls import require_text
from routing.tools.texts import json_text

FOUND_MAX: Final = 5
_WORD: Final = re.compile(r"[^\W_]{2,}")
_WORDS_MAX: Final = 20
# What a word in a function's name counts for beside one in its description.
_NAME_WEIGHT: Final = 5
_DEFINITION: Final = Definition(
    "tool_search",
    "Searches for further tools by what they do. What it finds can be called afterwards.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words for what the tool should do."}
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)


class DeferredFunctions:
    """The deferred functions of a request by name; `show` makes one visible."""

    def __init__(self, functions: Mapping[str, JsonObject]) -> None:
        self._functions = dict(functions)
        self._texts = {name: _join_texts(each) for name, each in functions.items()}
        self._shown: set[str] = set()

    def hides(self, name: str) -> bool:
        return name in self._functions and name not in self._shown

    def show(self, name: str) -> None:
        self._shown.add(name)

    @property
    def shown_count(self) -> int:
        """How many of them are visible now."""
        return len(self._shown)

    def find(self, query: str) -> list[JsonObject]:
        """The functions that contain most words of the query, best first."""
        words = list(dict.fromkeys(_WORD.findall(query.lower())))[:_WORDS_MAX]
        scored = []
        for name, text in self._texts.items():
            lower = name.lower()
            score = sum(_NAME_WEIGHT if word in lower else word in text for word in words)
            scored.append((score, name))
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [self._functions[name] for _, name in found[:FOUND_MAX]]


class ToolSearch:
    """`deferred` is given by the request's toolbox."""

    time_s: float | None = None
    definition = _DEFINITION

    def __init__(self, parameters: JsonObject) -> None:
        self.deferred = DeferredFunctions({})

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        query = require_text(arguments, "query")
        found = self.deferred.find(query)
        names = [str(function["name"]) for function in found]
        for name in names:
            self.deferred.show(name)
        tools = [
            {"name": each["name"], "description": each.get("description") or ""} for each in found
        ]
        references = [{"type": "tool_reference", "tool_name": name} for name in names]
        return Result(
            json_text({"tools": tools}),
            item={"query": query, "tools": names},
            block_type="tool_search_tool_result",
            block={"type": "tool_search_tool_search_result", "tool_references": references},
        )


def _join_texts(function: JsonObject) -> str:
    """The description, and the names and descriptions of the parameters."""
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    written = [str(function.get("description") or "")]
    for name, each in (properties if isinstance(properties, dict) else {}).items():
        written.append(name)
        written.append(str(each.get("description") or "") if isinstance(each, dict) else "")
    return " ".join(written).lower()
