"""POST /messages and /messages/count_tokens."""

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from gateway.http.body import read_object
from gateway.http.responses import json_response
from routing.formats.messages.format import MESSAGES
from routing.planning.pipeline import admit
from routing.serving.answer.counting import input_tokens
from routing.serving.request.slots import slots
from routing.views.inference import InferenceViewSet
from routing.views.openapi.messages import describe_count, describe_messages


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
        caller = self.caller_of(request)
        slots.refuse_if_full()
        body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        slot = slots.take()
        try:
            call = admit(request, caller, body, format=self.caller_format)
            return json_response({"input_tokens": input_tokens(call)})
        finally:
            slot.release()
