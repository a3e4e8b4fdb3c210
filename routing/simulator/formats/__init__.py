"""The wire formats, by the resource that speaks them."""

from routing.simulator.formats.base import Complaint, Format, Speaker, Stream
from routing.simulator.formats.chat import Chat
from routing.simulator.formats.messages import Messages
from routing.simulator.formats.responses import Responses

CHAT = Chat()
FORMATS: dict[str, Format] = {
    "chat/completions": CHAT,
    "messages": Messages(),
    "responses": Responses(),
}

__all__ = ["CHAT", "FORMATS", "Complaint", "Format", "Speaker", "Stream"]
