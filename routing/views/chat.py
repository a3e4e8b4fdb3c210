"""POST /chat/completions."""

from django.http import HttpRequest, HttpResponseBase

from routing.formats.chat.format import CHAT
from routing.views.inference import InferenceViewSet
from routing.views.openapi.chat import describe_chat


class ChatViewSet(InferenceViewSet):
    """Chat completions, streaming and not."""

    caller_format = CHAT

    @describe_chat
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)
