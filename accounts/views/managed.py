"""What the views that manage an account have in common."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel

from accounts.authentication import authenticate_management
from accounts.caller import Caller
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import LIMIT_DEFAULT, LIMIT_MAX
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import UUID_TEXT, Component, component
from gateway.openapi.errors import error_responses

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
PAGE: Final = [
    OpenApiParameter("offset", {"type": "integer", "minimum": 0, "default": 0}),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
]
WORKSPACE_ID: Final = OpenApiParameter(
    "workspace_id", UUID_TEXT, description="The default workspace if absent."
)
_EMPTY: Final = {"", "null"}


class ManagedViewSet(LeanViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    outage_error = GatewayError

    def manager(self, request: HttpRequest) -> Caller:
        """The caller. Raises what `authenticate_management` raises."""
        caller = authenticate_management(request)
        self.beside = {"user_id": caller.creator_id}
        return caller

    def answer_page(
        self, load: Callable[[], tuple[Sequence[T], int]], serialize: Callable[[T], object]
    ) -> HttpResponseBase:
        """The rows of a page, and how many there are in all, as `load` finds them."""
        rows, total = run_queries(Lane.READ, load)
        return json_response({"data": list(map(serialize, rows)), "total_count": total})


class Describe(Protocol):
    """Decorates the method of an operation with its description in the OpenAPI document."""

    def __call__(
        self,
        operation_id: str,
        summary: str,
        description: str,
        answer: Component,
        *statuses: int,
        success: int = 200,
        body: type[BaseModel] | Component | None = None,
        parameters: Sequence[OpenApiParameter | Component] | None = None,
    ) -> Callable[[F], F]: ...


def describe_operations(tag: str, *always: int, path: Sequence[OpenApiParameter] = ()) -> Describe:
    """What describes the operations of a tag. Each may be refused with 401, 403, 500, those of
    `always`, and its own `statuses`; `path` are its parameters where it names none."""

    def describe(
        operation_id: str,
        summary: str,
        description: str,
        answer: Component,
        *statuses: int,
        success: int = 200,
        body: type[BaseModel] | Component | None = None,
        parameters: Sequence[OpenApiParameter | Component] | None = None,
    ) -> Callable[[F], F]:
        refusals = [*always, *statuses, *([413] if body else [])]
        responses: dict[Any, Any] = {
            success: OpenApiResponse(answer, description=description),
            **error_responses(401, 403, 500, *refusals),
        }
        if isinstance(body, type):
            body = component(body)
        decorate: Callable[[F], F] = extend_schema(
            operation_id=operation_id,
            summary=summary,
            description=f"{description} Takes a management key.",
            tags=[tag],
            parameters=list[Any](path if parameters is None else parameters),
            request=None if body is None else {"application/json": body},
            responses=responses,
        )
        return decorate

    return describe


def managed_body(request: HttpRequest) -> JsonObject:
    """The JSON object that a management request brings. Raises what `read_object` raises."""
    return read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)


def read_id(text: str, path: str = "id") -> UUID:
    """An id of a path or a query. Raises `SchemaInvalid`."""
    try:
        return UUID(text)
    except ValueError:
        raise SchemaInvalid([Issue(path, "Invalid UUID")]) from None


def read_workspace_id(query: Any) -> UUID | None:
    """The workspace that a query names, if any. Raises `SchemaInvalid`."""
    text = query.get("workspace_id", "")
    return None if text in _EMPTY else read_id(text, "workspace_id")
