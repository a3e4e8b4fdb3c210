"""POST /chat/completions."""

from django.http import HttpRequest, HttpResponseBase

from routing.formats.chat.format import CHAT
from routing.views.chat_description import describe_chat
from routing.views.inference import InferenceViewSet


class ChatViewSet(InferenceViewSet):
    """Chat completions, streaming and not."""

    caller_format = CHAT

    @describe_chat
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)
