"""POST /chat/completions."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse

from accounts.authentication import inference_caller
from gateway.http.body import read_object
from gateway.http.errors import GatewayError
from gateway.http.responses import json_response
from gateway.http.viewset import LeanViewSet
from routing.pipeline import admit_chat
from routing.serving.call import Call
from routing.serving.metadata import router_metadata
from routing.serving.slots import slots
from routing.serving.stream import ChatStream
from routing.serving.whole import chat_whole
from routing.views.chat_description import describe_chat

_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


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
            raise call.refusal()
        headers = {"X-Generation-Id": call.generation_id}
        if not call.chat.stream:
            return json_response(chat_whole(call), headers=headers)
        stream = ChatStream(call, request.META.get("gunicorn.socket"))
        stream.open()
        response = StreamingHttpResponse(
            _Closing(stream, slot),
            content_type="text/event-stream; charset=utf-8",
            headers=headers | _STREAM_HEADERS,
        )
        slot.keep()
        return response

    def _tell(self, call: Call, error: GatewayError) -> None:
        """What stands beside an error once routing has begun."""
        if call.attempts:
            error.headers["X-Generation-Id"] = call.generation_id
        if call.wants_metadata and error.status != 500:
            self.beside["router_metadata"] = router_metadata(call, selected=None)


class _Closing:
    """The stream as a response body: closed exactly once, and its slot freed with it."""

    def __init__(self, stream: ChatStream, slot: Any) -> None:
        self._stream = stream
        self._slot = slot
        self._iterator = iter(stream)

    def __iter__(self) -> "_Closing":
        return self

    def __next__(self) -> bytes:
        return next(self._iterator)

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._slot.release()
