"""What a strict provider refuses in the order of messages and blocks."""

from typing import Any

from routing.simulator.formats.messages.block_rules import KEYS, OPAQUE, check_text
from routing.simulator.formats.messages.block_rules import check as check_block
from routing.simulator.formats.messages.reading import listed
from routing.simulator.formats.rules import demand

OF_USERS = frozenset({"text", "image", "document", "search_result", "tool_result"}) | OPAQUE
OF_ASSISTANTS = (frozenset(KEYS) - {"image", "tool_result"}) | OPAQUE
ALLOWED = {"user": OF_USERS, "assistant": OF_ASSISTANTS, "system": OF_USERS}


def check(body: dict[str, Any], *, beta: bool) -> None:
    """Raises Broken. Messages of role system are for callers who ask for a beta."""
    check_system(body.get("system", ""))
    messages = body["messages"]
    demand(bool(messages), "messages: at least one message is required")
    for at, message in enumerate(messages):
        check_message(f"messages.{at}", message, last=at == len(messages) - 1, beta=beta)
    demand(messages[0]["role"] != "assistant", 'messages: first message must use the "user" role')
    check_calls(messages)


def check_system(system: Any) -> None:
    if isinstance(system, str):
        return
    demand(isinstance(system, list), "system: Input should be a valid list")
    for at, block in enumerate(system):
        check_block(f"system.{at}", block, frozenset({"text"}))


def check_message(where: str, message: Any, *, last: bool, beta: bool) -> None:
    demand(isinstance(message, dict), f"{where}: Input should be a valid dictionary")
    role, content = message.get("role"), message.get("content")
    known = role in ("user", "assistant") or (role == "system" and beta)
    demand(known, f'messages: Unexpected role "{role}".')
    extra = sorted(message.keys() - {"role", "content"})
    demand(not extra, f"{where}.{''.join(extra[:1])}: Extra inputs are not permitted")
    prefill = last and role == "assistant"
    told = f"{where}: all messages must have non-empty content"
    demand(bool(content) or prefill, f"{told} except for the optional final assistant message")
    if isinstance(content, str):
        if content:
            check_text(where, {"text": content})
    else:
        demand(isinstance(content, list), f"{where}.content: Input should be a valid list")
        for at, block in enumerate(content):
            check_block(f"{where}.content.{at}", block, ALLOWED[role])
    if prefill:
        check_prefill(listed(message, "content"))


def check_prefill(blocks: list[dict[str, Any]]) -> None:
    text = blocks[-1].get("text", "") if blocks else ""
    told = "messages: final assistant content cannot end with trailing whitespace"
    demand(text == text.rstrip(), told)


def check_calls(messages: list[dict[str, Any]]) -> None:
    """Every call has its result in the very next message, and every result its call before."""
    wanted: set[str] = set()
    seen: set[str] = set()
    for at, message in enumerate(messages):
        blocks = listed(message, "content")
        check_results(at, blocks, wanted)
        wanted = {block["id"] for block in blocks if block.get("type") == "tool_use"}
        demand(not wanted & seen, f"messages.{at}: `tool_use` ids must be unique")
        seen |= wanted
    if messages[-1]["role"] == "assistant":
        demand_results(len(messages), wanted, set())


def check_results(at: int, blocks: list[dict[str, Any]], wanted: set[str]) -> None:
    kinds = [block.get("type") == "tool_result" for block in blocks]
    given = {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"}
    strangers = sorted(given - wanted)
    told = f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {strangers}"
    demand(not strangers, told)
    demand_results(at, wanted, given)
    in_order = kinds == sorted(kinds, reverse=True) or not given
    demand(in_order, f"messages.{at}: `tool_result` blocks must come before other content")


def demand_results(at: int, wanted: set[str], given: set[str]) -> None:
    missing = sorted(wanted - given)
    told = "`tool_use` ids were found without `tool_result` blocks immediately after"
    demand(not missing, f"messages.{at - 1}: {told}: {missing}")
