"""How workspaces' budgets are described in the OpenAPI document."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.services.workspace_budgets import INTERVALS
from gateway.openapi.components import FLAG, Component, array, described, nullable, obj, words
from gateway.openapi.errors import error_responses

F = TypeVar("F", bound=Callable[..., object])
_ID: Final = {"type": "string", "format": "uuid"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_LIMIT: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "description": "USD. Budgets of wider intervals must be larger.",
}
_BYOK: Final = described(
    FLAG, "Whether spending on credentials of the account's own counts, for all budgets."
)
BUDGET: Final = Component(
    "WorkspaceBudget",
    obj(
        {
            "id": _ID,
            "workspace_id": _ID,
            "limit_usd": _LIMIT,
            "reset_interval": described(
                words("daily", "weekly", "monthly", None), "Null for the lifetime."
            ),
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
        }
    ),
)
WANTED: Final = Component(
    "WorkspaceBudgetWanted",
    {
        "type": "object",
        "required": ["limit_usd"],
        "properties": {
            "limit_usd": _LIMIT,
            "include_byok_in_budgets": nullable(
                described(FLAG, "For all budgets of the workspace; left out, it stays as it is.")
            ),
        },
    },
)
_ONE: Final = Component(
    "WorkspaceBudgetAnswer", obj({"data": BUDGET, "include_byok_in_budgets": _BYOK})
)
_MANY: Final = Component(
    "WorkspaceBudgetList", obj({"data": array(BUDGET), "include_byok_in_budgets": _BYOK})
)
_DELETED: Final = Component("WorkspaceBudgetDeleted", obj({"deleted": FLAG}))
_WHICH: Final = OpenApiParameter(
    "workspace", str, OpenApiParameter.PATH, description="The workspace's id or slug."
)
_INTERVAL: Final = OpenApiParameter(
    "interval",
    str,
    OpenApiParameter.PATH,
    enum=list(INTERVALS),
    description="UTC days, weeks from Monday, calendar months; a lifetime never resets.",
)


def _described(
    operation_id: str,
    summary: str,
    description: str,
    answer: Component,
    *statuses: int,
    body: Component | None = None,
    one: bool = True,
) -> Callable[[F], F]:
    request: Any = None if body is None else {"application/json": body}
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=f"{description} Takes a management key.",
        tags=["Workspaces"],
        parameters=[_WHICH, _INTERVAL] if one else [_WHICH],
        request=request,
        responses={
            200: OpenApiResponse(answer, description=description),
            **error_responses(401, 403, 404, 500, *statuses, *([413] if body else [])),
        },
    )
    return decorate


listing = _described(
    "listWorkspaceBudgets",
    "List budgets of a workspace",
    "What its keys may spend together, the widest interval first.",
    _MANY,
    one=False,
)
retrieval = _described(
    "getWorkspaceBudget",
    "Get a budget of a workspace",
    "The budget of that interval; 404 where there is none.",
    _ONE,
    400,
)
setting = _described(
    "setWorkspaceBudget",
    "Set a budget of a workspace",
    "The budget, which holds at once, for what was spent already too. A budget met or exceeded "
    "blocks with 403.",
    _ONE,
    400,
    body=WANTED,
)
deletion = _described(
    "deleteWorkspaceBudget",
    "Delete a budget of a workspace",
    "Told also where there was none.",
    _DELETED,
    400,
)
