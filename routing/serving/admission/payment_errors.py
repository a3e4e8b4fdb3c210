"""Why a request cannot be paid for: which budget it is, and who can raise it.

A request without an endpoint asks the books first, because payment errors come before routing
errors. For every request that is sent, the hold checks the credit.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from accounts.models import Account, ApiKey
from accounts.money import format_dollars
from accounts.services.budgets import read_spending
from accounts.services.key_limits import read_usage
from accounts.spending import OF_REQUESTS, WINDOW_WORDS, ScopeKind, SpendScope
from gateway.database.db import Lane, run_queries
from gateway.http.errors import PaymentRequired, PermissionDenied
from gateway.http.jsonio import JsonObject
from routing.ledger.orders import HoldRefusal
from routing.serving.request.context import RequestContext


def refuse_unpayable(context: RequestContext, *, free: bool, own_credential: bool = False) -> None:
    """Raise `PermissionDenied` for a spent budget. Raise `PaymentRequired` for a spent key, or an
    account that owes or has nothing left. `free` says that the request might have cost nothing.
    With `own_credential` the team has one for it, and the balance is checked when the endpoint is
    asked."""
    run_queries(Lane.READ, lambda: _refuse_unpayable(context, free, own_credential))


def _refuse_unpayable(context: RequestContext, free: bool, own_credential: bool) -> None:
    if context.payer.budgets and not free:
        counted = read_spending(
            context.payer.account_id,
            context.payer.budgets,
            at=context.created_at,
        )
        for budget in context.payer.budgets:
            if budget.is_enforced and counted[budget] >= budget.limit_nano:
                raise build_budget_error(budget)
    key = ApiKey.objects.get(pk=context.payer.key_id)
    if key.enforced_limit_nano is not None and not free:
        spent_nano = read_usage(key=key, at=context.created_at).counted_nano(key)
        if spent_nano >= key.enforced_limit_nano:
            raise build_key_limit_error(context, key.limit_reset)
    if settings.BILLING_ENFORCED and not own_credential:
        account = Account.objects.get(pk=context.payer.account_id)
        if account.balance_nano < 0 or (account.balance_nano == 0 and not free):
            raise build_credits_error(context)


_RESET_WORDS: Final = {None: "total", "daily": "daily", "weekly": "weekly", "monthly": "monthly"}


class _Limit(NamedTuple):
    """What a request was held to: `name` says which limit it is, `remedy` who can raise it."""

    source: str
    name: str
    remedy: str
    asked_nano: int
    left_nano: int
    held_nano: int


def build_payment_error(
    context: RequestContext, refusal: HoldRefusal, *, output_tokens: int, prompt_nano: int = 0
) -> PaymentRequired | PermissionDenied:
    """Which 402 or 403 a refused hold is.

    What is spent comes first: a budget, the key's limit, the balance. Then what the request alone
    would exceed, and last what other requests hold at the moment.

    `prompt_nano` is the part of what was asked that no smaller output would save.
    """
    for state in refusal.budgets:
        if state.left_nano <= 0 and state.asked_nano:
            return build_budget_error(state.scope)
    limits = list(_limits(context, refusal))
    for limit in limits:
        if limit.source == "router_key_limit" and limit.left_nano <= 0 and limit.asked_nano:
            return build_key_limit_error(context, refusal.key_reset)
        is_broke = limit.left_nano < 0 or (limit.left_nano == 0 and limit.asked_nano)
        if limit.source == "router_credits" and is_broke:
            return build_credits_error(context)
    for limit in limits:
        if limit.asked_nano > limit.left_nano:
            # The most output tokens that what is left would pay for, besides the
            # prompt.
            output_nano = max(1, limit.asked_nano - prompt_nano)
            affordable = max(0, output_tokens * (limit.left_nano - prompt_nano) // output_nano)
            metadata: JsonObject = {
                "limit_source": limit.source,
                "provider_name": None,
                "remedy_hint": "Ask for fewer max_tokens, or raise what may be spent.",
            }
            if limit.source == "router_credits":
                metadata["reason"] = "weight_exceeds_budget"
            return PaymentRequired(
                "This request requires more credits, or fewer max_tokens. You requested up to "
                f"{output_tokens} tokens, but can only afford {affordable}. What is left of "
                f"{limit.name} decides. {limit.remedy}",
                metadata=metadata,
            )
    busy = [each for each in limits if each.asked_nano > each.left_nano - each.held_nano]
    return _in_flight(next(iter(busy), None))


_OWNERS: Final[dict[ScopeKind, str]] = {
    "workspace": "Workspace",
    "guardrail": "Guardrail",
    "end_user": "End user",
    "tag": "Tag",
}


def build_budget_error(scope: SpendScope) -> PermissionDenied:
    """Somebody set this budget: only they can do something about it."""
    return PermissionDenied(
        f"{_OWNERS[scope.scope]}{_quote_tag(scope)} {WINDOW_WORDS[scope.window]} budget of "
        f"{format_dollars(scope.limit_nano)} exceeded. Contact your org admin.",
        metadata={"remedy_hint": "Ask who manages the budget to raise it, or wait for its reset."},
        reason=f"{scope.scope}_budget",
    )


def _quote_tag(scope: SpendScope) -> str:
    return f' "{scope.tag}"' if scope.tag else ""


def build_key_limit_error(context: RequestContext, reset: str | None) -> PaymentRequired:
    return PaymentRequired(
        f"Key limit exceeded ({_RESET_WORDS[reset]} limit). It is {_key_limit(context)}. "
        f"{_key_remedy(context)}",
        metadata={
            "limit_source": "router_key_limit",
            "reason": "key_limit_exhausted",
            "remedy_hint": "Raise the key's limit or wait for its reset.",
        },
    )


def build_credits_error(context: RequestContext) -> PaymentRequired:
    return PaymentRequired(
        f"Insufficient credits. {_credit_remedy(context)}",
        metadata={"limit_source": "router_credits", "remedy_hint": "Add credits to the account."},
    )


def _limits(context: RequestContext, refusal: HoldRefusal) -> Iterator[_Limit]:
    """All that the request was held to, in the order in which they refuse."""
    if refusal.key_left_nano is not None:
        asked = refusal.key_asked_nano
        yield _Limit(
            "router_key_limit",
            _key_limit(context),
            _key_remedy(context),
            refusal.asked_nano if asked is None else asked,
            refusal.key_left_nano,
            refusal.key_held_nano,
        )
    if settings.BILLING_ENFORCED and refusal.asks_the_account:
        yield _Limit(
            "router_credits",
            "the account's credits",
            _credit_remedy(context),
            refusal.asked_nano,
            refusal.balance_nano,
            refusal.held_nano,
        )
    for scope, left_nano, held_nano, asked_nano in refusal.budgets:
        source = f"router_{scope.scope}_budget"
        name, remedy = _budget_words(context, scope)
        yield _Limit(source, name, remedy, asked_nano, left_nano, held_nano)


def _key_limit(context: RequestContext) -> str:
    return f'the limit of API key "{context.caller.key_name}"'


def _key_remedy(context: RequestContext) -> str:
    return _managed_remedy(context, "PATCH /api/v1/keys/{hash}")


def _credit_remedy(context: RequestContext) -> str:
    page = reverse("admin:accounts_account_change", args=[context.payer.account_id])
    return f"Whoever runs this gateway can add credits, using {context.root_url}{page}"


def _budget_words(context: RequestContext, scope: SpendScope) -> tuple[str, str]:
    """Which budget it is, and who can raise it."""
    owner = str(UUID(scope.scope_id.partition(":")[0]))
    window = WINDOW_WORDS[scope.window]
    path = f"PATCH /api/v1/guardrails/{owner}"
    if scope.scope in OF_REQUESTS:
        path = f"PATCH /api/v1/workspaces/{owner}"
        whose = _OWNERS[scope.scope].lower() + _quote_tag(scope)
        name = f"the {window} budget of {format_dollars(scope.limit_nano)} of this {whose}"
        return name, _managed_remedy(context, path)
    if scope.scope == "workspace":
        path = f"PUT /api/v1/workspaces/{owner}/budgets/{window}"
    name = f"the {window} budget of {format_dollars(scope.limit_nano)} of {scope.scope} {owner}"
    return name, _managed_remedy(context, path)


def _managed_remedy(context: RequestContext, path: str) -> str:
    return (
        f"A management key of the account can raise it with {path}, "
        f"described at {context.root_url}{reverse('docs')}"
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
