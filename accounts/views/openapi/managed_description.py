"""How the operations that manage an account are described in the OpenAPI document."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from gateway.http.paging import LIMIT_DEFAULT, LIMIT_MAX
from gateway.openapi.components import Component
from gateway.openapi.errors import error_responses

F = TypeVar("F", bound=Callable[..., object])
PAGE: Final = [
    OpenApiParameter("offset", {"type": "integer", "minimum": 0, "default": 0}),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
]


class Describe(Protocol):
    """Decorates an operation with its description."""

    def __call__(
        self,
        operation_id: str,
        summary: str,
        description: str,
        answer: Component,
        *statuses: int,
        success: int = 200,
        body: Component | None = None,
        parameters: Sequence[OpenApiParameter] | None = None,
    ) -> Callable[[F], F]: ...


def managed(tag: str, *always: int, which: Sequence[OpenApiParameter] = ()) -> Describe:
    """What describes the operations of a tag. Each may be refused with 401, 403, 500, those of
    `always`, and its own; `which` are its parameters where it names none."""

    def describe(
        operation_id: str,
        summary: str,
        description: str,
        answer: Component,
        *statuses: int,
        success: int = 200,
        body: Component | None = None,
        parameters: Sequence[OpenApiParameter] | None = None,
    ) -> Callable[[F], F]:
        refusals = [*always, *statuses, *([413] if body else [])]
        said: dict[Any, Any] = {
            success: OpenApiResponse(answer, description=description),
            **error_responses(401, 403, 500, *refusals),
        }
        decorate: Callable[[F], F] = extend_schema(
            operation_id=operation_id,
            summary=summary,
            description=f"{description} Takes a management key.",
            tags=[tag],
            parameters=list(which if parameters is None else parameters),
            request=None if body is None else {"application/json": body},
            responses=said,
        )
        return decorate

    return describe
