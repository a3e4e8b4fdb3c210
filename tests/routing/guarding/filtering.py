"""Requests and filters made to measure."""

import uuid
from typing import Any

from accounts.guard_rules import Action, FilterEntry, GuardrailFilter, Scope
from routing.formats.chat.request import ChatRequest, parse_chat
from routing.guarding.filters import Filtered, apply_filters

ID = uuid.UUID(int=7)
MAIL = "ada@example.org"


def place_filter(
    action: Action, builtin: str = "", *, scope: Scope = "key", **more: Any
) -> GuardrailFilter:
    return GuardrailFilter(FilterEntry(action, builtin=builtin, **more), scope, ID)


def chat_of(*messages: dict[str, Any], **more: Any) -> ChatRequest:
    return parse_chat({"messages": list(messages), **more}, session_header=None)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def run(chat: ChatRequest, *filters: GuardrailFilter) -> Filtered:
    return apply_filters(chat, filters, ID)


def refusal(done: Filtered) -> Any:
    assert done.refusal is not None
    return done.refusal()
