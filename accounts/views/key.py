"""GET /key: the key that asks, its limit and what it spent."""

from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_counted
from accounts.rates import read_free_requests
from accounts.views.bodies.key_objects import current_key_object
from accounts.views.openapi.key_description import describe_key
from gateway.database.db import Lane, run_queries
from gateway.http.responses import json_response
from gateway.http.viewset import LeanViewSet


class KeyViewSet(LeanViewSet):
    """Any key may ask about itself."""

    @describe_key
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        free = read_free_requests(caller)
        data = run_queries(Lane.READ, lambda: current_key_object(caller, free, datetime.now(UTC)))
        return json_response({"data": data})
