"""`context-compression`: a conversation that is too long for a model is made to fit."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from gevent.threadpool import ThreadPool

from gateway.eventloop import run_in_thread
from gateway.http.large import pause_collector
from routing.entities.entries import EndpointEntry
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import CHARS_PER_TOKEN
from routing.plugins.interface import Plugin
from routing.plugins.middle_out import fixed_chars, sizes_of, without_middle
from routing.plugins.texts import with_messages

ID: Final = "context-compression"
# Endpoints with less context compress unless they are told not to.
_BY_ITSELF_TOKENS_MAX: Final = 8_192
# Dense text has this many characters a token; what is compressed anyway is to fit for sure.
_CHARS_PER_TOKEN_MIN: Final = 3
_THREADS: Final = 2


class ContextCompression(Plugin):
    """Its work is done once it is known that no endpoint has room for the request (`compressed`):
    one that fits somewhere is left alone."""


class Compressed(NamedTuple):
    """The request that fits, and what is told of it."""

    chat: ChatRequest
    stage: dict[str, Any]


def compressed(
    chat: ChatRequest, endpoints: Sequence[EndpointEntry], output_tokens: int | None
) -> Compressed | None:
    """The request made to fit the roomiest of these endpoints that may have it compressed. None
    where there is none, or where what has to stay is too long."""
    if chat.native_tools or chat.native_fields or chat.decides:
        # What only the caller's own format has words for is not written anew.
        return None
    wish = _wish(chat)
    rooms = [_room(each, output_tokens) for each in endpoints if _may(each, wish)]
    tokens = max(rooms, default=0.0)
    if tokens <= 0:
        return None
    return run_in_thread(lambda: _made(chat, tokens), threads=_threads)


@cache
def _threads() -> ThreadPool:
    """Of this process, made after it was forked."""
    return ThreadPool(_THREADS)


def _made(chat: ChatRequest, tokens: float) -> Compressed | None:
    """The request within so many tokens; however many messages it has, each is read a few times."""
    messages: list[dict[str, Any]] = chat.body["messages"]
    with pause_collector():
        sizes = sizes_of(messages)
        beside = chat.prompt_text_chars - sum(sizes)
        if fixed_chars(messages, sizes) + beside > tokens * CHARS_PER_TOKEN:
            return None
        made = without_middle(messages, sizes, int(tokens * _CHARS_PER_TOKEN_MIN) - beside)
        return Compressed(with_messages(chat, made), _stage(len(messages), len(made)))


def _wish(chat: ChatRequest) -> bool | None:
    """What the request says of it; None where it says nothing."""
    said = next((each for each in chat.plugins if each["id"] == ID), None)
    return None if said is None else bool(said.get("enabled", True))


def _may(endpoint: EndpointEntry, wish: bool | None) -> bool:
    if "text" not in endpoint.output_modalities:
        return False
    room = endpoint.context_length
    return (room is not None and room <= _BY_ITSELF_TOKENS_MAX) if wish is None else wish


def _room(endpoint: EndpointEntry, output_tokens: int | None) -> float:
    """How many tokens a prompt may have."""
    most = endpoint.prompt_tokens_max
    if not output_tokens or endpoint.context_length is None:
        return most
    wanted = min(output_tokens, endpoint.max_completion_tokens or output_tokens)
    return min(most, endpoint.context_length - wanted)


def _stage(before: int, after: int) -> dict[str, Any]:
    return {
        "type": "context_compression",
        "name": ID,
        "summary": f"{before} messages made {after}",
        "data": {
            "engine": "middle-out",
            "input_type": "messages",
            "original_count": before,
            "compressed_count": after,
        },
    }
