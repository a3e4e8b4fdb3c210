"""POST /responses."""

from django.http import HttpRequest, HttpResponseBase

from routing.formats.responses.format import RESPONSES
from routing.views.inference import InferenceViewSet
from routing.views.openapi.responses import describe_responses


class ResponsesViewSet(InferenceViewSet):
    """Responses, streaming and not; nothing is stored."""

    caller_format = RESPONSES

    @describe_responses
    def create(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)
