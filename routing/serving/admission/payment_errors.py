"""Why a request cannot be paid for: which budget it is, and who can raise it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from accounts.money import format_dollars
from accounts.spending import WINDOW_WORDS, SpendScope
from gateway.http.errors import PaymentRequired, PermissionDenied
from routing.ledger.orders import HoldRefusal
from routing.serving.request.call import Call

_RESET_WORDS: Final = {None: "total", "daily": "daily", "weekly": "weekly", "monthly": "monthly"}


class _Limit(NamedTuple):
    """What a request was held to: `name` says which limit it is, `remedy` who can raise it."""

    source: str
    name: str
    remedy: str
    asked_nano: int
    left_nano: int
    held_nano: int


def payment_required(
    call: Call, refusal: HoldRefusal, *, output_tokens: int, prompt_nano: int = 0
) -> PaymentRequired | PermissionDenied:
    """Which 402 or 403 a refused hold is, in the order of the inference reference's 9.5.

    `prompt_nano` is the part of what was asked that no smaller output would save.
    """
    for state in refusal.budgets:
        if state.left_nano <= 0 and state.asked_nano:
            return budget_exceeded(state.scope)
    limits = list(_limits(call, refusal))
    for limit in limits:
        if limit.source == "router_key_limit" and limit.left_nano <= 0 and limit.asked_nano:
            return key_limit_exhausted(call, refusal.key_reset)
        is_broke = limit.left_nano < 0 or (limit.left_nano == 0 and limit.asked_nano)
        if limit.source == "router_credits" and is_broke:
            return insufficient_credits(call)
    for limit in limits:
        if limit.asked_nano > limit.left_nano:
            affordable = _affordable(limit, output_tokens, prompt_nano)
            return _too_dear(limit, output_tokens, affordable)
    busy = [each for each in limits if each.asked_nano > each.left_nano - each.held_nano]
    return _in_flight(next(iter(busy), None))


def budget_exceeded(scope: SpendScope) -> PermissionDenied:
    """Somebody set this budget: only they can do something about it."""
    return PermissionDenied(
        f"{scope.scope.capitalize()} {WINDOW_WORDS[scope.window]} budget of "
        f"{format_dollars(scope.limit_nano)} exceeded. Contact your org admin.",
        metadata={"remedy_hint": "Ask who manages the budget to raise it, or wait for its reset."},
    )


def key_limit_exhausted(call: Call, reset: str | None) -> PaymentRequired:
    return PaymentRequired(
        f"Key limit exceeded ({_RESET_WORDS[reset]} limit). It is {_key_limit(call)}. "
        f"{_key_remedy(call)}",
        metadata={
            "limit_source": "router_key_limit",
            "reason": "key_limit_exhausted",
            "remedy_hint": "Raise the key's limit or wait for its reset.",
        },
    )


def insufficient_credits(call: Call) -> PaymentRequired:
    return PaymentRequired(
        f"Insufficient credits. {_credit_remedy(call)}",
        metadata={"limit_source": "router_credits", "remedy_hint": "Add credits to the account."},
    )


def _limits(call: Call, refusal: HoldRefusal) -> Iterator[_Limit]:
    """All that the request was held to, in the order in which they refuse."""
    if refusal.key_left_nano is not None:
        asked = refusal.key_asked_nano
        yield _Limit(
            "router_key_limit",
            _key_limit(call),
            _key_remedy(call),
            refusal.asked_nano if asked is None else asked,
            refusal.key_left_nano,
            refusal.key_held_nano,
        )
    if settings.BILLING_ENFORCED and refusal.asks_the_account:
        yield _Limit(
            "router_credits",
            "the account's credits",
            _credit_remedy(call),
            refusal.asked_nano,
            refusal.balance_nano,
            refusal.held_nano,
        )
    for scope, left_nano, held_nano, asked_nano in refusal.budgets:
        source = f"router_{scope.scope}_budget"
        name, remedy = _budget_words(call, scope)
        yield _Limit(source, name, remedy, asked_nano, left_nano, held_nano)


def _key_limit(call: Call) -> str:
    return f'the limit of API key "{call.caller.key_name}"'


def _key_remedy(call: Call) -> str:
    return _managed_remedy(call, "PATCH /api/v1/keys/{hash}")


def _credit_remedy(call: Call) -> str:
    page = reverse("admin:accounts_account_change", args=[call.payer.account_id])
    return f"Whoever runs this gateway can add credits, using {call.root_url}{page}"


def _budget_words(call: Call, scope: SpendScope) -> tuple[str, str]:
    """Which budget it is, and who can raise it."""
    owner = str(UUID(scope.scope_id.partition(":")[0]))
    window = WINDOW_WORDS[scope.window]
    path = f"PATCH /api/v1/guardrails/{owner}"
    if scope.scope == "workspace":
        path = f"PUT /api/v1/workspaces/{owner}/budgets/{window}"
    name = f"the {window} budget of {format_dollars(scope.limit_nano)} of {scope.scope} {owner}"
    return name, _managed_remedy(call, path)


def _managed_remedy(call: Call, path: str) -> str:
    return (
        f"A management key of the account can raise it with {path}, "
        f"described at {call.root_url}{reverse('docs')}"
    )


def _affordable(limit: _Limit, asked_tokens: int, prompt_nano: int) -> int:
    """The most output tokens that what is left would pay for, besides the prompt."""
    output_nano = max(1, limit.asked_nano - prompt_nano)
    return max(0, asked_tokens * (limit.left_nano - prompt_nano) // output_nano)


def _too_dear(limit: _Limit, asked_tokens: int, affordable: int) -> PaymentRequired:
    metadata: dict[str, Any] = {
        "limit_source": limit.source,
        "provider_name": None,
        "remedy_hint": "Ask for fewer max_tokens, or raise what may be spent.",
    }
    if limit.source == "router_credits":
        metadata["reason"] = "weight_exceeds_budget"
    return PaymentRequired(
        "This request requires more credits, or fewer max_tokens. You requested up to "
        f"{asked_tokens} tokens, but can only afford {affordable}. What is left of {limit.name} "
        f"decides. {limit.remedy}",
        metadata=metadata,
    )


def _in_flight(limit: _Limit | None) -> PaymentRequired:
    """No limit is named where requests gave back meanwhile what they had held."""
    held = f" They hold {limit.name}. {limit.remedy}" if limit is not None else ""
    return PaymentRequired(
        f"Credits are held by requests in flight. Retry when they have finished.{held}",
        metadata={
            "limit_source": "router_in_flight_budget",
            "reason": "in_flight_budget_exhausted",
            "remedy_hint": "Retry when running requests have finished.",
        },
        headers={"Retry-After": "1"},
    )
