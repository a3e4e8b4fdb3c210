"""The inference endpoints: chat completions, messages with their token count, responses,
decisions, embeddings."""

import time
from functools import partial
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_inference, recall_caller
from accounts.caller import Caller
from accounts.views.once import HEADER
from gateway.http.address import find_region
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, InvalidRequest, PermissionDenied, RateLimited
from gateway.http.jsonio import JsonObject
from gateway.http.responses import (
    EventStream,
    build_error_response,
    json_response,
    raw_json_response,
)
from gateway.http.viewset import LeanViewSet
from gateway.live_settings import settings
from routing.entities import ids
from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.decisions import DECISIONS, SYSTEMONE, read_questions
from routing.formats.embeddings import EMBEDDINGS, has_tokens
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.planning.admission_errors import build_refusal, count_against_limits
from routing.planning.classification import classify_prompt
from routing.planning.embedding_calls import embed_text
from routing.planning.external_guards import start_external_guards
from routing.planning.pipeline import admit
from routing.planning.submodel_calls import ask_model
from routing.presets.apply import may_name_a_preset
from routing.reports.refusals import build_refusal_report
from routing.reports.report import NO_PHASES, publisher, read_phases
from routing.response_cache.cache_options import MAY_SWITCH_ON
from routing.serving.admission.rate_limits import (
    build_limit_headers,
    describe_stay,
    end_places,
    has_limits,
)
from routing.serving.answer.hedged_stream import HedgedStream
from routing.serving.answer.loop_stream import LoopStream
from routing.serving.answer.nonstreaming import serve_answer
from routing.serving.answer.stream import AnswerStream
from routing.serving.answer.token_counting import count_input_tokens
from routing.serving.attempts.hedging import may_hedge
from routing.serving.decisions.answer import answer_decisions
from routing.serving.decisions.plan import DecisionPlan
from routing.serving.request.context import RequestProgress
from routing.serving.request.process import Slot, now, slots
from routing.serving.settlement.records import write_trace
from routing.serving.settlement.router_metadata import router_metadata
from routing.views.answer_reuse import AnswerReuse, has_stored_answer, start_reuse
from routing.views.once import answer_once
from routing.views.openapi.chat import describe_chat
from routing.views.openapi.decisions import describe_decisions, describe_systemone
from routing.views.openapi.embeddings import describe_embeddings
from routing.views.openapi.messages import describe_count, describe_messages
from routing.views.openapi.responses import describe_responses


