"""/analytics and /activity: an account's usage by dimensions of its choice."""

from datetime import UTC, datetime
from typing import Final

from django.http import HttpRequest, HttpResponseBase

from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from gateway.database.db import Lane, run_queries
from gateway.http.responses import json_response
from gateway.openapi.components import Component, answer_of, array, component, obj
from routing.history.activity import read_activity
from routing.history.analytics import META, answer_query
from routing.history.schemas import (
    ACTIVITY_DAYS,
    Activity,
    ActivityQuery,
    AnalyticsBody,
    AnalyticsMeta,
    AnalyticsMetadata,
    AnalyticsResult,
    read_analytics_body,
)

_RESULT: Final = Component("AnalyticsAnswer", obj({"data": AnalyticsResult}))
# All rows are on one page.
_ACTIVITY: Final = Component("ActivityList", obj({"data": array(Activity)}))
_operation = describe_operations("Analytics", 429)


class AnalyticsViewSet(ManagedViewSet):
    """The metrics that analytics offers, and queries of them."""

    @_operation(
        "getAnalyticsMeta",
        "List what analytics can be asked",
        "Metrics, dimensions, operators and granularities.",
        answer_of(AnalyticsMeta),
    )
    def meta(self, request: HttpRequest) -> HttpResponseBase:
        self.manager(request)
        return json_response({"data": META})

    @_operation(
        "queryAnalytics",
        "Query analytics",
        "Metrics of the account's generations by up to two dimensions and a period, exact up to "
        "the last answer. Without a time range the last 7 days are meant. Performance, guardrail "
        "and response-cache metrics, and some dimensions, reach over 31 days, all others over 365. "
        "Rows bear names for keys, workspaces, apps and users; filters take their ids.",
        _RESULT,
        *(400, 408),
        body=AnalyticsBody,
    )
    def query(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body, now = managed_body(request), datetime.now(UTC)
        query = read_analytics_body(body, now)
        answer = run_queries(Lane.OPERATOR, lambda: answer_query(caller.account_id, query, now))
        metadata = AnalyticsMetadata.from_row(answer, row_count=len(answer.rows))
        return json_response({"data": {"data": answer.rows, "metadata": metadata}})


class ActivityViewSet(ManagedViewSet):
    """Usage of the last 30 full days by endpoint."""

    @_operation(
        "getActivity",
        "List what endpoints were used for",
        f"One row for each day, model and endpoint of the last {ACTIVITY_DAYS} full days (UTC), "
        "the last day first, all on one page.",
        _ACTIVITY,
        *(400, 404, 408),
        parameters=[component(ActivityQuery)],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        now = datetime.now(UTC)
        query = ActivityQuery.read(request.GET, now=now)
        rows = run_queries(Lane.OPERATOR, lambda: read_activity(caller.account_id, query, now))
        return json_response({"data": rows})
