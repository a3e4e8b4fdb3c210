"""What a strict provider refuses in one content block."""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from routing.simulator.formats.rules import Broken, demand
from routing.simulator.seal import unsealed

ID = re.compile(r"[a-zA-Z0-9_-]+")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
TOOL_KEYS = frozenset(
    {
        "allowed_callers",
        "cache_control",
        "defer_loading",
        "description",
        "eager_input_streaming",
        "input_examples",
        "input_schema",
        "name",
        "strict",
        "type",
    }
)
KEYS = {
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "search_result": {"source", "title", "content", "citations"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
UNMARKED = ("thinking", "redacted_thinking")
# Blocks of the provider's own tools; their insides are its own business.
OPAQUE = frozenset(
    {
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "compaction",
        "container_upload",
        "server_tool_use",
        "text_editor_code_execution_tool_result",
        "tool_addition",
        "tool_reference",
        "tool_removal",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)


def check_keys(where: str, value: dict[str, Any], known: frozenset[str] | set[str]) -> None:
    for name in value:
        demand(name in known, f"{where}.{name}: Extra inputs are not permitted")


def check(where: str, block: Any, allowed: frozenset[str]) -> None:
    """Check one block of a message that may hold blocks of these types."""
    demand(isinstance(block, dict), f"{where}: Input should be a valid dictionary")
    kind = str(block.get("type"))
    told = f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    demand(kind in allowed, told)
    if kind in OPAQUE:
        return
    marks = set() if kind in UNMARKED else {"cache_control"}
    check_keys(f"{where}.{kind}", block, KEYS[kind] | marks | {"type"})
    check_mark(f"{where}.{kind}", block.get("cache_control"))
    CHECKS[kind](f"{where}.{kind}", block)


def check_mark(where: str, mark: Any) -> None:
    if mark is None:
        return
    told = f"{where}.cache_control: Input should be a valid dictionary"
    demand(isinstance(mark, dict) and mark.get("type") == "ephemeral", told)
    demand(
        mark.get("ttl", "5m") in ("5m", "1h"), f"{where}.cache_control.ttl: Input should be '5m'"
    )


def check_text(where: str, block: dict[str, Any]) -> None:
    demand(isinstance(block.get("text"), str), f"{where}.text: Field required")
    demand(block["text"] != "", "messages: text content blocks must be non-empty")
    told = "messages: text content blocks must contain non-whitespace text"
    demand(block["text"].strip() != "", told)


def check_image(where: str, block: dict[str, Any]) -> None:
    source = block.get("source")
    demand(isinstance(source, dict), f"{where}.source: Field required")
    assert isinstance(source, dict)
    kind = source.get("type")
    demand(kind in ("base64", "url", "file"), f"{where}.source: Input tag '{kind}' is not expected")
    if kind == "base64":
        known = source.get("media_type") in IMAGES
        demand(known, f"{where}.source.base64.media_type: Input should be one of {IMAGES}")
        check_base64(f"{where}.source.base64", source)
    if kind == "url":
        told = f"{where}.source.url: Only HTTPS URLs are supported."
        demand(str(source.get("url")).startswith(("https://", "http://")), told)


def check_base64(where: str, source: dict[str, Any]) -> None:
    try:
        b64decode(source.get("data") or "!", validate=True)
    except (ValueError, TypeError):
        raise Broken(f"{where}.data: Input should be valid base64") from None


def check_document(where: str, block: dict[str, Any]) -> None:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    assert isinstance(source, dict) or kind is None
    known = kind in ("base64", "text", "content", "url", "file")
    demand(known, f"{where}.source: Input tag '{kind}' is not expected")
    media = {"base64": "application/pdf", "text": "text/plain"}.get(str(kind))
    if media is not None and isinstance(source, dict):
        told = f"{where}.source.{kind}.media_type: Input should be '{media}'"
        demand(source.get("media_type") == media, told)
        demand(isinstance(source.get("data"), str), f"{where}.source.{kind}.data: Field required")
        if kind == "base64":
            check_base64(f"{where}.source.base64", source)


def check_tool_use(where: str, block: dict[str, Any]) -> None:
    told = f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    demand(isinstance(block.get("id"), str) and ID.fullmatch(block["id"]) is not None, told)
    demand(isinstance(block.get("name"), str), f"{where}.name: Field required")
    demand(
        isinstance(block.get("input"), dict), f"{where}.input: Input should be a valid dictionary"
    )


def check_tool_result(where: str, block: dict[str, Any]) -> None:
    demand(isinstance(block.get("tool_use_id"), str), f"{where}.tool_use_id: Field required")
    told = f"{where}.is_error: Input should be a valid boolean"
    demand(isinstance(block.get("is_error", False), bool), told)
    content = block.get("content")
    if isinstance(content, list):
        for at, inner in enumerate(content):
            check(f"{where}.content.{at}", inner, IN_RESULTS)
    else:
        demand(
            content is None or isinstance(content, str), f"{where}.content: Input should be valid"
        )


def check_thinking(where: str, block: dict[str, Any]) -> None:
    demand(isinstance(block.get("thinking"), str), f"{where}.thinking: Field required")
    demand(isinstance(block.get("signature"), str), f"{where}.signature: Field required")
    thought = unsealed(block["signature"])
    told = f"{where}: Invalid `signature` in `thinking` block"
    demand(thought is not None and block["thinking"] in ("", thought), told)


def check_redacted(where: str, block: dict[str, Any]) -> None:
    told = f"{where}: Invalid `data` in `redacted_thinking` block"
    demand(unsealed(block.get("data")) is not None, told)


def check_search_result(where: str, block: dict[str, Any]) -> None:
    for name in ("source", "title", "content"):
        demand(name in block, f"{where}.{name}: Field required")


CHECKS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "text": check_text,
    "image": check_image,
    "document": check_document,
    "search_result": check_search_result,
    "tool_use": check_tool_use,
    "tool_result": check_tool_result,
    "thinking": check_thinking,
    "redacted_thinking": check_redacted,
}
IN_RESULTS = frozenset({"text", "image", "document", "search_result", "tool_reference"})
