"""Plugins that add a server tool to the request: `web`, `web-fetch` and `fusion`."""

from collections.abc import Mapping
from typing import Final

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import TEXT_ONLY
from routing.formats.server_tools import FUSION, WEB_FETCH, WEB_SEARCH
from routing.plugins.interface import Plugin
from routing.selection.auto import AutoOptions, AutoSettings, CostTier, choose_auto_models
from routing.selection.types import Requirements
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
