"""Reasoning wishes as `thinking` and `output_config.effort`."""

from typing import Any, Final, NamedTuple

from routing.entities.exchange import Prompt, Terms
from routing.upstreams.anthropic.budgets import budget_below, budget_for_effort

_OFF: Final = {"type": "disabled"}
# The API knows neither end of the scale under these names.
_EFFORTS: Final = {"minimal": "low"}


class Thinking(NamedTuple):
    """What is sent; None where nothing is."""

    thinking: dict[str, Any] | None = None
    effort: str | None = None

    @property
    def is_on(self) -> bool:
        return self.thinking is not None and self.thinking != _OFF


def thinking_of(prompt: Prompt, terms: Terms, output_tokens_max: int) -> Thinking:
    """An endpoint that lists `reasoning` takes budgets, one that lists `reasoning_effort` efforts
    with a depth the model chooses. A budget is sent as one where it can be."""
    budgets, efforts = ("reasoning" in terms.supported), ("reasoning_effort" in terms.supported)
    if prompt.reasoning_tokens is not None and budgets:
        return _budgeted(prompt.reasoning_tokens, output_tokens_max)
    effort = prompt.effort
    if effort is None or not (budgets or efforts):
        return Thinking()
    if effort == "none":
        return Thinking(_OFF)
    if efforts:
        display = "omitted" if prompt.exclude_reasoning else "summarized"
        adaptive = {"type": "adaptive", "display": display}
        return Thinking(adaptive, _EFFORTS.get(effort, effort))
    return _enabled(budget_for_effort(effort, output_tokens_max))


def _budgeted(wanted: int, output_tokens_max: int) -> Thinking:
    if wanted <= 0:
        return Thinking(_OFF)
    return _enabled(budget_below(output_tokens_max, wanted))


def _enabled(budget: int | None) -> Thinking:
    """Without room for the smallest budget the model answers without thinking."""
    if budget is None:
        return Thinking()
    return Thinking({"type": "enabled", "budget_tokens": budget})
