"""Usage as the caller reads it. Money is exact in text."""

from typing import NamedTuple

from gateway.http.jsonio import JsonObject, usd
from routing.metering.cost import Cost
from routing.metering.usage import Usage


class ServerToolUse(NamedTuple):
    """How many server tools a model asked for, and how many of these were run."""

    requested: int
    executed: int


def build_usage_report(
    usage: Usage,
    *,
    charged_nano: int,
    cost: Cost,
    is_byok: bool = False,
    tools: ServerToolUse | None = None,
) -> JsonObject:
    """The `usage` object; `cost` in it is what the account was charged, no more and no less. With a
    team's own credential its list price stands beside. `tools` are those that the gateway ran."""
    details = {
        "cached_tokens": usage.cached_tokens,
        "audio_tokens": usage.prompt_audio_tokens,
        "video_tokens": usage.video_tokens,
    }
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    report = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": usage.completion_audio_tokens,
            "image_tokens": usage.completion_image_tokens,
            "accepted_prediction_tokens": usage.accepted_prediction_tokens,
            "rejected_prediction_tokens": usage.rejected_prediction_tokens,
        },
        "cost": usd(charged_nano),
        "cost_details": {
            "upstream_inference_cost": usd(cost.total_nano) if is_byok else None,
            "upstream_inference_prompt_cost": usd(cost.prompt_nano),
            "upstream_inference_completions_cost": usd(cost.completion_nano),
        },
        "is_byok": is_byok,
    }
    if tools is not None:
        report["server_tool_use_details"] = {
            "tool_calls_requested": tools.requested,
            "tool_calls_executed": tools.executed,
            **({"web_search_requests": usage.web_searches} if usage.web_searches else {}),
        }
    elif usage.web_searches:
        report["server_tool_use_details"] = {
            "tool_calls_requested": None,
            "tool_calls_executed": None,
            "web_search_requests": usage.web_searches,
        }
    return report
