"""Whether a stop condition of the server-tool loop is met (inference reference 1.10)."""

from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

_NANO_PER_USD: Final = 1_000_000_000


def is_met(
    condition: dict[str, Any],
    *,
    steps: int,
    called: Collection[str],
    tokens: int,
    cost_nano: Fraction,
    finish: str,
) -> bool:
    """After a turn. `steps` are the calls of server tools so far, `called` the tools of this turn
    (functions by name, server tools by type and by the name the model knows), `tokens` and
    `cost_nano` what was used so far."""
    kind = condition["type"]
    if kind == "step_count_is":
        return bool(steps >= condition["step_count"])
    if kind == "has_tool_call":
        return condition["tool_name"] in called
    if kind == "max_tokens_used":
        return bool(tokens >= condition["max_tokens"])
    if kind == "max_cost":
        dollars = Fraction(Decimal(str(condition["max_cost_in_dollars"])))
        return cost_nano >= dollars * _NANO_PER_USD
    return bool(finish == condition["reason"])
