"""Errors that exist once routing has begun."""

from typing import Any

from django.conf import settings

from accounts.money import dollars
from accounts.spending import WINDOW_WORDS, SpendScope
from gateway.http.errors import (
    GatewayError,
    InvalidRequest,
    NotFound,
    PaymentRequired,
    PermissionDenied,
)
from routing.metering.orders import Refusal
from routing.selection.filters import GUARDRAILS_STEP
from routing.serving.call import Attempt, Call

_RETRY_HINTED = (429, 503, 529)


class ProviderError(GatewayError):
    """The last attempt's failure, told with the status of the inference reference's 9.3."""

    def __init__(self, attempts: list[Attempt]) -> None:
        failure = attempts[-1].failure
        assert failure is not None
        super().__init__(failure.message, metadata=_metadata(attempts), headers=_headers(attempts))
        self.status = failure.told_status
        self.error_type = failure.error_type


class DeadlinePassed(GatewayError):
    """The whole request took longer than the gateway's own deadline."""

    status, error_type = 408, "timeout"
    message = "Operation timed out. Please try again later."


class DecisionsTimedOut(GatewayError):
    """The same where decisions are asked for, which know no 408."""

    status, error_type = 524, "timeout"
    message = "Operation timed out. Please try again later."


class UnknownModel(InvalidRequest):
    def __init__(self, reference: str) -> None:
        super().__init__(f"{reference} is not a valid model ID")


class ContextTooLong(InvalidRequest):
    error_type = "context_length_exceeded"
    message = "The prompt and the requested output do not fit into the context of any endpoint"


class NoEndpoint(NotFound):
    """No endpoint is left for the request; `failed_routing_step` names the filter.

    `available` are the slugs of the providers that serve the models, `requested` the references to
    which the caller would be held.
    """

    def __init__(
        self,
        step: str,
        *,
        available: list[str],
        requested: list[str],
        text: str | None = None,
    ) -> None:
        metadata = {
            "available_providers": available,
            "requested_providers": requested,
            "failed_routing_step": step,
        }
        text = text or f"No endpoint is left for this request ({step})"
        super().__init__(text, metadata=metadata)


class GuardedOut(PermissionDenied):
    """Guardrails, or the account's list of models, leave no endpoint. The rest as for
    `NoEndpoint`."""

    def __init__(self, *, available: list[str], requested: list[str]) -> None:
        metadata = {
            "available_providers": available,
            "requested_providers": requested,
            "failed_routing_step": GUARDRAILS_STEP,
        }
        super().__init__(
            "No endpoint of this model is allowed by the guardrails", metadata=metadata
        )


def _metadata(attempts: list[Attempt]) -> dict[str, Any]:
    last = attempts[-1]
    failure = last.failure
    assert failure is not None
    is_byok = last.own is not None
    metadata: dict[str, Any] = {"provider_name": last.endpoint.provider.name, "is_byok": is_byok}
    if settings.ROUTER_EXPOSE_RAW_ERRORS and failure.raw:
        metadata["raw"] = failure.raw
    if failure.provider_code:
        metadata["provider_code"] = failure.provider_code
    if failure.failed_generation is not None:
        metadata["failed_generation"] = failure.failed_generation
    if failure.told_status == 429:
        if not is_byok:
            metadata["limit_source"] = "upstream_provider_shared_pool"
        metadata["remedy_hint"] = "Retry later, or list fallback models in `models`."
    if len(attempts) > 1:
        metadata["previous_errors"] = [_earlier(attempt) for attempt in attempts[:-1]]
    return metadata


def _earlier(attempt: Attempt) -> dict[str, Any]:
    failure = attempt.failure
    return {
        "provider": attempt.endpoint.provider.name,
        "code": failure.error_type if failure else "provider_unavailable",
        "status": attempt.status,
    }


def _headers(attempts: list[Attempt]) -> dict[str, str]:
    """Retry-After: the smallest hint, where every attempted endpoint gave one."""
    failures = [attempt.failure for attempt in attempts]
    hints = [failure.retry_after_s for failure in failures if failure]
    told = failures[-1].told_status if failures[-1] else 0
    known = [hint for hint in hints if hint is not None]
    if told not in _RETRY_HINTED or len(known) != len(attempts):
        return {}
    return {"Retry-After": str(max(0, round(min(known))))}


