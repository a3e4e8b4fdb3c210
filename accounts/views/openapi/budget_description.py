"""How workspaces' budgets are described in the OpenAPI document."""

from typing import Final

from drf_spectacular.utils import OpenApiParameter

from accounts.services.workspace_budgets import INTERVALS
from accounts.views.managed import managed
from gateway.openapi.components import FLAG, Component, array, described, nullable, obj, words

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


_described = managed("Workspaces", 404, path=[_WHICH, _INTERVAL])


listing = _described(
    "listWorkspaceBudgets",
    "List budgets of a workspace",
    "What its keys may spend together, the widest interval first.",
    _MANY,
    parameters=[_WHICH],
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
