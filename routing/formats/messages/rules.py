"""Rules of a messages body that span several fields (inference reference 4.1, 4.5 and 4.6).

They read a body that has passed its schema.
"""

from collections.abc import Iterator
from typing import Any

from gateway.http.validation import Issue, shortened
from routing.formats.chat.rules import cross_field_issues as chat_issues
from routing.formats.messages.schema import MessagesBody
from routing.formats.messages.tools import CUSTOM
from routing.formats.server_tools import SERVER_PREFIX


def cross_field_issues(checked: MessagesBody, models_max: int) -> list[Issue]:
    """What is wrong between the fields; empty when nothing is."""
    issues = list(_fallback_issues(checked, models_max))
    if "tool_choice" in checked:
        issues += _choice_issues(checked["tool_choice"], checked.get("tools", []))
    thinking: Any = checked.get("thinking", {})
    cap = checked.get("max_tokens")
    if cap is not None and thinking.get("budget_tokens", 0) >= cap:
        text = f"Too big: expected number to be <{cap} (max_tokens)"
        issues.append(Issue("thinking.budget_tokens", text))
    return issues


def _fallback_issues(checked: MessagesBody, models_max: int) -> Iterator[Issue]:
    models, fallbacks = checked.get("models"), checked.get("fallbacks")
    for name, given in (("models", models), ("fallbacks", fallbacks)):
        if given and len(given) > models_max:
            yield Issue(name, f"Too big: expected array to have <={models_max} items")
    if models and fallbacks:
        yield Issue("fallbacks", "Invalid input: cannot be combined with models")


def agent_issues(body: dict[str, Any]) -> list[Issue]:
    """What is wrong with the tools that are models of their own. The checked body has lost the
    settings that are not for this format, so this one is the caller's."""
    return chat_issues({"tools": [_as_in_chat(tool) for tool in body.get("tools", ())]})


def _as_in_chat(tool: Any) -> dict[str, Any]:
    """The type and settings; what the caller's own tools are otherwise is no matter of chat's."""
    return {"type": tool.get("type") or CUSTOM, "parameters": tool.get("parameters", {})}


def _choice_issues(choice: Any, tools: list[Any]) -> Iterator[Issue]:
    if choice["type"] == "any" and not tools:
        yield Issue("tool_choice", "Invalid input: any needs at least one tool")
    elif choice["type"] == "tool" and choice["name"] not in map(_name, tools):
        text = f'Invalid input: no tool named "{shortened(choice["name"])}" in tools'
        yield Issue("tool_choice.name", text)


def _name(tool: dict[str, Any]) -> str | None:
    kind = tool.get("type") or ""
    own = kind.removeprefix(SERVER_PREFIX) if kind.startswith(SERVER_PREFIX) else None
    return tool.get("name") or own
