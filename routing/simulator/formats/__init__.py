"""The wire formats, by the resource that speaks them."""

from routing.simulator.formats.base import Complaint, Format, Speaker, Stream
from routing.simulator.formats.chat import Chat
from routing.simulator.formats.decisions import Decisions
from routing.simulator.formats.messages import Messages
from routing.simulator.formats.responses import Responses

CHAT = Chat()
DECISIONS = Decisions()
FORMATS: dict[str, Format] = {
    "chat/completions": CHAT,
    "messages": Messages(),
    "responses": Responses(),
    "systemone": DECISIONS,
}

__all__ = ["CHAT", "DECISIONS", "FORMATS", "Complaint", "Format", "Speaker", "Stream"]
