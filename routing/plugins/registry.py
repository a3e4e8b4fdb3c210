"""The plugins of this gateway by id, those that only add a server tool (`web`, `web-fetch` and
`fusion`), and those of a request."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.utils.module_loading import import_string

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import TEXT_ONLY, ChatRequest
from routing.formats.server_tools import FUSION, WEB_FETCH, WEB_SEARCH
from routing.plugins.context_compression import ContextCompression
from routing.plugins.file_parser import FileParser
from routing.plugins.interface import Maker, Plugin, with_more_tools
from routing.plugins.moderation import Moderation
from routing.plugins.response_healing import ResponseHealing
from routing.plugins.semantic_cache import SemanticCache
from routing.selection.auto import AutoOptions, AutoSettings, CostTier, choose_auto_models
from routing.selection.model_references import parse_reference
from routing.selection.types import Requirements
from routing.tools.registry import list_missing as missing_tools
from routing.upstreams.wires import CHAT_KINDS

# What a setting of the plugin is called in the tool.
_OF_SEARCH: Final = {
    "engine": "engine",
    "mode": "mode",
    "max_results": "max_results",
    "max_uses": "max_uses",
    "search_prompt": "search_prompt",
    "include_domains": "allowed_domains",
    "exclude_domains": "excluded_domains",
    "user_location": "user_location",
}
_OF_FETCHING: Final = ("max_uses", "max_content_tokens", "allowed_domains", "blocked_domains")


class WebSearchOffer(Plugin):
    """`web`, and `:online` behind a model: `router:web_search`."""

    def tools(self) -> list[JsonObject]:
        given = {
            called: self.settings[name]
            for name, called in _OF_SEARCH.items()
            if self.settings.get(name) is not None
        }
        return [{"type": WEB_SEARCH, "parameters": given}]


class WebFetchOffer(Plugin):
    """`web-fetch`: `router:web_fetch`."""

    def tools(self) -> list[JsonObject]:
        given = {name: self.settings[name] for name in _OF_FETCHING if name in self.settings}
        return [{"type": WEB_FETCH, "parameters": given}]


# The band of prices that a panel is taken of, and the suffix its models are asked with.
PRESETS: Final[Mapping[str, tuple[CostTier, str]]] = {
    "general-high": ("max", ""),
    "general-budget": ("low", ":floor"),
    "general-fast": ("medium", ":nitro"),
}
_OF_THE_TOOL: Final = ("analysis_models", "model", "max_tool_calls", "tools")


class FusionOffer(Plugin):
    """Models that the caller names come before those of a preset."""

    def tools(self) -> list[JsonObject]:
        given: JsonObject = {
            name: self.settings[name] for name in _OF_THE_TOOL if name in self.settings
        }
        if "preset" in self.settings and (panel := choose_panel(self.settings["preset"])):
            given = {"analysis_models": panel} | given
        return [{"type": FUSION, "parameters": given}]


def choose_panel(preset: str) -> list[str]:
    """Three models at most, of those that `router/auto` may choose from."""
    tier, suffix = PRESETS[preset]
    ask = Requirements(kinds=CHAT_KINDS, input_modalities=TEXT_ONLY, output_modalities=TEXT_ONLY)
    auto = AutoSettings(candidates=tuple(settings.ROUTER_AUTO_MODELS))
    models = choose_auto_models(catalogue.current(), ask, auto, AutoOptions(cost_tier=tier))
    return [f"{model.id}{suffix}" for model in models]


BUILT_IN: Final[Mapping[str, Maker]] = {
    "context-compression": ContextCompression,
    "file-parser": FileParser,
    "fusion": FusionOffer,
    "moderation": Moderation,
    "response-healing": ResponseHealing,
    "semantic-cache": SemanticCache,
    "web": WebSearchOffer,
    "web-fetch": WebFetchOffer,
}
# Plugins that are settings of a virtual router, and ignored for other models.
OF_ROUTERS: Final = frozenset(
    {"auto-router", "auto-beta-router", "pareto-router", "jev-router", "switchyard-router"}
)

# Plugins without a field `enabled`: naming one switches it on.
_WITHOUT_SWITCH: Final = frozenset({"moderation"})


def maker_of(plugin_id: str) -> Maker | None:
    """The maker of a plugin; None if there is none. A backend that the operator configured
    (`ROUTER_TOOL_BACKENDS`) takes precedence."""
    path = settings.ROUTER_TOOL_BACKENDS.get(plugin_id)
    return import_string(path) if path else BUILT_IN.get(plugin_id)


def list_missing(entries: Iterable[JsonObject]) -> list[str]:
    """Ids of the switched-on plugins that are not available here."""
    return [
        entry["id"]
        for entry in entries
        if _is_on(entry)
        and entry["id"] not in OF_ROUTERS
        and ((maker := maker_of(entry["id"])) is None or missing_tools(maker(entry).tools()))
    ]


def add_plugins(chat: ChatRequest, default_model: str) -> tuple[ChatRequest, tuple[Plugin, ...]]:
    """The request with the server tools that its plugins add, and the plugins. These are the
    entries of `plugins`, and those that a suffix of a model stands for. Plugins that nothing here
    carries out are left out: planning refuses them."""
    entries, references = chat.plugins, chat.candidates or [default_model]
    if any(":" in reference for reference in references):
        effects = (effect for name in references for effect in parse_reference(name).effects)
        ids = dict.fromkeys(effect.plugin for effect in effects if effect.plugin is not None)
        # An entry of its own has the last word.
        own_ids = {entry["id"] for entry in entries}
        entries = [*entries, *({"id": each} for each in ids if each not in own_ids)]
    if not entries:
        return chat, ()
    lacking = list_missing(entries)
    plugins = build_plugins(each for each in entries if each["id"] not in lacking)
    for plugin in plugins:
        chat = with_more_tools(chat, plugin.tools())
    return chat, plugins


def build_plugins(entries: Iterable[JsonObject]) -> tuple[Plugin, ...]:
    """The plugins of a request that are switched on and available."""
    return tuple(
        maker(entry)
        for entry in entries
        if _is_on(entry) and (maker := maker_of(entry["id"])) is not None
    )


def _is_on(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("enabled", True)) or entry["id"] in _WITHOUT_SWITCH
