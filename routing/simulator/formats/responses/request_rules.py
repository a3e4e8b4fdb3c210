"""What a strict provider of the responses format refuses: fields, tools, input items."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from routing.simulator.encoding import JsonObject, unseal
from routing.simulator.formats.base import Complaint, RuleBroken
from routing.simulator.formats.responses.reading import list_items, list_objects

CALL_ID_LENGTH_MAX = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ROLES = ("user", "assistant", "system", "developer")
ASSISTANT_PARTS = ("output_text", "refusal")
USER_PARTS = ("input_text", "input_image", "input_file", "input_audio")
TOOLS = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer_use_preview",
        "custom",
        "file_search",
        "function",
        "image_generation",
        "local_shell",
        "mcp",
        "namespace",
        "shell",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
FUNCTION_KEYS = frozenset({"type", "name", "description", "parameters", "strict", "defer_loading"})
# Items of tools that only the provider itself runs; their insides are its own business.
OPAQUE_ITEMS = frozenset(
    {
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "shell_call",
        "shell_call_output",
        "web_search_call",
    }
)
PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs", "custom_tool_call": "ctc"}


def refuse(where: str, message: str, code: str = "invalid_value") -> NoReturn:
    raise RuleBroken(message, code=code, param=where)


def refuse_missing(where: str) -> NoReturn:
    refuse(where, f"Missing required parameter: '{where}'.", "missing_required_parameter")


def check_tools(body: JsonObject) -> None:
    for at, tool in enumerate(body.get("tools") or []):
        where = f"tools[{at}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in TOOLS:
            refuse(f"{where}.type", f"Invalid value: '{kind}'.")
        if kind == "function":
            check_function(where, tool)
    if body.get("tool_choice") not in (None, "auto", "none") and not body.get("tools"):
        problem = "Tool choice 'required' must be specified with 'tools' parameter."
        refuse("tool_choice", problem)


def check_function(where: str, tool: JsonObject) -> None:
    for name in tool:
        if name not in FUNCTION_KEYS:
            problem = f"Unknown parameter: '{where}.{name}'."
            refuse(f"{where}.{name}", problem, "unknown_parameter")
    if not isinstance(tool.get("name"), str) or not NAME.fullmatch(tool["name"]):
        refuse_missing(f"{where}.name")
    if "parameters" not in tool:
        refuse_missing(f"{where}.parameters")


def check_input(body: JsonObject) -> None:
    """Check every input item, and that calls and their outputs belong together."""
    if isinstance(body["input"], list) and len(list_objects(body["input"])) != len(body["input"]):
        refuse("input", "Invalid type for 'input': expected an array of objects.")
    given = list_items(body)
    for at, item in enumerate(given):
        check_item(f"input[{at}]", item)
    check_pairs(given)
    check_followers(given)


def check_item(where: str, item: JsonObject) -> None:
    kind = item.get("type", "message")
    if kind in OPAQUE_ITEMS:
        return
    if kind not in ITEM_CHECKS:
        refuse(where, f"Invalid value: '{kind}'.")
    check_id(where, kind, item.get("id"))
    ITEM_CHECKS[kind](where, item)


def check_id(where: str, kind: str, given: object) -> None:
    prefix = PREFIXES.get(kind, "")
    if given is not None and not (isinstance(given, str) and given.startswith(prefix)):
        problem = f"Invalid '{where}.id': '{given}'. Expected an ID that begins with '{prefix}'."
        refuse(f"{where}.id", problem)


def check_message(where: str, item: JsonObject) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        refuse(f"{where}.role", f"Invalid value: '{role}'.")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        refuse(f"{where}.content", f"Missing required parameter: '{where}.content'.")
    check_parts(f"{where}.content", content, ASSISTANT_PARTS if role == "assistant" else USER_PARTS)


def check_parts(where: str, parts: list[Any], known: tuple[str, ...]) -> None:
    for at, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in known:
            problem = f"Invalid value: '{kind}'. Supported values are: {', '.join(known)}."
            refuse(f"{where}[{at}]", problem)
        check_part(f"{where}[{at}]", part)


def check_part(where: str, part: JsonObject) -> None:
    kind = part["type"]
    name = "refusal" if kind == "refusal" else "text"
    if kind in ("input_text", "output_text", "refusal") and not isinstance(part.get(name), str):
        refuse_missing(f"{where}.{name}")
    if kind == "input_image":
        url = part.get("image_url")
        if url is None and part.get("file_id") is None:
            refuse(where, f"Missing required parameter: '{where}.image_url'.")
        if url is not None and not str(url).startswith(("http://", "https://", "data:image/")):
            problem = f"Invalid '{where}.image_url'. Expected a valid URL."
            refuse(f"{where}.image_url", problem)
    if kind == "input_file" and not part.keys() & {"file_data", "file_url", "file_id"}:
        refuse(where, f"Missing required parameter: '{where}.file_id'.")


def check_call_id(where: str, item: JsonObject) -> None:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        refuse_missing(f"{where}.call_id")
    if len(call_id) > CALL_ID_LENGTH_MAX:
        problem = f"Invalid '{where}.call_id': string too long. Expected at most 64 characters."
        refuse(f"{where}.call_id", problem, "string_above_max_length")


def check_call(where: str, item: JsonObject) -> None:
    check_call_id(where, item)
    said = "input" if item["type"] == "custom_tool_call" else "arguments"
    for name in ("name", said):
        if not isinstance(item.get(name), str):
            refuse_missing(f"{where}.{name}")


def check_output(where: str, item: JsonObject) -> None:
    check_call_id(where, item)
    output = item.get("output")
    if isinstance(output, list):
        check_parts(f"{where}.output", output, USER_PARTS)
    elif not isinstance(output, str):
        refuse_missing(f"{where}.output")


def check_reasoning_item(where: str, item: JsonObject) -> None:
    """Nothing is stored here, so a thought comes back whole or not at all."""
    for name in ("id", "summary"):
        if name not in item:
            refuse_missing(f"{where}.{name}")
    encrypted = item.get("encrypted_content")
    if encrypted is None and not item.get("content"):
        problem = f"Item with id '{item['id']}' not found. Items are not persisted"
        refuse(where, f"{problem} when `store` is set to false.")
    if encrypted is not None and unseal(encrypted) is None:
        problem = f"The encrypted content for item {item['id']} could not be verified."
        refuse(where, problem, "invalid_encrypted_content")


def check_reference(where: str, item: JsonObject) -> None:
    refuse(where, f"Item with id '{item.get('id')}' not found.")


ITEM_CHECKS: dict[str, Callable[[str, JsonObject], None]] = {
    "message": check_message,
    "function_call": check_call,
    "custom_tool_call": check_call,
    "function_call_output": check_output,
    "custom_tool_call_output": check_output,
    "reasoning": check_reasoning_item,
    "item_reference": check_reference,
}


def check_pairs(given: list[JsonObject]) -> None:
    """Every call has an output after it, and every output a call before it."""
    waiting: set[str] = set()
    called: set[str] = set()
    for item in given:
        kind = item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            waiting.add(item["call_id"])
            called.add(item["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if item["call_id"] not in called:
                problem = (
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
                refuse("input", problem)
            waiting.discard(item["call_id"])
    if waiting:
        refuse("input", f"No tool output found for function call {sorted(waiting)[0]}.")


def check_followers(given: list[JsonObject]) -> None:
    """A thought stands before what it led to."""
    for at, item in enumerate(given):
        if item.get("type") != "reasoning":
            continue
        after = given[at + 1] if at + 1 < len(given) else {}
        ours = after.get("role", "assistant") == "assistant" and after
        if not ours:
            problem = f"Item '{item['id']}' of type 'reasoning' was provided without its required"
            refuse("input", f"{problem} following item.")


KNOWN_FIELDS = frozenset(
    {
        "background",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
INCLUDABLE = (
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
)
BOUNDS = {"temperature": (0, 2), "top_p": (0, 1), "top_logprobs": (0, 20)}
OUTPUT_MIN = 16
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
SUMMARIES = ("auto", "concise", "detailed")
VERBOSITIES = ("low", "medium", "high")
SHAPES = ("text", "json_object", "json_schema")


def find_complaint(headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
    """The first reason to refuse the request, the credential before the body."""
    if "authorization" not in headers:
        problem = "You didn't provide an API key."
        return Complaint(401, problem, code="invalid_api_key")
    try:
        check_fields(body)
        check_numbers(body)
        check_reasoning(body.get("reasoning") or {})
        check_text(body.get("text") or {})
        check_tools(body)
        check_input(body)
    except RuleBroken as broken:
        return Complaint(400, str(broken), code=broken.code, param=broken.param)
    return None


def check_choice(where: str, value: object, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        problem = f"Invalid value: '{value}'. Supported values are: {', '.join(known)}."
        refuse(where, problem, "invalid_value")


def check_fields(body: JsonObject) -> None:
    for name in body:
        if name not in KNOWN_FIELDS:
            refuse(name, f"Unknown parameter: '{name}'.", "unknown_parameter")
    for name in ("model", "input"):
        if body.get(name) is None:
            refuse_missing(name)
    if not isinstance(body["input"], str | list):
        problem = "Invalid type for 'input': expected one of a string or an array."
        refuse("input", problem, "invalid_type")
    for name in body.get("include") or []:
        check_choice("include[0]", name, INCLUDABLE)
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name) is not None:
            problem = f"'{body[name]}' was not found."
            refuse(name, problem, f"{name}_not_found")


def check_numbers(body: JsonObject) -> None:
    for name, (low, high) in BOUNDS.items():
        value = body.get(name)
        if value is not None and not low <= value <= high:
            problem = f"Invalid '{name}': expected a value between {low} and {high}."
            refuse(name, problem, "decimal_out_of_range")
    cap = body.get("max_output_tokens")
    if cap is not None and cap < OUTPUT_MIN:
        problem = f"Invalid 'max_output_tokens': expected a value >= 16, but got {cap} instead."
        refuse("max_output_tokens", problem, "integer_below_min_value")


def check_reasoning(wanted: JsonObject) -> None:
    for name in wanted:
        if name not in ("effort", "summary", "generate_summary"):
            where = f"reasoning.{name}"
            refuse(where, f"Unknown parameter: '{where}'.", "unknown_parameter")
    check_choice("reasoning.effort", wanted.get("effort"), EFFORTS)
    check_choice("reasoning.summary", wanted.get("summary"), SUMMARIES)


def check_text(text: JsonObject) -> None:
    check_choice("text.verbosity", text.get("verbosity"), VERBOSITIES)
    shape = text.get("format") or {}
    check_choice("text.format.type", shape.get("type"), SHAPES)
    if shape.get("type") == "json_schema":
        for name in ("name", "schema"):
            if not shape.get(name):
                where = f"text.format.{name}"
                refuse_missing(where)
