"""The adapters, by wire kind."""

from typing import Final

from routing.entities.exchange import Wire
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.decisions import DECISIONS
from routing.upstreams.openai import OPENAI
from routing.upstreams.responses.wire import RESPONSES

_CHAT: Final = (OPENAI, ANTHROPIC, RESPONSES)
_WIRES: Final[dict[str, Wire]] = {wire.kind: wire for wire in (*_CHAT, DECISIONS)}
# Those that can answer a conversation.
CHAT_KINDS: Final = frozenset(wire.kind for wire in _CHAT)


def get_wire(kind: str) -> Wire:
    """The adapter of an endpoint that can be chosen."""
    return _WIRES[kind]
