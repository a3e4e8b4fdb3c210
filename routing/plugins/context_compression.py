"""`context-compression`: a conversation that is too long for a model is made to fit."""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from gevent.threadpool import ThreadPool

from gateway.eventloop import run_in_thread
from gateway.http.body import pause_collector
from gateway.http.jsonio import JsonObject
from routing.entities.entries import EndpointEntry
from routing.formats.chat.facts import read_prompt
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import CHARS_PER_TOKEN
from routing.plugins.interface import Plugin, with_messages

ID: Final = "context-compression"
# Endpoints with at most this context compress unless the request forbids it.
_BY_ITSELF_TOKENS_MAX: Final = 8_192
# Characters per token of dense text: a compressed prompt must fit for certain.
_CHARS_PER_TOKEN_MIN: Final = 3
_THREADS: Final = 2


class ContextCompression(Plugin):
    """A switch only. `compress_request` does the work once no endpoint has room for the request."""


class CompressedRequest(NamedTuple):
    """The compressed request, and its stage for `router_metadata.pipeline`."""

    chat: ChatRequest
    stage: JsonObject


def compress_request(
    chat: ChatRequest, endpoints: Sequence[EndpointEntry], output_tokens: int | None
) -> CompressedRequest | None:
    """The request compressed for the roomiest endpoint that allows it. None if no endpoint does,
    or if the messages that must stay are too long."""
    if chat.native_tools or chat.native_fields or not chat.is_conversation:
        # Fields that only the caller's own format has would be lost.
        return None
    entry = next((each for each in chat.plugins if each["id"] == ID), None)
    tokens = 0.0
    for endpoint in endpoints:
        context = endpoint.context_length
        if entry is not None:
            may_compress = bool(entry.get("enabled", True))
        else:
            may_compress = context is not None and context <= _BY_ITSELF_TOKENS_MAX
        if may_compress and "text" in endpoint.output_modalities:
            room = endpoint.prompt_tokens_max
            if output_tokens and context is not None:
                wanted = min(output_tokens, endpoint.max_completion_tokens or output_tokens)
                room = min(room, context - wanted)
            tokens = max(tokens, room)
    if tokens <= 0:
        return None
    return run_in_thread(lambda: _compress(chat, tokens), threads=_threads)


@cache
def _threads() -> ThreadPool:
    """Of this process, made after it was forked."""
    return ThreadPool(_THREADS)


def _compress(chat: ChatRequest, tokens: float) -> CompressedRequest | None:
    """The request within this many tokens, in time linear in its messages."""
    messages: list[JsonObject] = chat.body["messages"]
    with pause_collector():
        sizes = measure_messages(messages)
        beside = chat.prompt_text_chars - sum(sizes)
        if count_fixed_chars(messages, sizes) + beside > tokens * CHARS_PER_TOKEN:
            return None
        made = remove_middle(messages, sizes, int(tokens * _CHARS_PER_TOKEN_MIN) - beside)
        stage = {
            "type": "context_compression",
            "name": ID,
            "summary": f"{len(messages)} messages made {len(made)}",
            "data": {
                "engine": "middle-out",
                "input_type": "messages",
                "original_count": len(messages),
                "compressed_count": len(made),
            },
        }
        return CompressedRequest(with_messages(chat, made), stage)


_KEPT_ROLES: Final = frozenset({"system", "developer"})
_CUT: Final = "\n…\n"
# A text that is cut to less than this says nothing any more.
_CUT_CHARS_MIN: Final = 64


def measure_messages(messages: list[JsonObject]) -> list[int]:
    """The characters of each message."""
    return [read_prompt([each]).text_chars for each in messages]


def count_fixed_chars(messages: list[JsonObject], sizes: list[int]) -> int:
    """The size of what is never taken out; `sizes` are those of the messages."""
    newest = _newest_turn(messages)
    return sum(sizes[at] for at, each in enumerate(messages) if at >= newest or _is_fixed(each))


def remove_middle(messages: list[JsonObject], sizes: list[int], chars_max: int) -> list[JsonObject]:
    """The messages with as much of the middle taken out as brings them down to that size, or as
    near as what stays lets them. `sizes` are those of the messages."""
    excess = sum(sizes) - chars_max
    gone: set[int] = set()
    cut: dict[int, JsonObject] = {}
    units = _removable_units(messages)
    middle = (len(units) - 1) / 2
    # The nearest to the middle first; of two equally near the older.
    for place in sorted(range(len(units)), key=lambda place: (abs(place - middle), place)):
        unit = units[place]
        if excess <= 0:
            break
        size = sum(sizes[at] for at in unit)
        if size > excess and (shorter := _shorten_message(messages, unit, excess)) is not None:
            cut[unit[0]] = shorter
            break
        gone.update(unit)
        excess -= size
    return [cut.get(at, each) for at, each in enumerate(messages) if at not in gone]


def _removable_units(messages: list[JsonObject]) -> list[list[int]]:
    """Groups of indexes that are removed together: a message, or calls with their results."""
    units: list[list[int]] = []
    # The latest unit that makes a call of that id.
    callers: dict[str, int] = {}
    for at in range(_newest_turn(messages)):
        message = messages[at]
        if _is_fixed(message):
            continue
        if message["role"] == "tool" and units:
            # What answers a call stands somewhere behind it, mostly at once.
            units[callers.get(message["tool_call_id"], len(units) - 1)].append(at)
            continue
        callers |= {call["id"]: len(units) for call in message.get("tool_calls") or ()}
        units.append([at])
    return units


def _newest_turn(messages: list[JsonObject]) -> int:
    """The index of the latest user message; if there is none, of the last message, or of the call
    that a trailing tool result answers."""
    last = len(messages) - 1
    users = (at for at in range(last, -1, -1) if messages[at]["role"] == "user")
    start = next(users, last)
    while start > 0 and messages[start]["role"] == "tool":
        start -= 1
    return start


def _shorten_message(messages: list[JsonObject], unit: list[int], excess: int) -> JsonObject | None:
    """The message with `excess` characters cut from the middle; None if it is not plain text or
    hardly anything would be left."""
    message = messages[unit[0]]
    text = message.get("content")
    if len(unit) > 1 or type(text) is not str or message.get("tool_calls"):
        return None
    left = len(text) - excess - len(_CUT)
    if left < _CUT_CHARS_MIN:
        return None
    head = (left + 1) // 2
    return {**message, "content": f"{text[:head]}{_CUT}{text[len(text) - left + head :]}"}


def _is_fixed(message: JsonObject) -> bool:
    return message["role"] in _KEPT_ROLES
