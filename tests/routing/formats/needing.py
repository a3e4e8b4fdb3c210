"""What a request needs something to run for."""

from routing.formats.chat.request import ChatRequest
from routing.plugins.registry import missing


def needed(request: ChatRequest) -> list[str]:
    """Its server tools, and its plugins whose work nothing here does."""
    return request.server_tools + missing(request.plugins)