class InferenceViewSet(LeanViewSet):
    """Answers in one piece and streams; a subclass says in which format."""

    caller_format: ClassVar[CallerFormat]
    # Message-style clients send their key in a header of its own.
    takes_api_key_header: ClassVar[bool] = False
    once_by_key = False
    logs_refusals = False
    # Of a request that an upstream was asked for.
    generation_id: str | None = None
    # Once it is admitted.
    progress: RequestProgress | None = None
    # Where its answer may be another's, or for others.
    reuse: AnswerReuse | None = None
    # As it was sent; empty until it is read.
    body: JsonObject
    caller: Caller | None = None

    def __init__(self, **options: object) -> None:
        # A viewset serves one request, and begins with it.
        super().__init__(**options)
        self.started, self.body = now(), {}

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.authenticate_caller(request)
        slots.refuse_if_full()
        if HEADER in request.META:
            return answer_once(self, request, caller)
        # Before the slot is taken, so that slow senders do not keep others out.
        body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        return self.execute(request, caller, body)

    def execute(
        self,
        request: HttpRequest,
        caller: Caller,
        body: JsonObject,
        *,
        generation_id: str | None = None,
    ) -> HttpResponseBase:
        """The answer to a body that was read; `generation_id` is one that was chosen before."""
        # Which requests are logged depends on it, and whose answers they share on that.
        chosen_id = generation_id or ids.generation_id(self.caller_format.id_prefix)
        slot = slots.take()
        try:
            self.body, planning_began = body, now()
            progress = self.progress = admit(
                request,
                caller,
                body,
                format=self.caller_format,
                chosen_id=chosen_id,
                classify=partial(
                    classify_prompt,
                    is_answered=partial(self._is_answered, request, caller, body, chosen_id),
                ),
            )
            # However the request ends, it is under way no more.
            slot.on_release = partial(end_places, progress)
            progress.received, progress.planning_began = self.started, planning_began
            try:
                if caller.guard is not None and caller.guard.external_guards:
                    start_external_guards(progress, caller.guard.external_guards)
                return self._answer(request, progress, slot)
            except BaseException as error:
                # Requests that wait for this answer ask for their own.
                if self.reuse is not None:
                    self.reuse.end()
                if isinstance(error, GatewayError):
                    self._complete_error(progress, error)
                raise
        finally:
            slot.release_unless_streaming()

    def authenticate_caller(self, request: HttpRequest) -> Caller:
        caller = authenticate_inference(request, by_api_key_header=self.takes_api_key_header)
        self.caller = caller
        self.beside = {"user_id": caller.creator_id}
        if not caller.admits_region(find_region(request)):
            raise PermissionDenied
        return caller

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        body = self.caller_format.error_body(
            error, generation_id=self.generation_id, beside=self.beside
        )
        # A format may know fewer statuses than there are.
        status = body["error"]["code"]
        progress = self.progress
        if progress is None or not progress.is_reported:
            # A key that is refused may still be known, and its holder finds the refusal.
            by_header = self.takes_api_key_header
            caller = self.caller or recall_caller(request, by_api_key_header=by_header)
            report = build_refusal_report(
                request,
                error,
                format=self.caller_format.name,
                status=status,
                started=self.started,
                caller=caller,
                body=self.body,
                phases=read_phases(progress) if progress else NO_PHASES,
                write_plan=partial(write_trace, progress) if progress else None,
                guard_checks=progress.guard_checks if progress else (),
            )
            publisher.publish(report)
        return build_error_response(error, body, status=status)

    def _answer(
        self, request: HttpRequest, progress: RequestProgress, slot: Any
    ) -> HttpResponseBase:
        if progress.context.refusal is not None:
            raise build_refusal(progress)
        if has_limits(progress.context.caller):
            count_against_limits(progress)
        if progress.loop is not None:
            progress.loop.ask_model = ask_model
        headers = {"X-Generation-Id": progress.context.generation_id}
        taken = progress.limits_taken
        has_limit_headers = taken is not None or bool(progress.context.caller.rate_rules)
        wish, plugins = progress.context.cache_options, progress.context.plugins
        may_answer = any(each.may_answer for each in plugins) if plugins else False
        if wish or progress.context.shares_answer or may_answer:
            embed = partial(embed_text, request, progress.context) if may_answer else None
            self.reuse = start_reuse(progress, wish, self.body, embed)
        reuse = self.reuse
        if reuse is not None:
            sent_headers = headers | build_limit_headers(progress, taken, now_s=time.time())
            if (answer := reuse.find_answer(sent_headers)) is not None:
                return answer
            headers |= reuse.headers
        if not progress.context.chat.stream:
            progress.client = request.META.get("gunicorn.socket")
            content = serve_answer(progress)
            if has_limit_headers:
                headers |= build_limit_headers(progress, taken, now_s=time.time())
            if progress.queue_stay is not None:
                headers |= describe_stay(progress)
            if (check := progress.schema_check) is not None:
                headers["X-Router-Schema"] = check.result
            if reuse is not None:
                reuse.record(content)
                reuse.store()
            return raw_json_response(content, headers=headers)
        kind: type[AnswerStream] = HedgedStream if may_hedge(progress) else AnswerStream
        if progress.loop is not None:
            kind = LoopStream
        stream = kind(progress, request.META.get("gunicorn.socket"))
        stream.open()
        slot.keep()
        headers |= build_limit_headers(progress, taken, now_s=time.time())
        headers |= describe_stay(progress)
        if reuse is None:
            return EventStream(stream, [stream.close, slot.release], headers=headers)
        ends = [stream.close, slot.release, reuse.store]
        return EventStream(reuse.record_pieces(stream), ends, headers=headers)

    def _is_answered(
        self, request: HttpRequest, caller: Caller, body: JsonObject, chosen_id: str
    ) -> bool:
        wants_cache = caller.shares_cache or MAY_SWITCH_ON in request.META
        if not (wants_cache or may_name_a_preset(body)):
            return False
        progress = admit(
            request,
            caller,
            body,
            format=self.caller_format,
            chosen_id=chosen_id,
            is_dry_run=True,
        )
        return has_stored_answer(progress, body)

    def _complete_error(self, progress: RequestProgress, error: GatewayError) -> None:
        """Add the generation id and routing metadata to an error, once routing has begun."""
        error.headers |= describe_stay(progress)
        if progress.attempts:
            error.headers["X-Generation-Id"] = self.generation_id = progress.context.generation_id
        if (
            progress.context.wants_metadata
            and error.status != 500
            and not isinstance(error, RateLimited)
        ):
            self.beside["router_metadata"] = router_metadata(progress, selected=None)


