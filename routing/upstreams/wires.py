"""The adapters, by wire kind."""

from typing import Final

from routing.exchange import Wire
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.openai import OPENAI
from routing.upstreams.responses.wire import RESPONSES

_WIRES: Final[dict[str, Wire]] = {wire.kind: wire for wire in (OPENAI, ANTHROPIC, RESPONSES)}
KINDS: Final = frozenset(_WIRES)


def wire_of(kind: str) -> Wire:
    """The adapter of an endpoint that can be chosen: the kind is one of `KINDS`."""
    return _WIRES[kind]
