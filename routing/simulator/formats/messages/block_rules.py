"""What a strict provider refuses in content blocks, and in the order of messages and blocks."""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from routing.simulator.encoding import JsonObject, unseal
from routing.simulator.formats.base import RuleBroken, demand
from routing.simulator.formats.messages.reading import list_objects

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
BLOCK_KEYS = {
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
OPAQUE_BLOCKS = frozenset(
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


def check_keys(where: str, value: JsonObject, known: frozenset[str] | set[str]) -> None:
    for name in value:
        demand(name in known, f"{where}.{name}: Extra inputs are not permitted")


def check_block(where: str, block: Any, allowed: frozenset[str]) -> None:
    """Check one block of a message that may hold blocks of these types."""
    demand(isinstance(block, dict), f"{where}: Input should be a valid dictionary")
    kind = str(block.get("type"))
    problem = (
        f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    )
    demand(kind in allowed, problem)
    if kind in OPAQUE_BLOCKS:
        return
    marks = set() if kind in UNMARKED else {"cache_control"}
    check_keys(f"{where}.{kind}", block, BLOCK_KEYS[kind] | marks | {"type"})
    check_mark(f"{where}.{kind}", block.get("cache_control"))
    BLOCK_CHECKS[kind](f"{where}.{kind}", block)


def check_mark(where: str, mark: Any) -> None:
    if mark is None:
        return
    problem = f"{where}.cache_control: Input should be a valid dictionary"
    demand(isinstance(mark, dict) and mark.get("type") == "ephemeral", problem)
    demand(
        mark.get("ttl", "5m") in ("5m", "1h"), f"{where}.cache_control.ttl: Input should be '5m'"
    )


def check_text(where: str, block: JsonObject) -> None:
    demand(isinstance(block.get("text"), str), f"{where}.text: Field required")
    demand(block["text"] != "", "messages: text content blocks must be non-empty")
    problem = "messages: text content blocks must contain non-whitespace text"
    demand(block["text"].strip() != "", problem)


def check_image(where: str, block: JsonObject) -> None:
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
        problem = f"{where}.source.url: Only HTTPS URLs are supported."
        demand(str(source.get("url")).startswith(("https://", "http://")), problem)


def check_base64(where: str, source: JsonObject) -> None:
    try:
        b64decode(source.get("data") or "!", validate=True)
    except (ValueError, TypeError):
        raise RuleBroken(f"{where}.data: Input should be valid base64") from None


def check_document(where: str, block: JsonObject) -> None:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    assert isinstance(source, dict) or kind is None
    known = kind in ("base64", "text", "content", "url", "file")
    demand(known, f"{where}.source: Input tag '{kind}' is not expected")
    media = {"base64": "application/pdf", "text": "text/plain"}.get(str(kind))
    if media is not None and isinstance(source, dict):
        problem = f"{where}.source.{kind}.media_type: Input should be '{media}'"
        demand(source.get("media_type") == media, problem)
        demand(isinstance(source.get("data"), str), f"{where}.source.{kind}.data: Field required")
        if kind == "base64":
            check_base64(f"{where}.source.base64", source)


def check_tool_use(where: str, block: JsonObject) -> None:
    problem = f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    demand(isinstance(block.get("id"), str) and ID.fullmatch(block["id"]) is not None, problem)
    demand(isinstance(block.get("name"), str), f"{where}.name: Field required")
    demand(
        isinstance(block.get("input"), dict), f"{where}.input: Input should be a valid dictionary"
    )


def check_tool_result(where: str, block: JsonObject) -> None:
    demand(isinstance(block.get("tool_use_id"), str), f"{where}.tool_use_id: Field required")
    problem = f"{where}.is_error: Input should be a valid boolean"
    demand(isinstance(block.get("is_error", False), bool), problem)
    content = block.get("content")
    if isinstance(content, list):
        for at, inner in enumerate(content):
            check_block(f"{where}.content.{at}", inner, IN_RESULTS)
    else:
        demand(
            content is None or isinstance(content, str), f"{where}.content: Input should be valid"
        )


def check_thinking_block(where: str, block: JsonObject) -> None:
    demand(isinstance(block.get("thinking"), str), f"{where}.thinking: Field required")
    demand(isinstance(block.get("signature"), str), f"{where}.signature: Field required")
    thought = unseal(block["signature"])
    problem = f"{where}: Invalid `signature` in `thinking` block"
    demand(thought is not None and block["thinking"] in ("", thought), problem)


def check_redacted_block(where: str, block: JsonObject) -> None:
    problem = f"{where}: Invalid `data` in `redacted_thinking` block"
    demand(unseal(block.get("data")) is not None, problem)


def check_search_result(where: str, block: JsonObject) -> None:
    for name in ("source", "title", "content"):
        demand(name in block, f"{where}.{name}: Field required")


BLOCK_CHECKS: dict[str, Callable[[str, JsonObject], None]] = {
    "text": check_text,
    "image": check_image,
    "document": check_document,
    "search_result": check_search_result,
    "tool_use": check_tool_use,
    "tool_result": check_tool_result,
    "thinking": check_thinking_block,
    "redacted_thinking": check_redacted_block,
}
IN_RESULTS = frozenset({"text", "image", "document", "search_result", "tool_reference"})


USER_BLOCKS = (
    frozenset({"text", "image", "document", "search_result", "tool_result"}) | OPAQUE_BLOCKS
)
ASSISTANT_BLOCKS = (frozenset(BLOCK_KEYS) - {"image", "tool_result"}) | OPAQUE_BLOCKS
ALLOWED = {"user": USER_BLOCKS, "assistant": ASSISTANT_BLOCKS, "system": USER_BLOCKS}


def check_conversation(body: JsonObject, *, beta: bool) -> None:
    """Raises `RuleBroken`. Messages of role system are for callers who ask for a beta."""
    system = body.get("system", "")
    if not isinstance(system, str):
        demand(isinstance(system, list), "system: Input should be a valid list")
        for at, block in enumerate(system):
            check_block(f"system.{at}", block, frozenset({"text"}))
    messages = body["messages"]
    demand(bool(messages), "messages: at least one message is required")
    for at, message in enumerate(messages):
        check_message(f"messages.{at}", message, last=at == len(messages) - 1, beta=beta)
    demand(messages[0]["role"] != "assistant", 'messages: first message must use the "user" role')
    check_calls(messages)


def check_message(where: str, message: Any, *, last: bool, beta: bool) -> None:
    demand(isinstance(message, dict), f"{where}: Input should be a valid dictionary")
    role, content = message.get("role"), message.get("content")
    known = role in ("user", "assistant") or (role == "system" and beta)
    demand(known, f'messages: Unexpected role "{role}".')
    extra = sorted(message.keys() - {"role", "content"})
    demand(not extra, f"{where}.{''.join(extra[:1])}: Extra inputs are not permitted")
    prefill = last and role == "assistant"
    problem = f"{where}: all messages must have non-empty content"
    demand(bool(content) or prefill, f"{problem} except for the optional final assistant message")
    if isinstance(content, str):
        if content:
            check_text(where, {"text": content})
    else:
        demand(isinstance(content, list), f"{where}.content: Input should be a valid list")
        for at, block in enumerate(content):
            check_block(f"{where}.content.{at}", block, ALLOWED[role])
    if prefill:
        blocks = list_objects(message, "content")
        text = blocks[-1].get("text", "") if blocks else ""
        problem = "messages: final assistant content cannot end with trailing whitespace"
        demand(text == text.rstrip(), problem)


def check_calls(messages: list[JsonObject]) -> None:
    """Every call has its result in the very next message, and every result its call before."""
    wanted: set[str] = set()
    seen: set[str] = set()
    for at, message in enumerate(messages):
        blocks = list_objects(message, "content")
        check_results(at, blocks, wanted)
        wanted = {block["id"] for block in blocks if block.get("type") == "tool_use"}
        demand(not wanted & seen, f"messages.{at}: `tool_use` ids must be unique")
        seen |= wanted
    if messages[-1]["role"] == "assistant":
        demand_results(len(messages), wanted, set())


def check_results(at: int, blocks: list[JsonObject], wanted: set[str]) -> None:
    kinds = [block.get("type") == "tool_result" for block in blocks]
    given = {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"}
    strangers = sorted(given - wanted)
    problem = f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {strangers}"
    demand(not strangers, problem)
    demand_results(at, wanted, given)
    in_order = kinds == sorted(kinds, reverse=True) or not given
    demand(in_order, f"messages.{at}: `tool_result` blocks must come before other content")


def demand_results(at: int, wanted: set[str], given: set[str]) -> None:
    missing = sorted(wanted - given)
    problem = "`tool_use` ids were found without `tool_result` blocks immediately after"
    demand(not missing, f"messages.{at - 1}: {problem}: {missing}")