class ChatViewSet(InferenceViewSet):
    """Chat completions, streaming and not."""

    caller_format = CHAT

    @describe_chat
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)


class ResponsesViewSet(InferenceViewSet):
    """Responses, streaming and not; nothing is stored."""

    caller_format = RESPONSES

    @describe_responses
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)


class MessagesViewSet(InferenceViewSet):
    """Messages, streaming and not."""

    caller_format = MESSAGES
    takes_api_key_header = True

    @describe_messages
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)


class TokenCountViewSet(MessagesViewSet):
    """How long a prompt is. Nothing is charged and nothing recorded."""

    @describe_count
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.authenticate_caller(request)
        slots.refuse_if_full()
        self.body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        slot = slots.take()
        try:
            # It proves nothing of an endpoint, so that it may take nobody's probe.
            progress = admit(request, caller, self.body, format=self.caller_format, is_dry_run=True)
            return json_response({"input_tokens": count_input_tokens(progress)})
        finally:
            slot.release()


class DecisionsViewSet(InferenceViewSet):
    """Answers to typed questions, always in one piece."""

    caller_format = DECISIONS

    @describe_decisions
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)

    def _answer(
        self, request: HttpRequest, progress: RequestProgress, slot: Slot
    ) -> HttpResponseBase:
        if progress.context.refusal is not None:
            raise build_refusal(progress)
        assert progress.context.chat.original is not None
        plan = DecisionPlan(progress.context.chat.original, progress.context.choice.models)
        progress.demands_of = plan.demands
        count_against_limits(progress)
        # As they were sent: what is asked upstream may have been redacted.
        answer = answer_decisions(progress, plan, read_questions(self.body))
        return raw_json_response(
            answer, headers={"X-Generation-Id": progress.context.generation_id}
        )


class SystemOneViewSet(DecisionsViewSet):
    """The same under the compatible path, where a model may be named without its author."""

    caller_format = SYSTEMONE

    @describe_systemone
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)


class EmbeddingsViewSet(InferenceViewSet):
    """Vectors of texts, always in one piece."""

    caller_format = EMBEDDINGS

    @describe_embeddings
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)

    def _answer(
        self, request: HttpRequest, progress: RequestProgress, slot: Slot
    ) -> HttpResponseBase:
        guard = progress.context.caller.guard
        reads_texts = guard is not None and (
            bool(guard.filters)
            or any(each.guard.looks_at("input") for each in guard.external_guards)
        )
        if reads_texts and has_tokens(progress.context.chat):
            raise InvalidRequest("input: guardrails read texts, send texts instead of tokens")
        return super()._answer(request, progress, slot)
