"""Tools of a request that only an upstream of the caller's own format can run."""

from collections.abc import Iterator

from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.server_tools import SERVER_PREFIX


def list_provider_tools(chat: ChatRequest) -> Iterator[str]:
    """Their types. Such a request is not translated."""
    yield from chat.native_tools
    if chat.format == MESSAGES.name and chat.original is not None:
        kinds = (str(tool.get("type") or "custom") for tool in chat.original.get("tools", ()))
        yield from (kind for kind in kinds if kind != "custom" and not _is_ours(kind))


def _is_ours(kind: str) -> bool:
    return kind.startswith(SERVER_PREFIX)
