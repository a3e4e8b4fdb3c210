"""Another vendor's words for what is called `router…` here, turned into ours at the door.

Its clients then need another base URL and nothing else. A request without the vendor's word pays
for one search in its bytes and a few look-ups among its headers.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.eventloop import yield_control

_HEADERS: Final = (
    *("TITLE", "CATEGORIES", "METADATA", "EXPERIMENTAL_METADATA"),
    *("CACHE", "CACHE_TTL", "CACHE_CLEAR"),
)
# Keys whose values are types of tools or names of models, or lists of them.
_NAMING: Final = frozenset(
    {
        *("type", "tool_name", "disabled_server_tools"),
        *("model", "models", "analysis_models", "default_text_model"),
    }
)
# Keys of objects, or of lists of them, with such keys inside. Texts, arguments and schemas are the
# caller's own.
_HOLDING: Final = frozenset(
    {
        *("tools", "tool_choice", "plugins", "fallbacks", "input", "stop_server_tools_when"),
        # Of a server tool: a function's are a schema.
        "parameters",
    }
)
_TOOL, _MODEL = "router:", "router/"
# So many objects take some ten milliseconds.
_OBJECTS_AT_ONCE: Final = 10_000
_routers: list[Callable[[str, str], bool]] = [lambda theirs, ours: True]


def register_router_check(check: Callable[[str, str], bool]) -> None:
    """Let `check` tell whether the vendor's name of a model stands for our name of it: the
    catalogue may hold a model of the former. The last one given counts."""
    _routers[:] = [check]


def map_header_names(vendors: Iterable[str]) -> dict[str, str]:
    """The vendors' headers as WSGI spells them, and ours for each."""
    return {
        f"HTTP_X_{vendor.upper()}_{name}": f"HTTP_X_ROUTER_{name}"
        for vendor in vendors
        for name in _HEADERS
    }


def replace_vendor_headers(environ: dict[str, Any], own_names: dict[str, str]) -> None:
    """Give each header its own name as well, unless the request has that one."""
    for theirs in own_names.keys() & environ.keys():
        environ.setdefault(own_names[theirs], environ[theirs])


def replace_vendor_names(value: object, vendor: str) -> None:
    """Replace the vendor's names of tools and models in a parsed body, in place."""
    if isinstance(value, list):
        for place, each in enumerate(value, 1):
            replace_vendor_names(each, vendor)
            if place % _OBJECTS_AT_ONCE == 0:
                yield_control()
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in _NAMING:
                value[key] = _replace_name(inner, vendor)
        is_of_server = str(value.get("type")).startswith(_TOOL)
        for key in _HOLDING & value.keys():
            if key != "parameters" or is_of_server:
                replace_vendor_names(value[key], vendor)


def _replace_name(value: object, vendor: str) -> Any:
    if isinstance(value, list):
        return [_replace_name(each, vendor) if isinstance(each, str) else each for each in value]
    if not isinstance(value, str) or not value.startswith(vendor):
        return value
    rest = value[len(vendor) + 1 :]
    if value.startswith(f"{vendor}:"):
        return _TOOL + rest
    is_router = value.startswith(f"{vendor}/") and _routers[0](value, _MODEL + rest)
    return _MODEL + rest if is_router else value
