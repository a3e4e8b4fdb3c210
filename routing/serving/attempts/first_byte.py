"""How long an endpoint may take to its first byte, until another is asked beside it, and a request
to its last."""

from typing import Final

from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.formats.chat.request import ChatRequest
from routing.serving.request import process
from routing.serving.request.context import Attempt, FirstByteLimit, RequestProgress

# Long prompts take longer than what was observed: no bound that was derived is below this.
_OBSERVED_MIN_S: Final = 15.0
# Who is that fast gains nothing by a second call.
_HEDGE_MIN_S: Final = 0.05


def find_total_s(chat: ChatRequest) -> float:
    """How long the request may take in all: no longer than the gateway allows."""
    total_s: float = settings.ROUTER_TOTAL_TIMEOUT
    wishes = chat.provider
    if wishes is None or wishes.deadline_s is None:
        return total_s
    return min(total_s, wishes.deadline_s)


def wants_deadline(chat: ChatRequest) -> bool:
    """Whether the caller has set a deadline: one that is missed says nothing of the endpoint."""
    return chat.provider is not None and chat.provider.deadline_s is not None


def find_own_first_byte_s(endpoint: EndpointEntry) -> float:
    """What somebody has set for the model, the provider or the gateway."""
    return endpoint.first_byte_s or process.limits_of(endpoint.provider).first_byte_s


def used_its_own_time(progress: RequestProgress, attempt: Attempt, now: float) -> bool:
    """Whether the attempt ran out of a time that was its own, not of what others had left it: its
    provider's, or half of the call's."""
    context, provider = progress.context, attempt.endpoint.provider
    enough_s = [find_own_first_byte_s(attempt.endpoint)]
    if not wants_deadline(context.chat):
        enough_s.append((context.deadline - context.started) / 2)
    if provider.total_s:
        enough_s.append(provider.total_s)
    return now - attempt.started >= min(enough_s)


def find_first_byte_limit(
    progress: RequestProgress, endpoint: EndpointEntry, *, has_others: bool
) -> FirstByteLimit:
    """How long this request waits for the endpoint's first byte.

    Where nobody has set a limit for model or provider it is derived from what was observed, but
    only of streams, whose first byte is that of the first token, and while others are left.
    """
    limit_s = endpoint.first_byte_s
    if limit_s is None and endpoint.provider.first_byte_s is None and has_others:
        limit_s = _derive_limit_s(progress, endpoint)
    wishes = progress.context.chat.provider
    if wishes is None or wishes.max_first_byte_s is None:
        return FirstByteLimit(limit_s)
    wait_s, others_s = wishes.max_first_byte_s, limit_s or find_own_first_byte_s(endpoint)
    return FirstByteLimit(wait_s, is_wish=True) if wait_s < others_s else FirstByteLimit(others_s)


def _derive_limit_s(progress: RequestProgress, endpoint: EndpointEntry) -> float | None:
    factor = settings.ROUTER_FIRST_BYTE_P99_FACTOR
    if not factor or not progress.context.chat.stream:
        return None
    figures = progress.context.choice.state.figures.get(endpoint.pk)
    observed = figures.latency_30m_s if figures is not None else None
    if observed is None:
        return None
    derived_s = round(max(_OBSERVED_MIN_S, factor * observed.p99))
    return derived_s if derived_s < settings.ROUTER_FIRST_BYTE_TIMEOUT else None


def find_hedge_delay_s(progress: RequestProgress, endpoint: EndpointEntry) -> float:
    """After which time without content another endpoint is asked too: what the caller says, else
    the usual time."""
    wishes = progress.context.chat.provider
    if wishes is not None and wishes.hedge_after_s is not None:
        return wishes.hedge_after_s
    return find_usual_s(progress, endpoint)


def find_usual_s(progress: RequestProgress, endpoint: EndpointEntry) -> float:
    """What 95 % of the endpoint's answers of this kind needed for their first content; a setting
    where too few were seen."""
    chat = progress.context.chat
    figures, p95_s = progress.context.choice.state.figures.get(endpoint.pk), None
    if figures is not None:
        p95_s = figures.stream_p95_s if chat.stream else figures.whole_p95_s
    if p95_s is None:
        delay_s: float = settings.ROUTER_HEDGE_DELAY_SECONDS
        return delay_s
    return max(_HEDGE_MIN_S, p95_s)
