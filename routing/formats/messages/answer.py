"""The whole answer of messages (inference reference 4.3)."""

from typing import Any, Final

import pydantic_core

from gateway.http.errors import GatewayError
from routing.entities.ids import message_id, tool_use_id
from routing.formats.caller import Activity, Ending, Whole
from routing.formats.chat.answer import Served
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.pieces import (
    DIRECT,
    citations_of,
    details_of,
    fragments_of,
    is_plain_text,
    text_of,
)
from routing.formats.messages.server_use import fetches_of, result_of, use_of
from routing.formats.messages.thinking import blocks_of
from routing.formats.messages.usage import is_call, stop_of, usage_of, with_fetches

WIRE: Final = "anthropic"
_NO_TEXT: Final[dict[str, Any]] = {"type": "text", "text": "", "citations": []}
_ABSENT: Final[dict[str, Any]] = {
    "stop_reason": None,
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
}
# What a provider may leave out of a block, by the block's type.
_BLOCK_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "text": {"citations": []},
    "tool_use": {"caller": DIRECT, "input": {}},
}


class BrokenAnswer(GatewayError):
    """The upstream broke off after a part of its answer, for which the format has no place."""

    status, error_type = 502, "provider_unavailable"
    message = "Provider returned error"


def whole_answer(whole: Whole) -> dict[str, Any]:
    """The body. Raises `BrokenAnswer` where the answer is a part of one."""
    ending = whole.ending
    if ending.failure is not None:
        raise _broken(ending.failure)
    native = ending.native
    if native is not None and native.kind == WIRE:
        body = _passed(native.value, whole.served, ending)
    else:
        silent = is_silent(whole.request)
        pieces = whole.pieces or [whole.message]
        blocks = [block for piece in pieces for block in _blocks_of(piece, silent=silent)]
        fetches = sum(fetches_of(piece) for piece in pieces if isinstance(piece, Activity))
        body = {
            **envelope(whole.served),
            "content": _citations_at_home(blocks),
            **stop_of(ending.finish_reason, ending.native_finish, ending.stop_sequence),
            "usage": with_fetches(usage_of(ending.usage, ending.service_tier), fetches),
        }
    if ending.router_metadata is not None:
        body["router_metadata"] = ending.router_metadata
    return body


def _blocks_of(piece: dict[str, Any] | Activity, *, silent: bool) -> list[dict[str, Any]]:
    if not isinstance(piece, Activity):
        return blocks_of_message(piece, silent=silent)
    result = result_of(piece)
    return [use_of(piece)[0], *([result] if result is not None else [])]


def _citations_at_home(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is cited at an answer's end belongs to its last text, as in a stream."""
    if len(blocks) < 2 or blocks[-1] | {"citations": []} != _NO_TEXT:
        return blocks
    *others, text, citing = blocks
    if text["type"] != "text":
        return blocks
    return [*others, {**text, "citations": text["citations"] + citing["citations"]}]


def envelope(served: Served) -> dict[str, Any]:
    """What every message says of itself before it has said anything."""
    return {
        "id": message_id(),
        "type": "message",
        "role": "assistant",
        "model": served.model,
        "provider": served.provider,
        "content": [],
        **_ABSENT,
    }


def owned(message: dict[str, Any], served: Served) -> dict[str, Any]:
    """A provider's own message with the gateway's fields; its id stays where it has one."""
    identity = message.get("id")
    gateways = envelope(served)
    if isinstance(identity, str) and identity:
        gateways["id"] = identity
    said = {name: item for name, item in gateways.items() if name not in message}
    ours = {name: gateways[name] for name in ("id", "type", "role", "model", "provider")}
    return {**message, **said, **ours}


def is_silent(request: ChatRequest) -> bool:
    """Whether the caller wants to have reasoning kept but not told."""
    thinking = (request.original or {}).get("thinking") or {}
    return bool(thinking.get("display") == "omitted")


def blocks_of_message(message: dict[str, Any], *, silent: bool) -> list[dict[str, Any]]:
    """The content of a chat-shaped message: reasoning, text, tool calls."""
    blocks = blocks_of(details_of(message), silent=silent)
    text = text_of(message.get("content")) + text_of(message.get("refusal"))
    citations = list(citations_of(message.get("annotations")))
    if text or citations:
        blocks.append({"type": "text", "text": text, "citations": citations})
    for call in fragments_of(message.get("tool_calls")):
        blocks.append(
            {
                "type": "tool_use",
                "id": call.id or tool_use_id(),
                "name": call.name,
                "input": _input(call.arguments),
                "caller": DIRECT,
            }
        )
    return blocks


def _input(arguments: str) -> Any:
    """What is cut off in its middle is an empty object."""
    if is_plain_text(arguments):
        return {"input": arguments}
    try:
        return pydantic_core.from_json(arguments, allow_inf_nan=False)
    except ValueError:
        return {}


def _passed(message: dict[str, Any], served: Served, ending: Ending) -> dict[str, Any]:
    body = owned(message, served)
    content = body["content"] if isinstance(body["content"], list) else []
    reason = body["stop_reason"]
    # Some end their turn with calls, which callers look for behind `tool_use` alone.
    if reason is None or (reason == "end_turn" and any(map(is_call, content))):
        body |= stop_of(ending.finish_reason, ending.native_finish, ending.stop_sequence)
    body["content"] = [_completed(block) for block in content]
    native = body.get("usage")
    body["usage"] = usage_of(
        ending.usage, ending.service_tier, native if isinstance(native, dict) else None
    )
    return body


def _completed(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    defaults = _BLOCK_DEFAULTS.get(str(block.get("type")), {})
    return {**block, **{name: item for name, item in defaults.items() if block.get(name) is None}}


def _broken(failure: dict[str, Any]) -> BrokenAnswer:
    error = BrokenAnswer(failure.get("message"), metadata=failure.get("metadata"))
    error.error_type = (failure.get("metadata") or {}).get("error_type", error.error_type)
    return error
