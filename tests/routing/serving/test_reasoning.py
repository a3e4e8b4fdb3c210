"""What endpoints are sent of a wish for reasoning that their model does not take as it is."""

from typing import Any

import orjson
import pytest

from routing.entities.efforts import EffortRules
from routing.formats.chat.format import CHAT
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.serving.attempts.upstream_call import build_upstream_request, fit_reasoning
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import call_to
from tests.routing.serving.test_upstream_requests import call_in

FORMATS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
EFFORTS, BUDGETS = frozenset({"reasoning_effort"}), frozenset({"reasoning"})
HIGH_LOW = EffortRules(frozenset({"high", "low"}), False)
MUST = EffortRules(frozenset({"high", "low", "none"}), True)
OFF = {"type": "disabled"}
Wishes = dict[str, Any]


def sent_reasoning(
    given: str,
    kind: str,
    wishes: Wishes,
    *,
    rules: EffortRules | None = HIGH_LOW,
    takes: frozenset[str] = EFFORTS,
    **facts: Any,
) -> Any:
    facts |= {"efforts": rules, "supported_parameters": takes, "taken_fields": takes}
    target = endpoint(kind=kind, **facts)
    return orjson.loads(
        build_upstream_request(call_in(FORMATS[given], target, **wishes), target).body
    )


def effort_in(body: dict[str, Any]) -> Any:
    """The effort in the words of whichever wire."""
    objects = (body.get("output_config"), body.get("reasoning"))
    return body.get("reasoning_effort") or next((each["effort"] for each in objects if each), None)


EVERY_KIND = pytest.mark.parametrize("kind", ["openai", "anthropic", "responses"])
TOO_HIGH: list[tuple[str, Wishes]] = [
    ("chat", {"reasoning_effort": "max"}),
    ("chat", {"reasoning": {"effort": "xhigh"}}),
    ("chat", {"reasoning": {"effort": "max"}, "reasoning_effort": "max"}),
    ("messages", {"output_config": {"effort": "max"}, "max_tokens": 9}),
    ("messages", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}),
    ("responses", {"reasoning": {"effort": "max"}}),
]
NONE: list[tuple[str, Wishes]] = [
    ("chat", {"reasoning_effort": "none"}),
    ("chat", {"reasoning": {"enabled": False}}),
    ("chat", {"reasoning": {"max_tokens": 0}}),
    ("messages", {"thinking": OFF}),
    ("responses", {"reasoning": {"effort": "none", "summary": "auto"}}),
]


@EVERY_KIND
@pytest.mark.parametrize(("given", "wishes"), TOO_HIGH)
def test_an_effort_that_is_not_supported_is_the_nearest(given, wishes: Wishes, kind: str) -> None:
    assert effort_in(sent_reasoning(given, kind, wishes)) == "high"


@EVERY_KIND
@pytest.mark.parametrize(("given", "wishes"), NONE)
def test_reasoning_that_is_mandatory_is_raised_to_the_lowest(given, wishes, kind: str) -> None:
    body = sent_reasoning(given, kind, wishes, rules=MUST)
    assert effort_in(body) == "low"
    assert body.get("thinking") != OFF
    assert "enabled" not in body.get("reasoning", {})


@pytest.mark.parametrize("rules", [None, HIGH_LOW])
def test_reasoning_that_is_not_mandatory_may_be_off(rules: EffortRules | None) -> None:
    off = {"enabled": False}
    by_budget = sent_reasoning("chat", "openai", {"reasoning": off}, rules=rules, takes=BUDGETS)
    by_effort = sent_reasoning("chat", "responses", {"reasoning": off}, rules=rules)
    assert (by_budget["reasoning"], by_effort["reasoning"]["effort"]) == (off, "none")
    assert (
        sent_reasoning("messages", "anthropic", {"thinking": OFF}, rules=rules)["thinking"] == OFF
    )


def test_an_effort_beside_thinking_that_is_off_is_fitted_too() -> None:
    body = sent_reasoning(
        "messages", "anthropic", {"thinking": OFF, "output_config": {"effort": "max"}}
    )
    assert (body["thinking"], body["output_config"]) == (OFF, {"effort": "high"})


@EVERY_KIND
def test_an_effort_beside_a_budget_counts_where_budgets_are_not_taken(kind: str) -> None:
    wishes = {"reasoning": {"max_tokens": 820, "effort": "low"}, "max_tokens": 1_000}
    assert effort_in(sent_reasoning("chat", kind, wishes, rules=None)) == "low"


@pytest.mark.parametrize(
    ("kind", "tokens", "facts", "effort"),
    [
        ("responses", 820, {}, "high"),
        ("responses", 120, {}, "minimal"),
        ("responses", 0, {}, "none"),
        ("openai", 200, {}, "low"),
        ("openai", 950, {}, "xhigh"),
        ("anthropic", 500, {}, "medium"),
        ("responses", 500, {"rules": HIGH_LOW}, "low"),
    ],
)
def test_a_budget_is_the_nearest_effort_where_none_are_taken(kind, tokens, facts, effort) -> None:
    wishes = {"reasoning": {"max_tokens": tokens}, "max_tokens": 1_000}
    assert effort_in(sent_reasoning("chat", kind, wishes, **{"rules": None, **facts})) == effort


def test_a_budget_is_kept_where_budgets_are_taken_and_wins() -> None:
    wishes = {"reasoning": {"max_tokens": 2_000, "effort": "max"}, "max_tokens": 9_000}
    body = sent_reasoning("chat", "openai", wishes, takes=BUDGETS)
    assert body["reasoning"] == {"max_tokens": 2_000, "effort": "high"}
    thinking = sent_reasoning("chat", "anthropic", wishes, takes=BUDGETS)["thinking"]
    assert thinking == {"type": "enabled", "budget_tokens": 2_000}


@pytest.mark.parametrize(
    "wish", [{}, {"reasoning": {"effort": "high", "exclude": True}}, {"include_reasoning": False}]
)
def test_what_fits_is_left_as_it_is(wish: Any) -> None:
    target = endpoint(efforts=MUST)
    chat = call_to(target, **wish).context.chat
    assert fit_reasoning(chat, target, None) is chat


def test_the_callers_own_words_are_not_changed() -> None:
    given = {"effort": "max", "summary": "detailed", "exclude": True}
    target = endpoint(efforts=HIGH_LOW)
    chat = call_to(target, reasoning=given).context.chat
    fitted = fit_reasoning(chat, target, None)
    assert given["effort"] == "max"
    assert chat.body["reasoning"] is given
    assert fitted.body["reasoning"] == {"effort": "high", "summary": "detailed", "exclude": True}
