"""The plugins of this gateway, by id."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from django.utils.module_loading import import_string

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from routing.plugins.context_compression import ContextCompression
from routing.plugins.file_parser import FileParser
from routing.plugins.interface import Maker, Plugin
from routing.plugins.moderation import Moderation
from routing.plugins.response_healing import ResponseHealing
from routing.plugins.tool_plugins import FusionOffer, WebFetchOffer, WebSearchOffer
from routing.tools.registry import list_missing as missing_tools

BUILT_IN: Final[Mapping[str, Maker]] = {
    "context-compression": ContextCompression,
    "file-parser": FileParser,
    "fusion": FusionOffer,
    "moderation": Moderation,
    "response-healing": ResponseHealing,
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
    return _load_maker(path) if path else BUILT_IN.get(plugin_id)


def list_missing(entries: Iterable[JsonObject]) -> list[str]:
    """Ids of the switched-on plugins that are not available here."""
    return [
        entry["id"]
        for entry in entries
        if _is_on(entry) and entry["id"] not in OF_ROUTERS and not _is_available(entry)
    ]


def build_plugins(entries: Iterable[JsonObject]) -> tuple[Plugin, ...]:
    """The plugins of a request that are switched on and available."""
    return tuple(
        maker(entry)
        for entry in entries
        if _is_on(entry) and (maker := maker_of(entry["id"])) is not None
    )


def _is_on(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("enabled", True)) or entry["id"] in _WITHOUT_SWITCH


def _is_available(entry: JsonObject) -> bool:
    maker = maker_of(entry["id"])
    return maker is not None and not missing_tools(maker(entry).tools())


@cache
def _load_maker(path: str) -> Maker:
    maker: Maker = import_string(path)
    return maker
