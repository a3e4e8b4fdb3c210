"""What a request needs something to run for."""

from routing.formats.chat.request import ChatRequest
from routing.formats.plugins import plugins_without_backend


def needed(request: ChatRequest) -> list[str]:
    """Its server tools, and its plugins whose work nothing here does."""
    return request.server_tools + plugins_without_backend(request.plugins)