_RESET_WORDS = {None: "total", "daily": "daily", "weekly": "weekly", "monthly": "monthly"}


def payment_required(
    call: Call, refusal: Refusal, *, output_tokens: int, prompt_nano: int = 0
) -> PaymentRequired | PermissionDenied:
    """Which 402 or 403 a refused hold is, in the order of the inference reference's 9.5.

    `prompt_nano` is the part of what was asked that no smaller output would save.
    """
    for state in refusal.budgets:
        if state.left_nano <= 0 and state.asked_nano:
            return budget_exceeded(state.scope)
    key_left, key_asked = refusal.key_left_nano, refusal.asked_nano
    if refusal.key_asked_nano is not None:
        key_asked = refusal.key_asked_nano
    if key_left is not None and key_left <= 0 and key_asked:
        return key_limit_exhausted(call.root_url, refusal.key_reset)
    enforced = settings.BILLING_ENFORCED and refusal.asks_the_account
    balance_nano = refusal.balance_nano
    if enforced and (balance_nano < 0 or (balance_nano == 0 and refusal.asked_nano)):
        return insufficient_credits(call.root_url)
    lefts = [(key_left, key_asked, "router_key_limit", "keys")] if key_left is not None else []
    if enforced:
        lefts.append((balance_nano, refusal.asked_nano, "router_credits", "credits"))
    lefts += [
        (state.left_nano, state.asked_nano, f"router_{state.scope.scope}_budget", "workspaces")
        for state in refusal.budgets
    ]
    for left_nano, asked_nano, source, page in lefts:
        if asked_nano > left_nano:
            affordable = _affordable(asked_nano, left_nano, output_tokens, prompt_nano)
            return _too_dear(call, output_tokens, affordable, source, page)
    return PaymentRequired(
        "Credits are held by requests in flight. Retry when they have finished, or add more "
        f"using {call.root_url}/settings/credits",
        metadata={
            "limit_source": "router_in_flight_budget",
            "reason": "in_flight_budget_exhausted",
            "remedy_hint": "Retry when running requests have finished.",
        },
        headers={"Retry-After": "1"},
    )


def budget_exceeded(scope: SpendScope) -> PermissionDenied:
    """Somebody set this budget: only they can do something about it."""
    return PermissionDenied(
        f"{scope.scope.capitalize()} {WINDOW_WORDS[scope.window]} budget of "
        f"{dollars(scope.limit_nano)} exceeded. Contact your org admin.",
        metadata={"remedy_hint": "Ask who manages the budget to raise it, or wait for its reset."},
    )


def key_limit_exhausted(root_url: str, reset: str | None) -> PaymentRequired:
    return PaymentRequired(
        f"Key limit exceeded ({_RESET_WORDS[reset]} limit). "
        f"Manage it using {root_url}/settings/keys",
        metadata={
            "limit_source": "router_key_limit",
            "reason": "key_limit_exhausted",
            "remedy_hint": "Raise the key's limit or wait for its reset.",
        },
    )


def insufficient_credits(root_url: str) -> PaymentRequired:
    return PaymentRequired(
        f"Insufficient credits. Add more using {root_url}/settings/credits",
        metadata={"limit_source": "router_credits", "remedy_hint": "Add credits to the account."},
    )


def _affordable(asked_nano: int, left_nano: int, asked_tokens: int, prompt_nano: int) -> int:
    """The most output tokens that what is left would pay for, besides the prompt."""
    output_nano = max(1, asked_nano - prompt_nano)
    return max(0, asked_tokens * (left_nano - prompt_nano) // output_nano)


def _too_dear(
    call: Call, asked_tokens: int, affordable: int, source: str, page: str
) -> PaymentRequired:
    metadata: dict[str, Any] = {
        "limit_source": source,
        "provider_name": None,
        "remedy_hint": "Ask for fewer max_tokens, or raise what may be spent.",
    }
    if source == "router_credits":
        metadata["reason"] = "weight_exceeds_budget"
    return PaymentRequired(
        "This request requires more credits, or fewer max_tokens. You requested up to "
        f"{asked_tokens} tokens, but can only afford {affordable}. To increase, visit "
        f"{call.root_url}/settings/{page} and add more credits",
        metadata=metadata,
    )
