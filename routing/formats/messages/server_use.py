"""Server tools that the gateway ran as blocks (inference reference 4.3.1).

Their ids say whose they are: no provider knows of them, so they are taken out when they come back.
"""

from typing import Any, Final

import pydantic_core

from gateway.http.jsonio import dumps
from routing.formats.caller import Activity
from routing.formats.messages.pieces import DIRECT
from routing.formats.server_tools import SERVER_PREFIX, WEB_FETCH, WEB_SEARCH

OWN_PREFIX: Final = "srvtoolu_router_"


def use_of(activity: Activity) -> tuple[dict[str, Any], str]:
    """The block of a call, and its input as JSON."""
    value = _input(activity.arguments)
    block = {
        "type": "server_tool_use",
        "id": _id(activity),
        "name": activity.tool.removeprefix(SERVER_PREFIX),
        "input": value,
        "caller": DIRECT,
    }
    return block, dumps(value).decode() if value else ""


def result_of(activity: Activity) -> dict[str, Any] | None:
    """The block of its result, where the format has one for the tool."""
    if activity.block_type is None:
        kind = _OF_THE_WEB.get(activity.tool)
        return _failed(activity, kind) if kind is not None else None
    said = {"type": activity.block_type, "tool_use_id": _id(activity), "content": activity.block}
    return said | ({"caller": DIRECT} if activity.block_type in _WITH_CALLER else {})


def _failed(activity: Activity, kind: str) -> dict[str, Any]:
    """A tool that was stopped, or was not run, says nothing itself."""
    error = {"type": f"{kind}_error", "error_code": "unavailable"}
    return {"type": kind, "tool_use_id": _id(activity), "content": error, "caller": DIRECT}


def fetches_of(activity: Activity) -> int:
    """How many pages a call counts as in the usage."""
    return int(activity.tool == WEB_FETCH and activity.status == "completed")


_OF_THE_WEB: Final = {WEB_SEARCH: "web_search_tool_result", WEB_FETCH: "web_fetch_tool_result"}
_WITH_CALLER: Final = frozenset({"web_search_tool_result", "web_fetch_tool_result"})


def is_own_use(block: dict[str, Any]) -> bool:
    """Whether the block tells of a tool that the gateway ran."""
    kind = block["type"]
    named = block.get("id") if kind == "server_tool_use" else block.get("tool_use_id")
    return isinstance(named, str) and named.startswith(OWN_PREFIX)


def _id(activity: Activity) -> str:
    """Made of the call's own id, so that both its blocks have the same."""
    plain = "".join(each for each in activity.call_id if each.isascii() and each.isalnum())
    return f"{OWN_PREFIX}{plain[-32:]}_{activity.index}"


def _input(arguments: str) -> Any:
    try:
        value = pydantic_core.from_json(arguments or "{}", allow_inf_nan=False)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
