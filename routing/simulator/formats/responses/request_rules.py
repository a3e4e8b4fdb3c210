"""What a strict provider of the responses format refuses: credential and top-level fields."""

from collections.abc import Mapping
from typing import Any

from routing.simulator.formats.base import Complaint
from routing.simulator.formats.responses import item_rules
from routing.simulator.formats.rules import Broken

KNOWN = frozenset(
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
INCLUDED = (
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


def complaint(headers: Mapping[str, str], body: dict[str, Any]) -> Complaint | None:
    """The first reason to refuse the request, the credential before the body."""
    if "authorization" not in headers:
        told = "You didn't provide an API key."
        return Complaint(401, told, code="invalid_api_key")
    try:
        check_fields(body)
        check_numbers(body)
        check_reasoning(body.get("reasoning") or {})
        check_text(body.get("text") or {})
        item_rules.check_tools(body)
        item_rules.check(body)
    except Broken as broken:
        return Complaint(400, str(broken), code=broken.code, param=broken.param)
    return None


def refuse(message: str, *, code: str, param: str) -> None:
    raise Broken(message, code=code, param=param)


def one_of(where: str, value: Any, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        told = f"Invalid value: '{value}'. Supported values are: {', '.join(known)}."
        refuse(told, code="invalid_value", param=where)


def check_fields(body: dict[str, Any]) -> None:
    for name in body:
        if name not in KNOWN:
            refuse(f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
    for name in ("model", "input"):
        if body.get(name) is None:
            told = f"Missing required parameter: '{name}'."
            refuse(told, code="missing_required_parameter", param=name)
    if not isinstance(body["input"], str | list):
        told = "Invalid type for 'input': expected one of a string or an array."
        refuse(told, code="invalid_type", param="input")
    for name in body.get("include") or []:
        one_of("include[0]", name, INCLUDED)
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name) is not None:
            told = f"'{body[name]}' was not found."
            refuse(told, code=f"{name}_not_found", param=name)


def check_numbers(body: dict[str, Any]) -> None:
    for name, (low, high) in BOUNDS.items():
        value = body.get(name)
        if value is not None and not low <= value <= high:
            told = f"Invalid '{name}': expected a value between {low} and {high}."
            refuse(told, code="decimal_out_of_range", param=name)
    cap = body.get("max_output_tokens")
    if cap is not None and cap < OUTPUT_MIN:
        told = f"Invalid 'max_output_tokens': expected a value >= 16, but got {cap} instead."
        refuse(told, code="integer_below_min_value", param="max_output_tokens")


def check_reasoning(wanted: dict[str, Any]) -> None:
    for name in wanted:
        if name not in ("effort", "summary", "generate_summary"):
            where = f"reasoning.{name}"
            refuse(f"Unknown parameter: '{where}'.", code="unknown_parameter", param=where)
    one_of("reasoning.effort", wanted.get("effort"), EFFORTS)
    one_of("reasoning.summary", wanted.get("summary"), SUMMARIES)


def check_text(text: dict[str, Any]) -> None:
    one_of("text.verbosity", text.get("verbosity"), VERBOSITIES)
    shape = text.get("format") or {}
    one_of("text.format.type", shape.get("type"), SHAPES)
    if shape.get("type") == "json_schema":
        for name in ("name", "schema"):
            if not shape.get(name):
                where = f"text.format.{name}"
                told = f"Missing required parameter: '{where}'."
                refuse(told, code="missing_required_parameter", param=where)
