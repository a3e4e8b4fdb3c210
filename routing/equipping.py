"""The server tools of a request: whether something runs them, and how its model sees them."""

from collections.abc import Iterator

from gateway.http.errors import InvalidRequest
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.server_tools import canonical_tool
from routing.plugins.registry import missing as missing_plugins
from routing.serving.loop import Loop, with_tools
from routing.tools.registry import missing
from routing.tools.toolbox import Toolbox


def refuse_what_nothing_runs(chat: ChatRequest) -> None:
    """Raise `InvalidRequest` for server tools and plugins without a backend."""
    lacking = missing_plugins(chat.plugins)
    if chat.server_tools:
        lacking = _missing_tools(chat) + lacking
    if lacking:
        raise InvalidRequest(f"server tool not available: {', '.join(lacking)}")


def _missing_tools(chat: ChatRequest) -> list[str]:
    """Tools that nothing here runs. Those that a provider runs cannot stand beside the gateway's,
    nor the gateway's inside of them: what is told to the model has one author."""
    tools = chat.body.get("tools") or ()
    named = {canonical_tool(tool["type"]) for tool in tools}
    inside = [kind for kind in chat.server_tools if kind not in named]
    return missing(tools) + inside + list(dict.fromkeys(_of_providers(chat)))


def _of_providers(chat: ChatRequest) -> Iterator[str]:
    """The types of tools that only an upstream of the caller's own format knows."""
    yield from chat.native_tools
    if chat.format == MESSAGES.name and chat.original is not None:
        kinds = (str(tool.get("type") or "custom") for tool in chat.original.get("tools", ()))
        yield from (kind for kind in kinds if kind != "custom" and not kind.startswith("router:"))


def equipped(chat: ChatRequest) -> tuple[ChatRequest, Loop | None]:
    """The request as its model is asked, and the loop where it names server tools."""
    if not chat.server_tools:
        return chat, None
    toolbox = Toolbox(chat.body["tools"])
    return with_tools(chat, toolbox), Loop(chat, toolbox)
