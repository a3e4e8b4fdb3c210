"""`fusion`: the tool of that name, with a panel that may be one of three prepared ones."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.live_settings import settings
from routing.catalogue.snapshot import catalogue
from routing.formats.chat.request import TEXT_ONLY
from routing.plugins.interface import Plugin
from routing.selection.auto import AutoOptions, AutoSettings, CostTier, choose_auto_models
from routing.selection.types import Requirements
from routing.upstreams.wires import CHAT_KINDS

# The band of prices that a panel is taken of, and the suffix its models are asked with.
PRESETS: Final[Mapping[str, tuple[CostTier, str]]] = {
    "general-high": ("max", ""),
    "general-budget": ("low", ":floor"),
    "general-fast": ("medium", ":nitro"),
}
_OF_THE_TOOL: Final = ("analysis_models", "model", "max_tool_calls", "tools")


class Fusion(Plugin):
    """Models that the caller names come before those of a preset."""

    def tools(self) -> list[dict[str, Any]]:
        given: dict[str, Any] = {
            name: self.settings[name] for name in _OF_THE_TOOL if name in self.settings
        }
        if "preset" in self.settings and (panel := panel_of(self.settings["preset"])):
            given = {"analysis_models": panel} | given
        return [{"type": "router:fusion", "parameters": given}]


def panel_of(preset: str) -> list[str]:
    """Three models at most, of those that `router/auto` may choose from."""
    tier, suffix = PRESETS[preset]
    ask = Requirements(kinds=CHAT_KINDS, input_modalities=TEXT_ONLY, output_modalities=TEXT_ONLY)
    auto = AutoSettings(candidates=tuple(settings.ROUTER_AUTO_MODELS))
    models = choose_auto_models(catalogue.current(), ask, auto, AutoOptions(cost_tier=tier))
    return [f"{model.id}{suffix}" for model in models]
