"""/analytics and /activity: an account's usage by dimensions of its choice."""

from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.views.managed import ManagedViewSet
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.responses import json_response
from routing.history.activity import read_activity, read_activity_query
from routing.history.analytics import META, answer_query
from routing.history.body import read_analytics_body
from routing.history.views import analytics_description as described


class AnalyticsViewSet(ManagedViewSet):
    """The metrics that analytics offers, and queries of them."""

    @described.meta
    def meta(self, request: HttpRequest) -> HttpResponseBase:
        self.manager(request)
        return json_response({"data": META})

    @described.query
    def query(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        now = datetime.now(UTC)
        query = read_analytics_body(body, now)
        answer = run_queries(Lane.OPERATOR, lambda: answer_query(caller.account_id, query, now))
        metadata = {
            "query_time_ms": answer.query_time_ms,
            "row_count": len(answer.rows),
            "truncated": answer.truncated,
        }
        return json_response({"data": {"data": answer.rows, "metadata": metadata}})


class ActivityViewSet(ManagedViewSet):
    """Usage of the last 30 full days by endpoint."""

    @described.listing
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        now = datetime.now(UTC)
        query = read_activity_query(request.GET, now)
        rows = run_queries(Lane.OPERATOR, lambda: read_activity(caller.account_id, query, now))
        return json_response({"data": rows})
