"""POST /chat/completions."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import inference_caller
from gateway.http.body import read_object
from gateway.http.errors import GatewayError
from gateway.http.responses import EventStream, written_response
from gateway.http.viewset import LeanViewSet
from routing.pipeline import admit_chat, refusal_of
from routing.serving.call import Call
from routing.serving.metadata import router_metadata
from routing.serving.slots import slots
from routing.serving.stream import ChatStream
from routing.serving.whole import chat_whole
from routing.views.chat_description import describe_chat


class ChatViewSet(LeanViewSet):
    """Chat completions, streaming and not."""

    @describe_chat
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = inference_caller(request)
        self.beside = {"user_id": caller.creator_id}
        slots.refuse_if_full()
        # Before the slot is taken, so that slow senders do not keep others out.
        body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        slot = slots.take()
        try:
            call = admit_chat(request, caller, body)
            try:
                return self._answer(request, call, slot)
            except GatewayError as error:
                self._tell(call, error)
                raise
        finally:
            slot.release_unless_kept()

    def _answer(self, request: HttpRequest, call: Call, slot: Any) -> HttpResponseBase:
        if call.refusal is not None:
            raise refusal_of(call)
        headers = {"X-Generation-Id": call.generation_id}
        if not call.chat.stream:
            return written_response(chat_whole(call), headers=headers)
        stream = ChatStream(call, request.META.get("gunicorn.socket"))
        stream.open()
        slot.keep()
        return EventStream(stream, [stream.close, slot.release], headers=headers)

    def _tell(self, call: Call, error: GatewayError) -> None:
        """What stands beside an error once routing has begun."""
        if call.attempts:
            error.headers["X-Generation-Id"] = call.generation_id
        if call.wants_metadata and error.status != 500:
            self.beside["router_metadata"] = router_metadata(call, selected=None)
