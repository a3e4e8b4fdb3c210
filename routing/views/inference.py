"""What the inference endpoints have in common, whatever format their callers speak."""

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_inference
from accounts.caller import Caller
from accounts.regions import check_region
from accounts.views.once import HEADER
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, RateLimited
from gateway.http.responses import EventStream, build_error_response, raw_json_response
from gateway.http.viewset import LeanViewSet
from gateway.live_settings import settings
from routing.formats.caller import CallerFormat
from routing.planning.nested import ask_model
from routing.planning.pipeline import admit, draft_of
from routing.planning.refusing import refusal_of, refuse_too_many
from routing.serving.answer.loop_stream import LoopStream
from routing.serving.answer.stream import AnswerStream
from routing.serving.answer.whole import whole_answer
from routing.serving.request.call import Call
from routing.serving.request.slots import slots
from routing.serving.settlement.metadata import router_metadata
from routing.views.cached import caching_of
from routing.views.once import answered_once


class InferenceViewSet(LeanViewSet):
    """Answers in one piece and streams; a subclass says in which format."""

    caller_format: ClassVar[CallerFormat]
    # Message-style clients send their key in a header of its own.
    takes_api_key_header: ClassVar[bool] = False
    once_by_key = False
    # Of a request that an upstream was asked for.
    generation_id: str | None = None
    # Once it is admitted.
    call: Call | None = None
    # As it was sent.
    body: dict[str, Any]

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.caller_of(request)
        slots.refuse_if_full()
        if HEADER in request.META:
            return answered_once(self, request, caller)
        # Before the slot is taken, so that slow senders do not keep others out.
        body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        return self.carried_out(request, caller, body)

    def carried_out(
        self,
        request: HttpRequest,
        caller: Caller,
        body: dict[str, Any],
        *,
        generation_id: str | None = None,
    ) -> HttpResponseBase:
        """The answer to a body that was read; `generation_id` is one that was chosen before."""
        slot = slots.take()
        try:
            self.body = body
            call = self.call = admit(request, caller, body, format=self.caller_format)
            call.generation_id = generation_id or call.generation_id
            call.content = draft_of(call)
            try:
                return self._answer(request, call, slot)
            except GatewayError as error:
                self._tell(call, error)
                raise
        finally:
            slot.release_unless_kept()

    def caller_of(self, request: HttpRequest) -> Caller:
        caller = authenticate_inference(request, by_api_key_header=self.takes_api_key_header)
        self.beside = {"user_id": caller.creator_id}
        check_region(request, caller)
        return caller

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        body = self.caller_format.error_body(
            error, generation_id=self.generation_id, beside=self.beside
        )
        # A format may know fewer statuses than there are.
        return build_error_response(error, body, status=body["error"]["code"])

    def _answer(self, request: HttpRequest, call: Call, slot: Any) -> HttpResponseBase:
        if call.refusal is not None:
            raise refusal_of(call)
        refuse_too_many(call)
        call.ask = ask_model
        headers = {"X-Generation-Id": call.generation_id}
        caching = caching_of(call, self.body)
        if caching is not None:
            if (retold := caching.told_again()) is not None:
                return retold
            headers |= caching.headers
        if not call.chat.stream:
            content = whole_answer(call)
            if caching is not None:
                caching.hear(content)
                caching.keep()
            return raw_json_response(content, headers=headers)
        kind = AnswerStream if call.loop is None else LoopStream
        stream = kind(call, request.META.get("gunicorn.socket"))
        stream.open()
        slot.keep()
        if caching is None:
            return EventStream(stream, [stream.close, slot.release], headers=headers)
        ends = [stream.close, slot.release, caching.keep]
        return EventStream(caching.overheard(stream), ends, headers=headers)

    def _tell(self, call: Call, error: GatewayError) -> None:
        """What stands beside an error once routing has begun."""
        if call.attempts:
            error.headers["X-Generation-Id"] = self.generation_id = call.generation_id
        if call.wants_metadata and error.status != 500 and not isinstance(error, RateLimited):
            self.beside["router_metadata"] = router_metadata(call, selected=None)
