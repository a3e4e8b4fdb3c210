"""What a strict provider refuses together with extended thinking."""

from typing import Any

from routing.simulator.formats.messages.reading import listed
from routing.simulator.formats.rules import demand

BUDGET_MIN = 1024
TYPES = ("enabled", "disabled", "adaptive", "between_tools")
TOP_P_MIN = 0.95


def check(body: dict[str, Any]) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    demand(isinstance(thinking, dict), "thinking: Input should be a valid dictionary")
    demand(thinking.get("type") in TYPES, "thinking: Input tag does not match any expected tag")
    if thinking["type"] in ("enabled", "adaptive"):
        check_company(body)
    if thinking["type"] == "enabled":
        check_budget(body, thinking.get("budget_tokens"))
        check_last_turn(body)


def check_budget(body: dict[str, Any], budget: Any) -> None:
    where = "thinking.enabled.budget_tokens"
    demand(isinstance(budget, int), f"{where}: Field required")
    demand(budget >= BUDGET_MIN, f"{where}: Input should be greater than or equal to 1024")
    demand(
        budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`"
    )


def check_company(body: dict[str, Any]) -> None:
    told = "`temperature` may only be set to 1 when thinking is enabled"
    demand(body.get("temperature", 1) == 1, told)
    demand("top_k" not in body, "`top_k` must be unset when thinking is enabled")
    demand(body.get("top_p", 1) >= TOP_P_MIN, "`top_p` must be at least 0.95 with thinking")
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    demand(not forced, "Thinking may not be enabled when tool_choice forces tool use.")
    told = "messages: the final message must not be the assistant's when thinking is enabled"
    demand(body["messages"][-1]["role"] != "assistant", told)


def check_last_turn(body: dict[str, Any]) -> None:
    """A turn that waits for tool results goes on thinking where it stopped."""
    if not any(b.get("type") == "tool_result" for b in listed(body["messages"][-1], "content")):
        return
    turn = [message for message in body["messages"] if message["role"] == "assistant"][-1]
    first = listed(turn, "content")[0].get("type")
    told = "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
    demand(first in ("thinking", "redacted_thinking"), f"messages: {told}")
