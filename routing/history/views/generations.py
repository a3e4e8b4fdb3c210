"""/generation/content and /generation/feedback."""

from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_counted
from accounts.views.managed import ManagedViewSet
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, SchemaInvalid
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet
from routing.history.contents import read_content
from routing.history.feedback import read_feedback, store_feedback
from routing.history.views import generations_description as described


class ContentViewSet(LeanViewSet):
    """Prompt and answer of a generation, where its workspace logs them."""

    @described.content
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        generation_id = request.GET.get("id", "")
        if not generation_id:
            issue = Issue("id", "Invalid input: expected string, received undefined")
            raise SchemaInvalid([issue])
        content = run_queries(Lane.READ, lambda: read_content(caller, generation_id))
        return json_response({"data": content})

    def database_gone(self) -> GatewayError:
        return GatewayError()


class FeedbackViewSet(ManagedViewSet):
    """Feedback on a generation."""

    @described.feedback
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        feedback = read_feedback(body)
        now = datetime.now(UTC)
        run_queries(Lane.OPERATOR, lambda: store_feedback(caller=caller, feedback=feedback, at=now))
        return json_response({"data": {"success": True}})
