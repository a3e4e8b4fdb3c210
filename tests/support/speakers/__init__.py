"""Callers of the three formats behind one face: what they ask, what they hear."""

from tests.support.speakers.base import Call, Counts, Said, Speaker, Streamed, read_stream
from tests.support.speakers.chat import Chat
from tests.support.speakers.messages import Messages
from tests.support.speakers.responses import Responses

SPEAKERS: dict[str, Speaker] = {
    speaker.name: speaker for speaker in (Chat(), Messages(), Responses())
}

__all__ = ["SPEAKERS", "Call", "Counts", "Said", "Speaker", "Streamed", "read_stream"]
