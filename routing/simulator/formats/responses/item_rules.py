"""What a strict provider of the responses format refuses in tools and input items."""

import re
from collections.abc import Callable
from typing import Any

from routing.simulator.formats.responses.reading import items, objects
from routing.simulator.formats.rules import Broken
from routing.simulator.seal import unsealed

CALL_ID_LENGTH_MAX = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
ROLES = ("user", "assistant", "system", "developer")
SAID = ("output_text", "refusal")
ASKED = ("input_text", "input_image", "input_file", "input_audio")
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
OPAQUE = frozenset(
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


def broken(where: str, message: str, code: str = "invalid_value") -> Broken:
    return Broken(message, code=code, param=where)


def check_tools(body: dict[str, Any]) -> None:
    for at, tool in enumerate(body.get("tools") or []):
        where = f"tools[{at}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in TOOLS:
            raise broken(f"{where}.type", f"Invalid value: '{kind}'.")
        if kind == "function":
            check_function(where, tool)
    if body.get("tool_choice") not in (None, "auto", "none") and not body.get("tools"):
        told = "Tool choice 'required' must be specified with 'tools' parameter."
        raise broken("tool_choice", told)


def check_function(where: str, tool: dict[str, Any]) -> None:
    for name in tool:
        if name not in FUNCTION_KEYS:
            told = f"Unknown parameter: '{where}.{name}'."
            raise broken(f"{where}.{name}", told, "unknown_parameter")
    if not isinstance(tool.get("name"), str) or not NAME.fullmatch(tool["name"]):
        told = f"Missing required parameter: '{where}.name'."
        raise broken(f"{where}.name", told, "missing_required_parameter")
    if "parameters" not in tool:
        told = f"Missing required parameter: '{where}.parameters'."
        raise broken(f"{where}.parameters", told, "missing_required_parameter")


def check(body: dict[str, Any]) -> None:
    """Check every input item, and that calls and their outputs belong together."""
    if isinstance(body["input"], list) and len(objects(body["input"])) != len(body["input"]):
        raise broken("input", "Invalid type for 'input': expected an array of objects.")
    given = items(body)
    for at, item in enumerate(given):
        check_item(f"input[{at}]", item)
    check_pairs(given)
    check_followers(given)


def check_item(where: str, item: dict[str, Any]) -> None:
    kind = item.get("type", "message")
    if kind in OPAQUE:
        return
    if kind not in CHECKS:
        raise broken(where, f"Invalid value: '{kind}'.")
    check_id(where, kind, item.get("id"))
    CHECKS[kind](where, item)


def check_id(where: str, kind: str, given: Any) -> None:
    prefix = PREFIXES.get(kind, "")
    if given is not None and not (isinstance(given, str) and given.startswith(prefix)):
        told = f"Invalid '{where}.id': '{given}'. Expected an ID that begins with '{prefix}'."
        raise broken(f"{where}.id", told)


def check_message(where: str, item: dict[str, Any]) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise broken(f"{where}.role", f"Invalid value: '{role}'.")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise broken(f"{where}.content", f"Missing required parameter: '{where}.content'.")
    check_parts(f"{where}.content", content, SAID if role == "assistant" else ASKED)


def check_parts(where: str, parts: list[Any], known: tuple[str, ...]) -> None:
    for at, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in known:
            told = f"Invalid value: '{kind}'. Supported values are: {', '.join(known)}."
            raise broken(f"{where}[{at}]", told)
        check_part(f"{where}[{at}]", part)


def check_part(where: str, part: dict[str, Any]) -> None:
    kind = part["type"]
    name = "refusal" if kind == "refusal" else "text"
    if kind in ("input_text", "output_text", "refusal") and not isinstance(part.get(name), str):
        told = f"Missing required parameter: '{where}.{name}'."
        raise broken(f"{where}.{name}", told, "missing_required_parameter")
    if kind == "input_image":
        url = part.get("image_url")
        if url is None and part.get("file_id") is None:
            raise broken(where, f"Missing required parameter: '{where}.image_url'.")
        if url is not None and not str(url).startswith(("http://", "https://", "data:image/")):
            told = f"Invalid '{where}.image_url'. Expected a valid URL."
            raise broken(f"{where}.image_url", told)
    if kind == "input_file" and not part.keys() & {"file_data", "file_url", "file_id"}:
        raise broken(where, f"Missing required parameter: '{where}.file_id'.")


def check_call_id(where: str, item: dict[str, Any]) -> None:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        told = f"Missing required parameter: '{where}.call_id'."
        raise broken(f"{where}.call_id", told, "missing_required_parameter")
    if len(call_id) > CALL_ID_LENGTH_MAX:
        told = f"Invalid '{where}.call_id': string too long. Expected at most 64 characters."
        raise broken(f"{where}.call_id", told, "string_above_max_length")


def check_call(where: str, item: dict[str, Any]) -> None:
    check_call_id(where, item)
    said = "input" if item["type"] == "custom_tool_call" else "arguments"
    for name in ("name", said):
        if not isinstance(item.get(name), str):
            told = f"Missing required parameter: '{where}.{name}'."
            raise broken(f"{where}.{name}", told, "missing_required_parameter")


def check_output(where: str, item: dict[str, Any]) -> None:
    check_call_id(where, item)
    output = item.get("output")
    if isinstance(output, list):
        check_parts(f"{where}.output", output, ASKED)
    elif not isinstance(output, str):
        told = f"Missing required parameter: '{where}.output'."
        raise broken(f"{where}.output", told, "missing_required_parameter")


def check_reasoning(where: str, item: dict[str, Any]) -> None:
    """Nothing is stored here, so a thought comes back whole or not at all."""
    for name in ("id", "summary"):
        if name not in item:
            told = f"Missing required parameter: '{where}.{name}'."
            raise broken(f"{where}.{name}", told, "missing_required_parameter")
    encrypted = item.get("encrypted_content")
    if encrypted is None and not item.get("content"):
        told = f"Item with id '{item['id']}' not found. Items are not persisted"
        raise broken(where, f"{told} when `store` is set to false.")
    if encrypted is not None and unsealed(encrypted) is None:
        told = f"The encrypted content for item {item['id']} could not be verified."
        raise broken(where, told, "invalid_encrypted_content")


def check_reference(where: str, item: dict[str, Any]) -> None:
    raise broken(where, f"Item with id '{item.get('id')}' not found.")


CHECKS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "message": check_message,
    "function_call": check_call,
    "custom_tool_call": check_call,
    "function_call_output": check_output,
    "custom_tool_call_output": check_output,
    "reasoning": check_reasoning,
    "item_reference": check_reference,
}


def check_pairs(given: list[dict[str, Any]]) -> None:
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
                told = (
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
                raise broken("input", told)
            waiting.discard(item["call_id"])
    if waiting:
        raise broken("input", f"No tool output found for function call {sorted(waiting)[0]}.")


def check_followers(given: list[dict[str, Any]]) -> None:
    """A thought stands before what it led to."""
    for at, item in enumerate(given):
        if item.get("type") != "reasoning":
            continue
        after = given[at + 1] if at + 1 < len(given) else {}
        ours = after.get("role", "assistant") == "assistant" and after
        if not ours:
            told = f"Item '{item['id']}' of type 'reasoning' was provided without its required"
            raise broken("input", f"{told} following item.")
