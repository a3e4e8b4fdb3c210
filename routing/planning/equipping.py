"""The server tools of a request: whether something runs them, and how its model sees them."""

from collections.abc import Iterator

from gateway.http.errors import InvalidRequest
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import ChatRequest
from routing.formats.provider_tools import list_provider_tools
from routing.formats.server_tools import TOOL_SEARCH, canonical_tool
from routing.plugins.registry import list_missing as missing_plugins
from routing.selection.model_references import parse_reference
from routing.serving.request.loop import Loop, with_tools
from routing.tools.registry import list_asked_models, list_missing
from routing.tools.toolbox import Toolbox


def refuse_what_nothing_runs(chat: ChatRequest) -> None:
    """Raise `InvalidRequest` for server tools and plugins without a backend."""
    lacking = missing_plugins(chat.plugins)
    if chat.server_tools:
        lacking = _missing_tools(chat) + lacking + _missing_of_models(chat)
    if lacking:
        raise InvalidRequest(f"server tool not available: {', '.join(dict.fromkeys(lacking))}")


def _missing_tools(chat: ChatRequest) -> list[str]:
    """Tools that nothing here runs. Those that a provider runs cannot stand beside the gateway's,
    nor the gateway's inside of them: what is told to the model has one author."""
    tools = chat.body.get("tools") or ()
    named = {canonical_tool(tool["type"]) for tool in tools}
    inside = [kind for kind in chat.server_tools if kind not in named]
    return list(dict.fromkeys((*list_missing(tools), *inside, *list_provider_tools(chat))))


def _missing_of_models(chat: ChatRequest) -> list[str]:
    """Plugins that suffixes of the models stand for which tools are to ask. What the request says
    of its own plugins is not said of theirs."""
    models = list_asked_models(chat.body.get("tools") or ())
    effects = {model: parse_reference(model).effects for model in models if ":" in model}
    named = [
        effect.plugin
        for model, found in effects.items()
        for effect in found
        if effect.plugin is not None and catalogue.current().model(model) is None
    ]
    return missing_plugins([{"id": each} for each in named])


def equipped(chat: ChatRequest) -> tuple[ChatRequest, Loop | None]:
    """The request as its model is asked, and the loop where it names server tools."""
    if not chat.server_tools:
        return chat, None
    toolbox = Toolbox(chat.body["tools"], _called(chat))
    return with_tools(chat, toolbox), Loop(chat, toolbox)


def _called(chat: ChatRequest) -> Iterator[str]:
    """The functions that the conversation has calls of, or that the model is to call."""
    if TOOL_SEARCH not in chat.server_tools:
        return
    for message in chat.body["messages"]:
        yield from (call["function"]["name"] for call in message.get("tool_calls") or ())
    choice = chat.body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] == "function":
        yield choice["function"]["name"]
