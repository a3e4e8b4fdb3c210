"""A preset's `tool_choice` and `response_format` in the words of each caller format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from routing.formats.server_tools import SERVER_PREFIX, canonical_tool
from routing.presets.tools import identity

# How messages call a mode, and how the other two do.
_MODES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}
_IN_MESSAGES: Final[Mapping[str, str]] = {mode: kind for kind, mode in _MODES.items()}


class Choice(NamedTuple):
    """One of a mode, a tool's name or a server tool's type; `given` as the preset keeps it."""

    given: Any
    mode: str | None = None
    name: str | None = None
    kind: str | None = None


def one_at_a_time(given: Any) -> bool:
    """Whether a kept choice forbids parallel calls, which messages say here."""
    return isinstance(given, dict) and given.get("disable_parallel_tool_use") is True


def choice_in(format: str, given: Any, tools: Sequence[dict[str, Any]]) -> Any:
    """The choice among these tools of that format; None where it has no way to say it."""
    choice = _read(given)
    if choice is None:
        return given if format == "responses" else None
    return _CHOICES[format](choice, {identity(tool) for tool in tools})


def _read(given: Any) -> Choice | None:
    """None for a choice that only the responses format has."""
    if isinstance(given, str):
        return Choice(given, mode=given)
    kind = given["type"]
    if kind in _MODES:
        return Choice(given, mode=_MODES[kind])
    if kind in ("function", "tool"):
        return Choice(given, name=given.get("function", given)["name"])
    if kind == "allowed_tools":
        return Choice(given, mode=given["mode"])
    return None if kind in ("custom", "mcp") else Choice(given, kind=canonical_tool(kind))


def _tool_of(choice: Choice, tools: set[object]) -> Choice:
    """A messages choice names server tools as it names functions."""
    own = f"{SERVER_PREFIX}{choice.name}"
    if choice.name is None or ("function", choice.name) in tools or (own, None) not in tools:
        return choice
    return choice._replace(name=None, kind=own)


def _in_chat(choice: Choice, tools: set[object]) -> Any:
    choice = _tool_of(choice, tools)
    if choice.mode is not None:
        return choice.mode
    if choice.kind is not None:
        return {"type": choice.kind} if (choice.kind, None) in tools else None
    chosen = {"type": "function", "function": {"name": choice.name}}
    return chosen if ("function", choice.name) in tools else None


def _in_responses(choice: Choice, tools: set[object]) -> Any:
    given = choice.given
    if isinstance(given, dict) and given["type"] == "allowed_tools":
        return given
    choice = _tool_of(choice, tools)
    if choice.mode is not None:
        return choice.mode
    if choice.kind is not None:
        # In these words a shorthand is a tool of its own.
        kind = choice.kind if given["type"] == "tool" else given["type"]
        return {"type": kind} if (choice.kind, None) in tools else None
    chosen = {"type": "function", "name": choice.name}
    return chosen if ("function", choice.name) in tools else None


def _in_messages(choice: Choice, tools: set[object]) -> Any:
    if isinstance(choice.given, dict) and choice.given["type"] in (*_MODES, "tool"):
        return choice.given
    if choice.mode is not None:
        return {"type": _IN_MESSAGES[choice.mode]}
    if choice.kind is not None:
        chosen = {"type": "tool", "name": choice.kind.removeprefix(SERVER_PREFIX)}
        return chosen if (choice.kind, None) in tools else None
    named = {"type": "tool", "name": choice.name}
    return named if ("function", choice.name) in tools else None


_CHOICES: Final[Mapping[str, Callable[[Choice, set[object]], Any]]] = {
    "chat": _in_chat,
    "responses": _in_responses,
    "messages": _in_messages,
}


def chat_response_format(kept: dict[str, Any]) -> dict[str, Any]:
    """A kept `response_format` as chat says it."""
    if kept["type"] != "json_schema" or "json_schema" in kept:
        return kept
    named = {name: value for name, value in kept.items() if name != "type" and value is not None}
    # Messages give the schema no name and always mean it strictly.
    unnamed = {} if "name" in named else {"name": "response", "strict": True}
    return {"type": "json_schema", "json_schema": {**unnamed, **named}}


def text_format(kept: dict[str, Any]) -> dict[str, Any] | None:
    """The same as `text.format` of a responses body; None for what it has no words for."""
    kept = chat_response_format(kept)
    if kept["type"] != "json_schema":
        return kept if kept["type"] in ("text", "json_object") else None
    said = {name: value for name, value in kept["json_schema"].items() if value is not None}
    return {"type": "json_schema", "schema": {}, **said}
