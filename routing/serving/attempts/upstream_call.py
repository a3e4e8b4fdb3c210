"""One attempt on the wire: the body for this endpoint with an effort that its model takes, the
call, and the head of the answer. Also how long the attempt and the whole request may take."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from gateway.end_users import hash_user
from gateway.http.errors import forget_origin
from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from gateway.outbound.errors import Aborted, OutboundError
from gateway.outbound.exchange import AbortHandle
from gateway.outbound.reply import Reply
from gateway.tracing.spans import build_span_id
from routing.entities.efforts import Effort, EffortRules, effort_for_budget, fit_effort
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import Prompt, Terms, WireRequest
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import build_forwarded_body
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import OUTPUT_TOKENS_DEFAULT
from routing.serving.request import process
from routing.serving.request.context import Attempt, FirstByteLimit, RequestProgress
from routing.upstreams.failures import (
    UpstreamFailure,
    from_error_object,
    from_outbound_error,
    from_status,
    malformed_answer,
)
from routing.upstreams.wires import get_wire

# Enough of an error body to find its message; the rest is not read.
_ERROR_BYTES_MAX = 65_536
_ERROR_WAIT_S = 2.0
# What may follow the end of a stream before its connection is not worth keeping.
_READS_AFTER_END = 4
# Dense text has this many characters a token; a prompt is rather thought longer than it is.
_CHARS_PER_TOKEN_MIN: Final = 3
_OF_TOOLS: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
# Less room than this for an answer is not believed: the upstream counts the prompt itself.
_ROOM_TOKENS_MIN: Final = 1_024

T = TypeVar("T")


def build_upstream_request(
    progress: RequestProgress, endpoint: EndpointEntry, *, own_key: str | None = None
) -> WireRequest:
    """What this endpoint is sent, with the team's own key where there is one."""
    wire, terms = get_wire(endpoint.wire_kind), build_terms(progress, endpoint, own_key)
    chat, kind = choose_chat(progress, endpoint), endpoint.wire_kind
    if chat.reasoning is not None:
        # What a share of the output is a share of.
        default = terms.output_default if wire.needs_output_cap else None
        output_tokens = chat.max_output_tokens or default
        chat = fit_reasoning(
            chat,
            endpoint,
            min(
                [cap for cap in (output_tokens, terms.output_cap) if cap is not None], default=None
            ),
        )
    reasoning = chat.reasoning
    # What is asked of a model that has tools of the gateway's is not what the caller wrote, nor is
    # what plugins made of it.
    is_own_words = (
        kind == progress.context.format.wire and progress.loop is None and not chat.rewritten
    )
    if kind == CHAT.wire:
        body = build_forwarded_body(
            chat,
            upstream_model=terms.upstream_model,
            supported=terms.supported,
            user_hash=terms.user_hash,
            stream_usage=True,
            max_tokens_cap=terms.output_cap,
        )
    elif chat.tools_off and not wire.keeps_tools_when_off:
        body = {name: value for name, value in chat.body.items() if name not in _OF_TOOLS}
    else:
        body = chat.body
    prompt = Prompt(
        body=body,
        original=chat.original if is_own_words else None,
        stream=chat.stream,
        max_output_tokens=chat.max_output_tokens,
        effort=reasoning.effort if reasoning else None,
        reasoning_tokens=reasoning.max_tokens if reasoning else None,
        exclude_reasoning=progress.context.hides_reasoning,
    )
    request = wire.request(prompt, terms)
    betas = progress.context.betas
    return wire.with_betas(request, betas) if betas else request


def choose_chat(progress: RequestProgress, endpoint: EndpointEntry) -> ChatRequest:
    """What is asked of this endpoint: the caller's request, or the rest of an answer."""
    rescue = progress.rescue
    if rescue is None or not rescue.legs:
        return progress.context.chat
    reasoning = rescue.asked.reasoning
    prefills = (
        get_wire(endpoint.wire_kind).takes_prefill
        # A model that is to think first cannot begin with the answer.
        and (reasoning is None or reasoning.is_off)
        and endpoint.pk not in rescue.refused
        and bool(rescue.delivered_text.strip())
    )
    if prefills:
        rescue.prefilled.add(endpoint.pk)
    else:
        rescue.prefilled.discard(endpoint.pk)
    return rescue.build_chat(prefills=prefills)


