"""What a request wishes of reasoning, fitted to one endpoint before its wire writes it."""

from dataclasses import replace
from typing import Any

from routing.entities.efforts import Effort, EffortRules, effort_for_budget, fit_effort
from routing.entities.entries import EndpointEntry
from routing.formats.chat.request import ChatRequest
from routing.upstreams.wires import wire_of


def fit_reasoning(
    chat: ChatRequest, endpoint: EndpointEntry, output_tokens_max: int | None
) -> ChatRequest:
    """The request with an effort that the endpoint's model takes, and with a budget as an effort
    where the endpoint takes no budgets. It is the same object where nothing changes."""
    wished, rules = chat.reasoning, endpoint.efforts
    if wished is None or (rules is None and wished.max_tokens is None):
        return chat
    effort, budget = wished.effort, wished.max_tokens
    if budget is not None and not (_takes_budgets(endpoint) and (budget or not _must(rules))):
        effort, budget = effort or effort_for_budget(budget, output_tokens_max), None
    if effort is not None and rules is not None:
        effort = fit_effort(effort, rules)
    original = chat.original
    if rules is not None and original is not None and chat.format == "messages":
        original = _fit_messages(original, rules)
    if (effort, budget) == (wished.effort, wished.max_tokens):
        return chat if original is chat.original else replace(chat, original=original)
    reasoning = replace(wished, effort=effort, max_tokens=budget, enabled=None)
    body = _with_wishes(chat.body, effort, budget)
    return replace(chat, body=body, reasoning=reasoning, original=original)


def _takes_budgets(endpoint: EndpointEntry) -> bool:
    return wire_of(endpoint.provider.kind).takes_budgets and "reasoning" in endpoint.taken_fields


def _must(rules: EffortRules | None) -> bool:
    return rules is not None and rules.mandatory


def _with_wishes(body: dict[str, Any], effort: Effort | None, budget: int | None) -> dict[str, Any]:
    """The chat body in the caller's spelling of the effort."""
    if body.get("reasoning") is None:
        return {**body, "reasoning_effort": effort}
    said = {name: body["reasoning"].get(name) for name in ("summary", "exclude")}
    wishes = {**said, "effort": effort, "max_tokens": budget}
    reasoning = {name: value for name, value in wishes.items() if value is not None}
    others = {name: value for name, value in body.items() if name != "reasoning_effort"}
    return {**others, "reasoning": reasoning}


def _fit_messages(original: dict[str, Any], rules: EffortRules) -> dict[str, Any]:
    """A messages body names its effort beside `thinking`, and also where that is disabled."""
    config, thinking = original.get("output_config") or {}, original.get("thinking") or {}
    fitted = dict(original)
    if effort := config.get("effort"):
        fitted["output_config"] = {**config, "effort": fit_effort(effort, rules)}
    if thinking.get("type") == "disabled" and rules.mandatory:
        del fitted["thinking"]
    return original if fitted == original else fitted
