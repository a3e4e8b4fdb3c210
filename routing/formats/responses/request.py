"""A responses body, checked and read as the chat request it means."""

from typing import Any

from pydantic import ValidationError

from gateway.http.jsonio import dumps
from gateway.http.validation import Issue, issues_of
from routing.formats.chat.request import (
    ChatInvalid,
    ChatRequest,
    header_issues,
    models_issues,
    translated_request,
)
from routing.formats.open_tools import with_settings_inside
from routing.formats.responses.agents import set_apart, told_to_wait, with_heirs
from routing.formats.responses.conversation import (
    chat_messages,
    with_added_tools,
    without_references,
)
from routing.formats.responses.rules import cross_field_issues, orphan_issues
from routing.formats.responses.schema import check_body
from routing.formats.responses.translation import (
    LEFT_OUT,
    chat_fields,
    native_tools,
    nested_server_tools,
)


def parse_responses(
    body: dict[str, Any],
    *,
    session_header: str | None,
    models_max: int = 3,
    beside: dict[str, Any] | None = None,
) -> ChatRequest:
    """Check a parsed body and the `x-session-id` header, and translate it. Raises `ChatInvalid`.

    `beside` are checked fields in the words of chat that responses have none for.
    """
    body = with_settings_inside(body)
    body = _check(body, session_header, models_max)
    items, waiting = set_apart(body["input"])
    messages, left_out = chat_messages(body.get("instructions"), items)
    messages += told_to_wait(waiting)
    if not messages:
        raise ChatInvalid([Issue("input", "Invalid input: expected at least one message")])
    whole = with_added_tools(body)
    request = translated_request(
        {**with_heirs(chat_fields(whole), waiting), **(beside or {}), "messages": messages},
        session_header=session_header,
        format="responses",
        original=body,
        native_tools=native_tools(whole),
    )
    request.server_tools = list(dict.fromkeys(request.server_tools + nested_server_tools(body)))
    _count_what_chat_lacks(request, left_out, body.get("tools", []))
    return request


def _check(body: dict[str, Any], session_header: str | None, models_max: int) -> dict[str, Any]:
    try:
        body, _ = check_body(body)
    except ValidationError as error:
        raise ChatInvalid(issues_of(error) + header_issues(session_header)) from None
    issues = models_issues(body, models_max) + cross_field_issues(with_added_tools(body))
    issues += header_issues(session_header)
    if issues:
        raise ChatInvalid(issues)
    if orphans := orphan_issues(body["input"]):
        raise ChatInvalid(orphans, "invalid_prompt")
    return without_references(body)


def _count_what_chat_lacks(
    request: ChatRequest, items: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> None:
    """An upstream of this format is sent, and bills, what the translation leaves out. Tools of its
    own go to no other; items are left out elsewhere, so they count for the bound alone."""
    natives = [tool for tool in tools if tool["type"] in LEFT_OUT]
    tool_bytes = len(dumps(natives)) if natives else 0
    request.text_bytes += tool_bytes + (len(dumps(items)) if items else 0)
    request.prompt_text_chars += tool_bytes
