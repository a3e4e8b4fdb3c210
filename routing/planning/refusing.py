"""What a caller is told who cannot be served: guardrails first, then payment, then rate limits."""

from collections.abc import Sequence

from gateway.http.errors import GatewayError, PermissionDenied
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import ModelEntry
from routing.metering.byok import charges_a_fee
from routing.serving.admission.limiting import too_many, would_be_too_many
from routing.serving.admission.standing import refuse_broke
from routing.serving.attempts.own_credentials import any_matches
from routing.serving.request.call import Call


def refusal_of(call: Call) -> GatewayError:
    """What the caller is told where no endpoint can serve the request: what guardrails forbid
    comes first, then payment."""
    assert call.refusal is not None
    error = call.refusal()
    if isinstance(error, PermissionDenied):
        return error
    _refuse_broke(call)
    return would_be_too_many(call) or error


def refuse_too_many(call: Call) -> None:
    """Count a request against the rate limits. Raises `RateLimited`; payment comes first here
    too."""
    limited = too_many(call)
    if limited is not None:
        _refuse_broke(call)
        raise limited


def refuse_early(call: Call) -> None:
    """Before work is done for a request that is not planned yet: raise what it would be refused
    with by payment or rate limits. It counts for nothing."""
    _refuse_broke(call)
    limited = would_be_too_many(call)
    if limited is not None:
        raise limited


def _refuse_broke(call: Call) -> None:
    free = call.strategy == "free" or _is_free(call.choice.models)
    aliases = catalogue.current().aliases
    brought = any_matches(call.caller.byok, call.choice.models, aliases)
    refuse_broke(call, free=free, own_credential=brought and not charges_a_fee())


def _is_free(models: Sequence[ModelEntry]) -> bool:
    """Whether some endpoint could be had for nothing."""
    prices = [each.prices for model in models for each in model.endpoints]
    return any(price is not None and price.is_free for price in prices)
