"""Usage as this format writes it (inference reference 5.4)."""

from typing import Any


def response_usage(report: dict[str, Any]) -> dict[str, Any]:
    """The chat-shaped report in this format's words; money is copied as it is."""
    usage = {
        "input_tokens": report["prompt_tokens"],
        "input_tokens_details": _input_details(report.get("prompt_tokens_details") or {}),
        "output_tokens": report["completion_tokens"],
        "output_tokens_details": _output_details(report.get("completion_tokens_details") or {}),
        "total_tokens": report["total_tokens"],
        "cost": report.get("cost"),
        "cost_details": _cost_details(report.get("cost_details")),
        "is_byok": report.get("is_byok", False),
    }
    if "server_tool_use_details" in report:
        usage["server_tool_use_details"] = report["server_tool_use_details"]
    return usage


def merged_usage(native: Any, usage: dict[str, Any]) -> dict[str, Any]:
    """The upstream's own object with what was counted and charged in its place."""
    if not isinstance(native, dict):
        return usage
    merged = {**native, **usage}
    for name in ("input_tokens_details", "output_tokens_details"):
        if isinstance(native.get(name), dict):
            merged[name] = {**native[name], **usage[name]}
    return merged


def _input_details(details: dict[str, Any]) -> dict[str, Any]:
    # Official clients insist on both.
    return {name: details.get(name) or 0 for name in ("cached_tokens", "cache_write_tokens")}


def _output_details(details: dict[str, Any]) -> dict[str, Any]:
    return {"reasoning_tokens": details.get("reasoning_tokens") or 0}


def _cost_details(details: dict[str, Any] | None) -> dict[str, Any] | None:
    if details is None:
        return None
    return {
        "upstream_inference_cost": details.get("upstream_inference_cost"),
        "upstream_inference_input_cost": details.get("upstream_inference_prompt_cost"),
        "upstream_inference_output_cost": details.get("upstream_inference_completions_cost"),
    }
