"""What operators and callers read of attempts that failed."""

import logging

from gateway.http.errors import GatewayError
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.ledger.orders import HoldRefusal
from routing.metering.usage import Room, estimate_nano, output_tokens_bound
from routing.serving.admission.payment_errors import build_payment_error
from routing.serving.attempts.own_credentials import find_secret
from routing.serving.attempts.upstream_call import used_its_own_time
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.statistics.observation import is_request_at_fault, record_attempt
from routing.upstreams.failures import RETRY_HINT_DEFAULT_S, UpstreamFailure

log = logging.getLogger("routing.upstreams")


def hide_quotes(progress: RequestProgress, attempt: Attempt, failure: UpstreamFailure) -> None:
    """Take out of what the upstream said its credential, and all that filters have not seen."""
    failure.hide(find_secret(attempt))
    guard = progress.output_guard
    if guard is not None and guard.acts:
        failure.drop_quotes()


def log_failure(
    progress: RequestProgress, attempt: Attempt, failure: UpstreamFailure, now: float
) -> None:
    """Names of ours alone: what the upstream said may quote the prompt."""
    endpoint, duration_ms = attempt.endpoint, round((now - attempt.started) * 1000)
    credential = "" if attempt.own is None else ", own credential"
    if attempt.house is not None:
        credential = f", credential {attempt.house.label}"
    log.log(
        logging.INFO if is_request_at_fault(failure) else logging.WARNING,
        "Upstream request failed: generation %s, model %s, provider %s, endpoint %s%s: "
        "%s, status %d, after %d ms",
        progress.context.generation_id,
        endpoint.model_id,
        endpoint.provider.slug,
        endpoint.tag,
        credential,
        failure.error_type,
        failure.status,
        duration_ms,
        extra={
            "generation_id": progress.context.generation_id,
            "model": endpoint.model_id,
            "provider": endpoint.provider.slug,
            "endpoint": endpoint.tag,
            "is_byok": attempt.own is not None,
            "credential": attempt.house.label if attempt.house is not None else None,
            "error_type": failure.error_type,
            "status": failure.status,
            "duration_ms": duration_ms,
        },
    )


def note_health(
    progress: RequestProgress, attempt: Attempt, failure: UpstreamFailure, now: float
) -> None:
    """Note what the failure says of the endpoint. A time that ran out is no outage where others had
    used most of it."""
    if failure.deadline and not used_its_own_time(progress, attempt, now):
        failure.outage = False
    if failure.first_byte and attempt.first_byte.is_wish:
        failure.outage = False
    endpoint = attempt.endpoint
    if failure.parked:
        hint_s = failure.retry_after_s
        hint_s = RETRY_HINT_DEFAULT_S if hint_s is None else hint_s
        process.health().park(endpoint.pk, now, hint_s=hint_s)
    elif failure.outage:
        process.health().record_failure(endpoint.pk, now)
    elif not is_request_at_fault(failure):
        process.health().record_useless_answer(endpoint.pk, now)
    record_attempt(attempt, streamed=progress.context.chat.stream)


def build_affordability_error(
    progress: RequestProgress, refusal: HoldRefusal, endpoint: EndpointEntry
) -> GatewayError:
    """The error of a caller whose hold for this endpoint was refused."""
    prices = endpoint.prices
    assert prices is not None
    room = Room(endpoint.context_length, endpoint.max_completion_tokens)
    demands = progress.demands(endpoint)
    prompts = [each._replace(output_tokens_asked=0) for each in demands]
    cap = settings.ROUTER_ESTIMATE_OUTPUT_CAP
    return build_payment_error(
        progress.context,
        refusal,
        output_tokens=sum(output_tokens_bound(each, room, output_cap=cap) for each in demands),
        prompt_nano=sum(estimate_nano(each, room, prices) for each in prompts),
    )
