"""The upstream queries that one endpoint is asked, at most eight at a time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from gevent.pool import Pool

from gateway.http.errors import forget_origin
from gateway.outbound.errors import OutboundError
from routing.decisions import logprobs, native, schema
from routing.decisions.question import Judgement, NoAnswer
from routing.entities.entries import EndpointEntry
from routing.entities.exchange import Answer, Prompt, Terms, WireRequest
from routing.formats.chat.answer import count_text_chars
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import build_forwarded_body
from routing.formats.chat.request import ChatRequest
from routing.formats.reasoning import resolve_reasoning
from routing.metering.usage import Usage
from routing.serving.admission.endpoint_limits import CALLS_AT_ONCE
from routing.serving.attempts.upstream_call import send
from routing.serving.decisions.plan import DecisionPlan, QuestionRef, UpstreamQuery
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import measure_usage
from routing.upstreams.decisions import adapt_failure, find_blamed_questions
from routing.upstreams.failures import (
    UpstreamFailure,
    from_error_object,
    from_outbound_error,
    malformed_answer,
)
from routing.upstreams.wires import get_wire

_FORMAT: Final = "response_format"


class QueryResult(NamedTuple):
    """What came back: the parts that were judged, and why others were not."""

    judged: dict[QuestionRef, Judgement]
    failure: UpstreamFailure | None
    answer: Answer


def build_query_request(
    query: UpstreamQuery,
    plan: DecisionPlan,
    chat: ChatRequest,
    endpoint: EndpointEntry,
    terms: Terms,
) -> WireRequest:
    """What the endpoint is sent."""
    wire = get_wire(endpoint.wire_kind)
    if endpoint.decides == "native":
        questions = {name: native.serialize_question(part) for name, part in query.parts.items()}
        body = {"state": plan.state, "questions": questions}
        return wire.request(Prompt(body, None, False, None, None, None, False), terms)
    [part] = query.parts.values()
    body = plan.chat_body(part, endpoint)
    most = body["max_tokens"]
    reasoning = resolve_reasoning(body.get("reasoning"), effort=None, include=None)
    if endpoint.wire_kind == CHAT.wire:
        request = replace(chat, body=body, max_output_tokens=most, reasoning=reasoning)
        body = build_forwarded_body(
            request,
            upstream_model=terms.upstream_model,
            # An endpoint with JSON schemas gets them, by whichever word the catalogue says so.
            supported=terms.supported | {_FORMAT} if _FORMAT in body else terms.supported,
            user_hash=terms.user_hash,
            stream_usage=False,
            max_tokens_cap=None,
        )
    effort = reasoning.effort if reasoning else None
    return wire.request(Prompt(body, None, False, most, effort, None, False), terms)


def read_result(
    query: UpstreamQuery, endpoint: EndpointEntry, raw: bytes, content_type: str
) -> QueryResult:
    """What a whole answer says. Raises `UpstreamFailure` where there is none in it."""
    answer = get_wire(endpoint.wire_kind).answer(raw, content_type)
    if answer.error is not None:
        raise from_error_object(answer.error)
    judged: dict[QuestionRef, Judgement] = {}
    failure: UpstreamFailure | None = None
    for ref, (name, part) in zip(query.refs, query.parts.items(), strict=True):
        try:
            judged[ref] = _read_judgement(endpoint, part, answer, name)
        except NoAnswer as why:
            failure = failure or malformed_answer(str(why))
    return QueryResult(judged, failure, answer)


def _read_judgement(endpoint: EndpointEntry, part: Any, answer: Answer, name: str) -> Judgement:
    """Raises `NoAnswer`."""
    if endpoint.decides == "native":
        answers: Mapping[str, Any] = answer.native.value["answers"] if answer.native else {}
        return native.read_judgement(part, answers.get(name))
    if endpoint.decides == "logprobs":
        return logprobs.read_judgement(part, answer.logprobs)
    content = answer.message.get("content")
    if not isinstance(content, str):
        raise NoAnswer("the answer has no text")
    return schema.read_judgement(part, content)


# The model is gone there; nothing comes in time.
_ENDING: Final = (404, 524)


@dataclass(slots=True)
class QueryUsage:
    """What one answered call took. `counts` says whether something of it was used."""

    query: UpstreamQuery
    usage: Usage
    counts: bool = False


@dataclass(slots=True)
class EndpointBatch:
    """One attempt: what its calls found and took, and the first thing that went wrong.

    `was_well` says that some call was answered in full, `is_out` that the endpoint met with an
    outage and that no call was since.
    """

    progress: RequestProgress
    plan: DecisionPlan
    attempt: Attempt
    terms: Terms
    judged: dict[QuestionRef, Judgement] = field(default_factory=dict)
    spent: list[QueryUsage] = field(default_factory=list)
    failure: UpstreamFailure | None = None
    failures: int = 0
    was_well: bool = False
    is_out: bool = False
    bug: Exception | None = None

    def send(self, queries: Sequence[UpstreamQuery]) -> None:
        """Make the calls, or as many as are of use. What fails is kept in `failure`."""
        self.attempt.calls_sent = 0
        if len(queries) == 1:
            self._ask_one(queries[0])
        else:
            # No more at once than have a place under each limit.
            limits = self.attempt.limits
            places = Counter(place.scope for place in limits.places) if limits else {}
            pool = Pool(min([CALLS_AT_ONCE, *places.values()]))
            try:
                for query in queries:
                    # Waits while all are busy.
                    pool.spawn(self._ask_one, query)
                pool.join()
            finally:
                pool.kill()
        if self.bug is not None:
            # Not to be kept: it will hold the frames that hold this.
            bug, self.bug = self.bug, None
            assert bug is not None
            raise bug

    def _is_over(self) -> bool:
        if self.bug is not None or (self.failure is not None and _ends_attempt(self.failure)):
            return True
        return self.failures >= CALLS_AT_ONCE and not self.judged

    def _ask_one(self, query: UpstreamQuery) -> None:
        if self._is_over():
            return
        try:
            self._note_result(query, self._send_query(query))
        except UpstreamFailure as error:
            self._record_failure(adapt_failure(error, of_caller=self._is_of_caller(query, error)))
        except Exception as error:  # noqa: BLE001 - Raised again by who waits.
            # A greenlet would only print it.
            forget_origin(error)
            self.bug = error

    def _is_of_caller(self, query: UpstreamQuery, failure: UpstreamFailure) -> bool | None:
        """See `adapt_failure`. Chat models see no question that they could blame."""
        if self.attempt.endpoint.decides != "native":
            return None
        blamed = find_blamed_questions(failure, query.parts)
        return None if blamed is None else query.is_of_caller(blamed)

    def _send_query(self, query: UpstreamQuery) -> QueryResult:
        endpoint, chat = self.attempt.endpoint, self.progress.context.chat
        request = build_query_request(query, self.plan, chat, endpoint, self.terms)
        self.attempt.calls_sent += 1
        reply = send(self.progress, self.attempt, request=request)
        try:
            with reply:
                raw = reply.read_all()
        except OutboundError as error:
            raise from_outbound_error(error) from error
        return read_result(query, endpoint, raw, reply.headers.get("content-type", ""))

    def _note_result(self, query: UpstreamQuery, result: QueryResult) -> None:
        attempt = self.attempt
        attempt.ended = process.now()
        attempt.first_token = attempt.first_token or attempt.ended
        attempt.upstream_id = attempt.upstream_id or result.answer.upstream_id
        # How long the answer was, for upstreams that do not count.
        body = result.answer.native
        length = len(body.raw) if body is not None else count_text_chars(result.answer.message)
        usage = measure_usage(
            self.progress,
            attempt,
            result.answer.usage,
            length,
            prompt_chars=query.demand.text_bytes,
        )
        self.spent.append(QueryUsage(query, usage))
        self.judged |= result.judged
        if result.failure is not None:
            self._record_failure(result.failure)
        else:
            self.was_well, self.is_out = True, False

    def _record_failure(self, failure: UpstreamFailure) -> None:
        """The first failure is reported, unless a later one ends the attempt."""
        forget_origin(failure)
        self.failures += 1
        self.is_out |= failure.outage
        if self.failure is None or (_ends_attempt(failure) and not _ends_attempt(self.failure)):
            self.failure = failure


def _ends_attempt(failure: UpstreamFailure) -> bool:
    """Whether it was not one question that failed: further ones would go the same way."""
    of_endpoint = failure.parked or failure.credential or failure.deadline
    return of_endpoint or failure.caller_status in _ENDING or not failure.elsewhere