def build_terms(progress: RequestProgress, endpoint: EndpointEntry, own_key: str | None) -> Terms:
    """What this endpoint takes, with the team's own key where there is one."""
    context, user_hash = progress.context, None
    if "user" in endpoint.taken_fields:
        # An end user's identity as providers see it: never raw, apart for every account.
        user_hash = hash_user(context.caller.account_id, context.chat.user or "")
    return Terms(
        upstream_model=endpoint.upstream_model,
        supported=endpoint.taken_fields,
        user_hash=user_hash,
        credential=own_key or endpoint.provider.credential,
        output_cap=context.plan.output_caps.get(endpoint.pk),
        output_default=output_default(progress, endpoint),
    )


def output_default(progress: RequestProgress, endpoint: EndpointEntry) -> int:
    """What a wire that insists on a cap gets where the caller named none. It is the endpoint's
    maximum, as far as its context has room beside the prompt. The hold covers as much."""
    most = endpoint.max_completion_tokens or OUTPUT_TOKENS_DEFAULT
    room = endpoint.context_length
    if room is None:
        return most
    prompt_tokens = progress.context.chat.prompt_text_chars // _CHARS_PER_TOKEN_MIN
    return max(1, min(most, max(room - prompt_tokens, _ROOM_TOKENS_MIN), room))


def send(
    progress: RequestProgress,
    attempt: Attempt,
    *,
    request: WireRequest | None = None,
    abort_handle: AbortHandle | None = None,
) -> Reply:
    """The reply to one attempt, its status a 2xx. Raises `UpstreamFailure`, and `Aborted` when the
    handle ended it. `request` is one of several that the attempt takes: each has the provider's
    whole time."""
    provider, started = attempt.endpoint.provider, attempt.started
    if request is None:
        request, attempt.request = attempt.request, None
    else:
        started = process.now()
    assert request is not None
    origin = process.origin_of(provider.base_url)
    deadline = progress.context.deadline
    if provider.total_s:
        deadline = min(deadline, started + provider.total_s)
    try:
        reply = process.http_client().send(
            origin,
            method="POST",
            path=request.path,
            headers=(*request.headers, *_build_identity_headers(progress, attempt)),
            body=request.body,
            limits=process.limits_of(provider, attempt.first_byte.wait_s),
            deadline=deadline,
            abort_handle=abort_handle,
        )
    except Aborted:
        raise  # By us, because the caller left: no fault of the upstream's.
    except OutboundError as error:
        raise from_outbound_error(error) from error
    attempt.status = reply.status
    if not 200 <= reply.status < 300:
        with reply:
            raise from_status(reply.status, reply.headers, read_error_body(reply))
    return reply


def _build_identity_headers(progress: RequestProgress, attempt: Attempt) -> list[tuple[str, str]]:
    """What leads from the provider's logs to ours, and from its spans to the attempt's."""
    identity, headers = progress.context.identity, []
    if identity is None:
        return []
    if (name := get_wire(attempt.endpoint.wire_kind).request_id_header) is not None:
        headers.append((name, identity.id))
    if (trace := identity.trace) is not None:
        # One that takes several requests is one span.
        attempt.span_id = attempt.span_id or build_span_id()
        headers.append(("traceparent", f"00-{trace.trace_id}-{attempt.span_id}-{trace.flags}"))
    return headers


def catch_errors(work: Callable[[], T]) -> tuple[T | None, Any]:
    """The result of a greenlet's work, with errors as values, as gevent prints what is raised."""
    try:
        return work(), None
    except (UpstreamFailure, OutboundError) as error:
        return None, error


def read_error_body(reply: Reply) -> bytes:
    """The beginning of an error body; a body that breaks off or dawdles is as good as its part."""
    body = b""
    until = process.now() + _ERROR_WAIT_S
    try:
        while len(body) < _ERROR_BYTES_MAX and (left_s := until - process.now()) > 0:
            piece = reply.read_some(left_s)
            if not piece:
                break
            body += piece
    except OutboundError as error:
        forget_origin(error)
    return body[:_ERROR_BYTES_MAX]


