"""The adapters, by wire kind, and one call to an upstream beside all requests."""

import time
from typing import Final

from django.conf import settings

from gateway.outbound.http_client import HttpClient, Limits, Origin
from gateway.outbound.reply import Reply
from routing.entities.exchange import Prompt, Terms, Wire
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.decisions import DECISIONS
from routing.upstreams.embeddings import EMBEDDINGS
from routing.upstreams.openai import OPENAI
from routing.upstreams.responses.wire import RESPONSES

_CHAT: Final = (OPENAI, ANTHROPIC, RESPONSES)
_WIRES: Final[dict[str, Wire]] = {wire.kind: wire for wire in (*_CHAT, DECISIONS, EMBEDDINGS)}
# Those that can answer a conversation.
CHAT_KINDS: Final = frozenset(wire.kind for wire in _CHAT)


def get_wire(kind: str) -> Wire:
    """The adapter of an endpoint that can be chosen."""
    return _WIRES[kind]


_CONNECT_S: Final = 5.0
_BODY_BYTES_MAX: Final = 1024 * 1024


def call_once(base_url: str, kind: str, prompt: Prompt, terms: Terms, *, total_s: float) -> Reply:
    """Send the prompt in the words of that wire kind: nothing is held, charged or recorded. Raises
    `OutboundError` and ValueError."""
    wire = get_wire(kind).request(prompt, terms)
    # A client of its own, because operators' pages may run in another thread than requests. A
    # socket that came back to the shared pool from there would not wake up under this one's event
    # loop.
    client = HttpClient(pool_size_per_origin=0, proxy=settings.ROUTER_UPSTREAM_PROXY or None)
    return client.send(
        Origin.parse(base_url),
        method="POST",
        path=wire.path,
        headers=wire.headers,
        body=wire.body,
        limits=Limits(min(_CONNECT_S, total_s), total_s, total_s, _BODY_BYTES_MAX),
        deadline=time.monotonic() + total_s,
    )
