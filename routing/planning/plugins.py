"""The plugins of a request: which are in force, and what they make of it before it is planned."""

from collections.abc import Callable, Sequence

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.formats.chat.request import ChatRequest
from routing.plugins.interface import Plugin, PluginContext
from routing.plugins.registry import build_plugins, list_missing
from routing.plugins.texts import with_more_tools
from routing.selection.model_references import parse_reference


def add_plugins(chat: ChatRequest, default_model: str) -> tuple[ChatRequest, tuple[Plugin, ...]]:
    """The request with the server tools that its plugins add, and these. Plugins that nothing here
    carries out are left out: whoever plans the request refuses them."""
    entries = _list_enabled(chat, chat.candidates or [default_model])
    if not entries:
        return chat, ()
    lacking = list_missing(entries)
    plugins = build_plugins(each for each in entries if each["id"] not in lacking)
    for plugin in plugins:
        chat = with_more_tools(chat, plugin.tools())
    return chat, plugins


def reshape_request(
    plugins: Sequence[Plugin], chat: ChatRequest, context: PluginContext
) -> ChatRequest:
    """The request after its plugins, `chat` itself where none changes it. Raises `GatewayError`."""
    for plugin in plugins:
        chat = plugin.asked(chat, context)
    return chat


def find_plugin_refusal(
    plugins: Sequence[Plugin], chat: ChatRequest, context: PluginContext
) -> Callable[[], GatewayError] | None:
    """Why one of the plugins does not let the request go on. Raises `GatewayError`."""
    refusals = (plugin.judged(chat, context) for plugin in plugins)
    return next((each for each in refusals if each is not None), None)


def _list_enabled(chat: ChatRequest, references: Sequence[str]) -> list[JsonObject]:
    """The entries of `plugins`, and those that a suffix of a model stands for. An entry of its own
    has the last word."""
    if not any(":" in reference for reference in references):
        return chat.plugins
    effects = (effect for reference in references for effect in parse_reference(reference).effects)
    ids = dict.fromkeys(effect.plugin for effect in effects if effect.plugin is not None)
    own_ids = {entry["id"] for entry in chat.plugins}
    return [*chat.plugins, *({"id": each} for each in ids if each not in own_ids)]
