"""What a strict provider of the messages format refuses: headers, top-level fields, thinking."""

import re
from collections.abc import Mapping
from typing import Any

from routing.simulator.encoding import JsonObject
from routing.simulator.formats.base import Complaint, RuleBroken, demand
from routing.simulator.formats.messages.block_rules import TOOL_KEYS, check_conversation, check_keys
from routing.simulator.formats.messages.reading import MARK, list_objects, walk_blocks

VERSION = "2023-06-01"
KNOWN_FIELDS = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
MARKS_MAX = 4
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
USER_ID_LENGTH_MAX = 256
EFFORTS = ("low", "medium", "high", "xhigh", "max")
CHOICES = ("auto", "any", "tool", "none")


def find_complaint(headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
    """The first reason to refuse the request, credential and version before the body."""
    if "x-api-key" not in headers:
        return Complaint(401, "x-api-key header is required")
    try:
        check_headers(headers)
        check_fields(body)
        check_counts(body)
        check_conversation(body, beta="anthropic-beta" in headers)
        check_thinking(body)
    except RuleBroken as broken:
        return Complaint(400, str(broken))
    return None


def check_headers(headers: Mapping[str, str]) -> None:
    given = headers.get("anthropic-version")
    demand(given is not None, "anthropic-version: header is required")
    demand(given == VERSION, f'anthropic-version: "{given}" is not a valid version')


def check_fields(body: JsonObject) -> None:
    for name in body:
        demand(name in KNOWN_FIELDS, f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        demand(name in body, f"{name}: Field required")
    for name in body:
        demand(body[name] is not None, f"{name}: Input should not be null")
    demand(isinstance(body["messages"], list), "messages: Input should be a valid list")
    demand(is_integer(body["max_tokens"]), "max_tokens: Input should be a valid integer")
    demand(body["max_tokens"] >= 1, "max_tokens: Input should be greater than or equal to 1")
    check_sampling(body)
    check_tools(body)
    check_output(body.get("output_config", {}))
    check_tier(body)


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_sampling(body: JsonObject) -> None:
    for name in ("temperature", "top_p"):
        value = body.get(name, 0)
        demand(isinstance(value, int | float), f"{name}: Input should be a valid number")
        demand(0 <= value <= 1, f"{name}: range: 0..1")
    demand(is_integer(body.get("top_k", 0)), "top_k: Input should be a valid integer")
    sequences = body.get("stop_sequences", [])
    demand(isinstance(sequences, list), "stop_sequences: Input should be a valid list")
    for sequence in sequences:
        problem = "stop_sequences: each stop sequence must contain non-whitespace"
        demand(isinstance(sequence, str) and sequence.strip() != "", problem)


def check_tier(body: JsonObject) -> None:
    tier = body.get("service_tier", "auto")
    demand(
        tier in ("auto", "standard_only"), "service_tier: Input should be 'auto' or 'standard_only'"
    )
    demand(body.get("speed", "standard") in ("fast", "standard"), "speed: Input should be 'fast'")
    metadata = body.get("metadata", {})
    demand(isinstance(metadata, dict), "metadata: Input should be a valid dictionary")
    for name in metadata:
        demand(name == "user_id", f"metadata.{name}: Extra inputs are not permitted")
    user_id = metadata.get("user_id") or ""
    demand(len(user_id) <= USER_ID_LENGTH_MAX, "metadata.user_id: String should have at most 256")


def check_tools(body: JsonObject) -> None:
    tools = body.get("tools", [])
    demand(isinstance(tools, list), "tools: Input should be a valid list")
    for at, tool in enumerate(tools):
        check_tool(f"tools.{at}", tool)
    names = [tool.get("name") for tool in tools]
    demand(len(set(names)) == len(names), "tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice is None:
        return
    demand(isinstance(choice, dict), "tool_choice: Input should be a valid dictionary")
    demand(choice.get("type") in CHOICES, "tool_choice: Input tag does not match any expected tag")
    demand(bool(tools), "tool_choice may only be specified while providing tools.")
    if choice["type"] == "tool":
        problem = f"Tool '{choice.get('name')}' not found in provided tools"
        demand(choice.get("name") in names, problem)


def check_tool(where: str, tool: Any) -> None:
    demand(isinstance(tool, dict), f"{where}: Input should be a valid dictionary")
    if tool.get("type", "custom") != "custom":
        demand("_20" in tool["type"], f"{where}: Input tag '{tool['type']}' was not expected")
        return
    name, schema = tool.get("name"), tool.get("input_schema")
    problem = f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    demand(isinstance(name, str) and TOOL_NAME.fullmatch(name) is not None, problem)
    demand(isinstance(schema, dict), f"{where}.custom.input_schema: Field required")
    demand(schema.get("type") == "object", f"{where}.custom.input_schema.type: Field required")
    check_keys(f"{where}.custom", tool, TOOL_KEYS)


def check_output(wanted: Any) -> None:
    demand(isinstance(wanted, dict), "output_config: Input should be a valid dictionary")
    effort = wanted.get("effort")
    demand(effort is None or effort in EFFORTS, "output_config.effort: Input should be 'low'")
    shape = wanted.get("format")
    if shape is not None:
        demand(shape.get("type") == "json_schema", "output_config.format.type: unexpected")
        demand(isinstance(shape.get("schema"), dict), "output_config.format.schema: Field required")
        extra = sorted(shape.keys() - {"type", "schema"})
        demand(not extra, f"output_config.format.{extra}: Extra inputs are not permitted")


def check_counts(body: JsonObject) -> None:
    marks = sum(1 for block in walk_blocks(body) if block.get(MARK)) + bool(body.get(MARK))
    problem = f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    demand(marks <= MARKS_MAX, problem)


BUDGET_MIN = 1024
THINKING_TYPES = ("enabled", "disabled", "adaptive", "between_tools")
TOP_P_MIN = 0.95


def check_thinking(body: JsonObject) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    demand(isinstance(thinking, dict), "thinking: Input should be a valid dictionary")
    demand(
        thinking.get("type") in THINKING_TYPES,
        "thinking: Input tag does not match any expected tag",
    )
    if thinking["type"] in ("enabled", "adaptive"):
        check_thinking_neighbours(body)
    if thinking["type"] == "enabled":
        check_budget(body, thinking.get("budget_tokens"))
        check_last_turn(body)


def check_budget(body: JsonObject, budget: Any) -> None:
    where = "thinking.enabled.budget_tokens"
    demand(isinstance(budget, int), f"{where}: Field required")
    demand(budget >= BUDGET_MIN, f"{where}: Input should be greater than or equal to 1024")
    demand(
        budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`"
    )


def check_thinking_neighbours(body: JsonObject) -> None:
    problem = "`temperature` may only be set to 1 when thinking is enabled"
    demand(body.get("temperature", 1) == 1, problem)
    demand("top_k" not in body, "`top_k` must be unset when thinking is enabled")
    demand(body.get("top_p", 1) >= TOP_P_MIN, "`top_p` must be at least 0.95 with thinking")
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    demand(not forced, "Thinking may not be enabled when tool_choice forces tool use.")
    problem = "messages: the final message must not be the assistant's when thinking is enabled"
    demand(body["messages"][-1]["role"] != "assistant", problem)


def check_last_turn(body: JsonObject) -> None:
    """A turn that waits for tool results goes on thinking where it stopped."""
    if not any(
        b.get("type") == "tool_result" for b in list_objects(body["messages"][-1], "content")
    ):
        return
    turn = [message for message in body["messages"] if message["role"] == "assistant"][-1]
    first = list_objects(turn, "content")[0].get("type")
    problem = "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
    demand(first in ("thinking", "redacted_thinking"), f"messages: {problem}")
