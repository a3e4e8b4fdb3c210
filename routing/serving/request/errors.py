"""Errors that exist once routing has begun, and what records say of any error."""

import math
from typing import Final, NamedTuple

from django.conf import settings

from gateway.http.errors import (
    GatewayError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Unavailable,
)
from gateway.http.jsonio import JsonObject
from routing.selection.filters import GUARDRAILS_STEP
from routing.serving.request.context import Attempt

_RETRY_HINTED = (429, 503, 529)
# Metadata that records keep. Others, such as an upstream's raw error, may quote the prompt.
_DETAIL_FIELDS: Final[tuple[str, ...]] = (
    *("available_providers", "requested_providers", "failed_routing_step"),
    *("limit_source", "reason", "remedy_hint", "detected"),
    *("provider_name", "provider_code", "is_byok", "previous_errors"),
)


class ErrorFacts(NamedTuple):
    """Why a request failed. `reason` is a word of a small vocabulary, such as `key_limit`: which
    limit, budget or filter it was. `detail` is that part of `error.metadata` that cannot quote a
    prompt."""

    error_type: str
    reason: str
    text: str
    detail: JsonObject

    @property
    def is_unpaid(self) -> bool:
        """Whether the account's credits, its key's limit or a budget did not suffice."""
        return self.reason in ("credits", "key_limit") or self.reason.endswith("_budget")


def describe_error(error: GatewayError) -> ErrorFacts:
    """The facts of an error, in the words that its caller read."""
    metadata = error.metadata
    detail: JsonObject = {name: metadata[name] for name in _DETAIL_FIELDS if name in metadata}
    return ErrorFacts(error.error_type, error.record_reason, error.text, detail)


class ProviderError(GatewayError):
    """The last attempt's failure, with the status that callers get for its kind."""

    def __init__(self, attempts: list[Attempt]) -> None:
        attempts = [each for each in attempts if not each.is_cancelled]
        failure = attempts[-1].failure
        assert failure is not None
        failures = [attempt.failure for attempt in attempts if attempt.failure]
        hints = [each.retry_after_s for each in failures if each.retry_after_s is not None]
        headers = {}
        # The smallest hint, where every attempted endpoint gave one.
        if failure.caller_status in _RETRY_HINTED and len(hints) == len(attempts):
            headers["Retry-After"] = str(max(0, round(min(hints))))
        super().__init__(failure.message, metadata=_describe_attempts(attempts), headers=headers)
        self.status = failure.caller_status
        self.error_type = failure.error_type


class DeadlinePassed(GatewayError):
    """The whole request took longer than the gateway's own deadline."""

    status, error_type = 408, "timeout"
    default_reason = "deadline"
    message = "Operation timed out. Please try again later."


class DecisionsTimedOut(GatewayError):
    """The same where decisions are asked for, which know no 408."""

    status, error_type = 524, "timeout"
    default_reason = "deadline"
    message = "Operation timed out. Please try again later."


class CredentialsParked(Unavailable):
    """Each endpoint left has only credentials that its provider refuses or throttles."""

    default_reason = "credentials_parked"

    def __init__(self, wait_s: float) -> None:
        super().__init__(
            "All credentials for this model are parked for now",
            retry_after_s=max(1, math.ceil(wait_s)),
        )


class UnknownModel(InvalidRequest):
    default_reason = "unknown_model"

    def __init__(self, reference: str) -> None:
        super().__init__(f"{reference} is not a valid model ID")


class ContextTooLong(InvalidRequest):
    error_type = "context_length_exceeded"
    message = "The prompt and the requested output do not fit into the context of any endpoint"


# The reason on record of requests for models that nobody has given a price.
UNPRICED: Final = "model_unpriced"


class NoEndpoint(NotFound):
    """No endpoint is left for the request; `failed_routing_step` names the filter.

    `available` are the slugs of the providers that serve the models, `requested` the references to
    which the caller would be held.
    """

    default_reason = "no_endpoint"

    def __init__(
        self,
        step: str,
        *,
        available: list[str],
        requested: list[str],
        text: str | None = None,
        reason: str | None = None,
    ) -> None:
        metadata = {
            "available_providers": available,
            "requested_providers": requested,
            "failed_routing_step": step,
        }
        text = text or f"No endpoint is left for this request ({step})"
        super().__init__(text, metadata=metadata, reason=reason)


class GuardedOut(PermissionDenied):
    """Guardrails, or the account's list of models, leave no endpoint. The rest as for
    `NoEndpoint`."""

    default_reason = "guardrail"

    def __init__(self, *, available: list[str], requested: list[str]) -> None:
        metadata = {
            "available_providers": available,
            "requested_providers": requested,
            "failed_routing_step": GUARDRAILS_STEP,
        }
        super().__init__(
            "No endpoint of this model is allowed by the guardrails", metadata=metadata
        )


def _describe_attempts(attempts: list[Attempt]) -> JsonObject:
    last = attempts[-1]
    failure = last.failure
    assert failure is not None
    is_byok = last.own is not None
    metadata: JsonObject = {"provider_name": last.endpoint.provider.name, "is_byok": is_byok}
    if settings.ROUTER_EXPOSE_RAW_ERRORS and failure.raw:
        metadata["raw"] = failure.raw
    if failure.provider_code:
        metadata["provider_code"] = failure.provider_code
    if failure.failed_generation is not None:
        metadata["failed_generation"] = failure.failed_generation
    if failure.caller_status == 429:
        if not is_byok:
            metadata["limit_source"] = "upstream_provider_shared_pool"
        metadata["remedy_hint"] = "Retry later, or list fallback models in `models`."
    if len(attempts) > 1:
        metadata["previous_errors"] = [
            {
                "provider": each.endpoint.provider.name,
                "code": each.failure.error_type if each.failure else "provider_unavailable",
                "status": each.status,
            }
            for each in attempts[:-1]
        ]
    return metadata
