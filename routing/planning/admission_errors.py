"""The errors of a caller who cannot be served: guardrails first, then payment, then rate limits."""

from collections.abc import Sequence
from typing import Final

from gateway.http.errors import GatewayError, PermissionDenied, Unavailable
from gateway.http.validation import shorten
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.metering.byok import charges_a_fee
from routing.planning.candidates import ResolvedRequest, batches
from routing.selection.filters import CONTEXT_STEP, GUARDRAILS_STEP, TIER_STEP, list_filters
from routing.selection.select import (
    are_all_down,
    is_down,
    list_offered,
    list_providers,
    list_unpriced,
)
from routing.selection.types import Plan, Policy, Requirements
from routing.serving.admission.payment_errors import refuse_unpayable
from routing.serving.admission.rate_limits import count_request, find_limit_error
from routing.serving.attempts.own_credentials import any_matches
from routing.serving.request.context import RequestProgress
from routing.serving.request.errors import UNPRICED, ContextTooLong, GuardedOut, NoEndpoint

# What has failed where there was no endpoint that a filter could have taken out.
MODELS_STEP: Final = "Resolve Models"


def build_refusal(progress: RequestProgress) -> GatewayError:
    """The error where no endpoint can serve the request. What guardrails forbid comes first, then
    payment."""
    assert progress.context.refusal is not None
    error = progress.context.refusal()
    if isinstance(error, PermissionDenied):
        return error
    _refuse_unpayable(progress)
    return find_limit_error(progress) or error


def count_against_limits(progress: RequestProgress) -> None:
    """Count a request against the rate limits. Raises `RateLimited`; payment comes first here
    too."""
    limited = count_request(progress)
    if limited is not None:
        _refuse_unpayable(progress)
        raise limited


def refuse_early(progress: RequestProgress) -> None:
    """Before work is done for a request that is not planned yet: raise what it would be refused
    with by payment or rate limits. It counts for nothing."""
    _refuse_unpayable(progress)
    limited = find_limit_error(progress)
    if limited is not None:
        raise limited


def _refuse_unpayable(progress: RequestProgress) -> None:
    context, models = progress.context, progress.context.choice.models
    prices = [each.prices for model in models for each in model.endpoints]
    # Whether some endpoint could be had for nothing.
    free = context.strategy == "free" or any(each is not None and each.is_free for each in prices)
    brought = any_matches(context.caller.byok, models, catalogue.current().aliases)
    refuse_unpayable(context, free=free, own_credential=brought and not charges_a_fee())


class NoModels(NoEndpoint):
    """A router or a family finds no model for this request."""

    def __init__(
        self, reference: str, step: str, *, available: list[str], requested: list[str]
    ) -> None:
        text = f"No model found for {shorten(reference)}"
        super().__init__(step, available=available, requested=requested, text=text)


def no_endpoint_error(asked: ResolvedRequest, plan: Plan) -> GatewayError:
    models, ask, policy = asked.resolution.models, asked.ask, asked.policy
    if not models:
        return no_model_error(asked.references[0], asked.resolution.pool, ask, policy)
    if are_all_down(models, ask, policy):
        return Unavailable("Every provider of this model is down", reason="all_down")
    if plan.failed_step == GUARDRAILS_STEP:
        return GuardedOut(
            available=list_providers(models, ask), requested=list(policy.required_references)
        )
    if plan.failed_step == CONTEXT_STEP:
        return ContextTooLong()
    requested = list(policy.required_references)
    step, available = plan.failed_step or MODELS_STEP, list_providers(models, ask)
    text = reason = None
    if not available and (names := list_unpriced(models, ask)):
        text = f"{names[0]} has no price yet: the gateway's operator can give it one"
        reason = UNPRICED
    return NoEndpoint(step, available=available, requested=requested, text=text, reason=reason)


def no_model_error(
    reference: str, pool: Sequence[ModelEntry], ask: Requirements, policy: Policy
) -> GatewayError:
    """Why none of the models would do: which step took the last endpoint out, or that all that are
    left are down."""
    filters = list_filters(ask, policy)
    furthest = -1
    for _, endpoints in batches(pool, lambda model: list_offered((model,), ask)):
        remaining: Sequence[EndpointEntry] = endpoints
        for place, (_, keep) in enumerate(filters):
            if remaining and not (remaining := keep(remaining)):
                furthest = max(furthest, place)
        if remaining and all(map(is_down, remaining)):
            return Unavailable("Every provider of these models is down", reason="all_down")
        if remaining:
            # Routers look at the tiers that are open to every request, filters at named slugs too.
            furthest = max(furthest, [name for name, _ in filters].index(TIER_STEP))
    step = filters[furthest][0] if furthest >= 0 else MODELS_STEP
    requested = policy.required_references
    if step == GUARDRAILS_STEP:
        return GuardedOut(available=list_providers(pool, ask), requested=list(requested))
    return NoModels(reference, step, available=list_providers(pool, ask), requested=list(requested))
