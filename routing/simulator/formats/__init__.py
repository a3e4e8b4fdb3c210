"""The wire formats, by the resource that speaks them."""

from routing.simulator.formats.base import (
    Complaint,
    SimulatedFormat,
    SimulatedStream,
    StreamSpeaker,
)
from routing.simulator.formats.chat import SimulatedChat
from routing.simulator.formats.decisions import SimulatedDecisions
from routing.simulator.formats.embeddings import SimulatedEmbeddings
from routing.simulator.formats.messages import SimulatedMessages
from routing.simulator.formats.responses import SimulatedResponses

CHAT = SimulatedChat()
DECISIONS = SimulatedDecisions()
FORMATS: dict[str, SimulatedFormat] = {
    "chat/completions": CHAT,
    "embeddings": SimulatedEmbeddings(),
    "messages": SimulatedMessages(),
    "responses": SimulatedResponses(),
    "systemone": DECISIONS,
}

__all__ = [
    "CHAT",
    "DECISIONS",
    "FORMATS",
    "Complaint",
    "SimulatedFormat",
    "SimulatedStream",
    "StreamSpeaker",
]
