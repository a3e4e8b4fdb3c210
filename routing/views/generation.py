"""/generation: the record of one generation, its content, and feedback on it."""

from datetime import UTC, datetime
from functools import partial
from typing import Final

from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import authenticate_counted
from accounts.caller import Caller
from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from gateway.database.db import Lane, run_queries
from gateway.http.errors import GatewayError, NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.responses import json_response
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import FLAG, Component, answer_of, component, obj
from routing.history.contents import GenerationContentObject, read_content
from routing.history.generations import Feedback, find_generation_id, store_feedback
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from routing.views.openapi.operation import describe_operation
from routing.views.schemas.generation import (
    GenerationObject,
    GenerationQuery,
    RefusedRequestObject,
    RouteObject,
    serialize_generation,
    serialize_refusal,
    serialize_route,
)

_TAG: Final = "Generations"
_RECORD: Final = Component(
    "GenerationAnswer",
    obj({"data": {"anyOf": [component(GenerationObject), component(RefusedRequestObject)]}}),
)
_route_operation = partial(describe_operation, _TAG)
_STORED: Final = Component("GenerationFeedbackAnswer", obj({"data": obj({"success": FLAG})}))
_operation = partial(describe_operation, _TAG, parameters=[component(GenerationQuery)])
_managed_operation = describe_operations(_TAG, 400, 404, 429)


class _ByGeneration(LeanViewSet):
    """A caller sees the generations of its own account; anybody else's id is not found."""

    def authenticate(self, request: HttpRequest) -> Caller:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        return caller

    def read(self, request: HttpRequest) -> tuple[Caller, str]:
        """The caller, and the id of the generation."""
        return self.authenticate(request), GenerationQuery.read(request.GET).id


class GenerationViewSet(_ByGeneration):
    """The record."""

    @_operation(
        "getGeneration",
        "Get the record of a generation",
        "Tokens, cost and every attempt, by the id of the answer (`X-Generation-Id`). The record "
        "is there once the answer has ended. A request is found by its request id "
        "(`X-Request-Id`) too; one that failed or was refused at most a second later, one that was "
        "answered under an id of the caller's own among the account's last 1,000 generations. "
        "Another account's id is not found.",
        _RECORD,
        *(400, 404, 429, 503),
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller, generation_id = self.read(request)
        if "\x00" in generation_id:
            raise NotFound("Generation not found")
        record = run_queries(Lane.READ, lambda: _read_record(caller, generation_id))
        return json_response({"data": record})


def _read_record(caller: Caller, given_id: str) -> JsonObject:
    """The generation of that id; else the request of that request id."""
    generations = Generation.objects.filter(account_id=caller.account_id, lost=False)
    generations = generations.defer("trace")
    row = generations.filter(pk=given_id).first()
    failure: FailedRequest | None = None
    if row is not None:
        if (request_id := row.detail.get("request_id")) is not None:
            # The answer was an error, if there is one.
            failures = FailedRequest.objects.filter(request_id=request_id, generation_id=row.pk)
            failure = failures.filter(account_id=row.account_id).first()
    else:
        failure, generation_id = _find_request(caller, given_id)
        row = generations.filter(pk=generation_id).first()
        if row is None and failure is not None:
            return serialize_refusal(failure)
    if row is None:
        raise NotFound("Generation not found")
    return serialize_generation(row, key_id=caller.key_id, failure=failure)


def _find_request(caller: Caller, request_id: str) -> tuple[FailedRequest | None, str | None]:
    """The failed request of that request id, and the generation's id. Else None, and the id of the
    generation that answered a request of that id."""
    failures = FailedRequest.objects.filter(account_id=caller.account_id, request_id=request_id)
    failure = failures.order_by("-pk").first()
    if failure is not None:
        return failure, failure.generation_id
    return None, find_generation_id(caller.account_id, request_id)


class RouteViewSet(_ByGeneration):
    """Why a request went where it went."""

    @_route_operation(
        "getGenerationRoute",
        "Get the route of a generation",
        "Every endpoint that was considered, in the order it was tried, and for each that did not "
        "answer the change by which it would have: a price, a latency, a setting. It takes the id "
        "of a generation or of a request, as `GET /generation` does.",
        answer_of(RouteObject),
        *(400, 404, 429, 503),
    )
    def retrieve(self, request: HttpRequest, generation_id: str) -> HttpResponseBase:
        caller = self.authenticate(request)
        if "\x00" in generation_id:
            raise NotFound("Generation not found")
        text = run_queries(Lane.READ, lambda: _read_trace(caller, generation_id))
        return json_response({"data": serialize_route(generation_id, text)})


def _read_trace(caller: Caller, given_id: str) -> str:
    """The trace of a generation, or the plan of a refused request, as JSON text."""
    generations = Generation.objects.filter(account_id=caller.account_id, lost=False)
    text = generations.filter(pk=given_id).values_list("trace", flat=True).first()
    if text is not None:
        return text
    failure, generation_id = _find_request(caller, given_id)
    text = generations.filter(pk=generation_id).values_list("trace", flat=True).first()
    if text is None and failure is None:
        raise NotFound("Generation not found")
    return text or (failure.plan if failure is not None else "")


class ContentViewSet(_ByGeneration):
    """Prompt and answer of a generation, where its workspace logs them."""

    outage_error = GatewayError

    @_operation(
        "getGenerationContent",
        "Get the content of a generation",
        "What was asked and answered. It is there for generations of workspaces that log inputs "
        "and outputs, for as many days as the operator keeps them. In an organization it takes a "
        "management key or one that an admin has made.",
        answer_of(GenerationContentObject),
        *(400, 404, 429),
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller, generation_id = self.read(request)
        content = run_queries(Lane.READ, lambda: read_content(caller, generation_id))
        return json_response({"data": content})


class FeedbackViewSet(ManagedViewSet):
    """Feedback on a generation."""

    @_managed_operation(
        "createGenerationFeedback",
        "Give feedback on a generation",
        "Kept for the operator.",
        _STORED,
        body=Feedback,
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        feedback, now = Feedback.read(managed_body(request)), datetime.now(UTC)
        run_queries(Lane.OPERATOR, lambda: store_feedback(caller=caller, feedback=feedback, at=now))
        return json_response({"data": {"success": True}})
