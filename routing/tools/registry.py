"""Which server tools there are here, and what runs them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from django.utils.module_loading import import_string

from gateway.live_settings import settings
from routing.formats.server_tools import WEB_SEARCH, canonical_tool, list_named_models
from routing.tools.advisor import Advisor
from routing.tools.apply_patch import ApplyPatch
from routing.tools.datetime import Datetime
from routing.tools.files import Files
from routing.tools.fusion import Fusion
from routing.tools.image_generation import ImageGeneration, any_image_model
from routing.tools.interface import Maker
from routing.tools.search_models import SearchModels
from routing.tools.shell import Bash, Shell, can_run
from routing.tools.subagent import Subagent
from routing.tools.tool_search import ToolSearch
from routing.tools.web.fetch import WebFetch, fetches_here
from routing.tools.web.search import WebSearch, searches_here

BUILT_IN: Final[Mapping[str, Maker]] = {
    "router:advisor": Advisor,
    "router:apply_patch": ApplyPatch,
    "router:bash": Bash,
    "router:datetime": Datetime,
    "router:experimental__search_models": SearchModels,
    "router:files": Files,
    "router:fusion": Fusion,
    "router:image_generation": ImageGeneration,
    "router:shell": Shell,
    "router:subagent": Subagent,
    "router:tool_search": ToolSearch,
    "router:web_fetch": WebFetch,
    "router:web_search": WebSearch,
}
# What must be there for a built-in tool to do anything.
_NEEDS: Final[Mapping[str, Callable[[dict[str, Any]], bool]]] = {
    "router:apply_patch": can_run,
    "router:bash": can_run,
    "router:files": can_run,
    "router:image_generation": any_image_model,
    "router:shell": can_run,
    "router:web_fetch": fetches_here,
    "router:web_search": searches_here,
}


def maker_of(kind: str) -> Maker | None:
    """What makes a tool of that type (`router:...`) of the caller's parameters; None where nothing
    here runs it. A backend that the operator configured comes before a built-in one."""
    path = settings.ROUTER_TOOL_BACKENDS.get(kind)
    return _loaded(path) if path else BUILT_IN.get(kind)


def missing(tools: Iterable[dict[str, Any]]) -> list[str]:
    """The server tools among checked tools, those that a tool may use included, that nothing here
    can run."""
    return list(dict.fromkeys(kind for kind, settings in _all(tools) if not _runs(kind, settings)))


def models_asked(tools: Iterable[dict[str, Any]]) -> list[str]:
    """The models that checked server tools are to ask, as they are named."""
    return [model for kind, settings in _all(tools) for model in list_named_models(kind, settings)]


def parameters_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a checked server tool; those of a shorthand may stand beside its type."""
    inner: dict[str, Any] = tool.get("parameters") or {}
    if canonical_tool(tool["type"]) != WEB_SEARCH:
        return inner
    return {name: each for name, each in tool.items() if name not in _FRAME} | inner


_FRAME: Final = frozenset({"type", "parameters", "name", "cache_control"})


def _all(tools: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in tools:
        if tool["type"] != "function":
            settings = parameters_of(tool)
            yield canonical_tool(tool["type"]), settings
            yield from _all(settings.get("tools") or ())


def _runs(kind: str, given: dict[str, Any]) -> bool:
    if kind in settings.ROUTER_TOOL_BACKENDS:
        # What a backend of the operator's own needs is its own affair.
        return True
    needs = _NEEDS.get(kind)
    return kind in BUILT_IN and (needs is None or needs(given))


@cache
def _loaded(path: str) -> Maker:
    maker: Maker = import_string(path)
    return maker