def refuse_other_than_events(reply: Reply, attempt: Attempt) -> None:
    """Raise `UpstreamFailure` for a 2xx that is no event stream: an error object, a page, a whole
    answer."""
    content_type = reply.headers.get("content-type", "")
    if content_type and "event-stream" not in content_type.lower():
        body = read_error_body(reply)
        answer = get_wire(attempt.endpoint.wire_kind).answer(body, content_type)
        if answer.error is not None:
            raise from_error_object(answer.error)
        raise malformed_answer("a whole answer where a stream was asked for", raw=body)


def read_to_end(reply: Reply, wait_s: float = 0.0) -> None:
    """Take the end of a body that is mostly here by now, and wait no longer than that for it. Only
    then can the connection be used again."""
    try:
        for _ in range(_READS_AFTER_END):
            if not reply.read_some(wait_s):
                return
    except OutboundError as error:
        forget_origin(error)


def fit_reasoning(
    chat: ChatRequest, endpoint: EndpointEntry, output_tokens_max: int | None
) -> ChatRequest:
    """The request with an effort that the endpoint's model takes, and with a budget as an effort
    where the endpoint takes no budgets. It is the same object where nothing changes."""
    reasoning_asked, rules = chat.reasoning, endpoint.efforts
    if reasoning_asked is None or (rules is None and reasoning_asked.max_tokens is None):
        return chat
    effort, budget = reasoning_asked.effort, reasoning_asked.max_tokens
    if budget is not None and not (
        (get_wire(endpoint.wire_kind).takes_budgets and "reasoning" in endpoint.taken_fields)
        and (budget or not (rules is not None and rules.mandatory))
    ):
        effort, budget = effort or effort_for_budget(budget, output_tokens_max), None
    if effort is not None and rules is not None:
        effort = fit_effort(effort, rules)
    original = chat.original
    if rules is not None and original is not None and chat.format == "messages":
        original = _fit_messages(original, rules)
    if (effort, budget) == (reasoning_asked.effort, reasoning_asked.max_tokens):
        return chat if original is chat.original else replace(chat, original=original)
    reasoning = replace(reasoning_asked, effort=effort, max_tokens=budget, enabled=None)
    body = _put_effort(chat.body, effort, budget)
    return replace(chat, body=body, reasoning=reasoning, original=original)


def _put_effort(body: JsonObject, effort: Effort | None, budget: int | None) -> JsonObject:
    """The chat body in the caller's spelling of the effort."""
    if body.get("reasoning") is None:
        return {**body, "reasoning_effort": effort}
    options = {name: body["reasoning"].get(name) for name in ("summary", "exclude")}
    wishes = {**options, "effort": effort, "max_tokens": budget}
    reasoning = {name: value for name, value in wishes.items() if value is not None}
    others = {name: value for name, value in body.items() if name != "reasoning_effort"}
    return {**others, "reasoning": reasoning}


def _fit_messages(original: JsonObject, rules: EffortRules) -> JsonObject:
    """A messages body names its effort beside `thinking`, and also where that is disabled."""
    config, thinking = original.get("output_config") or {}, original.get("thinking") or {}
    fitted = dict(original)
    if effort := config.get("effort"):
        fitted["output_config"] = {**config, "effort": fit_effort(effort, rules)}
    if thinking.get("type") == "disabled" and rules.mandatory:
        del fitted["thinking"]
    return original if fitted == original else fitted


# Long prompts take longer than what was observed: no bound that was derived is below this.
_OBSERVED_MIN_S: Final = 15.0
# An endpoint that is that fast gains nothing by a second call.
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
    """Whether the attempt ran out of a time of its own, not of what others had left it. That is its
    provider's time, or half of the call's."""
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

    Where nobody has set a limit for model or provider, it is derived from what was observed. That
    holds only for streams, whose first byte is that of the first token, and only while other
    endpoints are left.
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
