"""How operations are described that any key may use, or none."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from gateway.openapi.components import Component
from gateway.openapi.errors import error_responses

F = TypeVar("F", bound=Callable[..., object])


def describe_operation(
    tag: str,
    operation_id: str,
    summary: str,
    description: str,
    answer: Component,
    *statuses: int,
    parameters: Sequence[OpenApiParameter | Component] = (),
    auth: Any = None,
    body: Component | None = None,
    examples: Sequence[OpenApiExample] | None = None,
) -> Callable[[F], F]:
    """Decorates the method of an operation, which may be refused with 401, 403, 500 and
    `statuses`. Parameters may be the component of a `Query`."""
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        tags=[tag],
        parameters=list[Any](parameters),
        auth=auth,
        request=None if body is None else {"application/json": body},
        examples=examples,
        responses={
            200: OpenApiResponse(answer, description=description),
            **error_responses(401, 403, 500, *statuses),
        },
    )
    return decorate
