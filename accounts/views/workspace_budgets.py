"""/workspaces/{id}/budgets: what the keys of a workspace may spend together."""

from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.services import workspace_budgets
from accounts.services.records import key_actor
from accounts.services.workspace_budgets import INTERVALS, WorkspaceBudgets
from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from accounts.views.schemas.workspace import (
    NewWorkspaceBudget,
    WorkspaceBudgetObject,
    read_budget,
    read_interval,
    serialize_budget,
)
from accounts.views.workspaces import WORKSPACE
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject
from gateway.http.responses import json_response
from gateway.openapi.components import FLAG, Component, add_description, array, deletion_of, obj

_BYOK: Final = add_description(
    FLAG, "Whether spending on credentials of the account's own counts, for all budgets."
)
_ONE: Final = Component(
    "WorkspaceBudgetAnswer", obj({"data": WorkspaceBudgetObject, "include_byok_in_budgets": _BYOK})
)
_ALL: Final = Component(
    "WorkspaceBudgetList",
    obj({"data": array(WorkspaceBudgetObject), "include_byok_in_budgets": _BYOK}),
)
_INTERVAL: Final = OpenApiParameter(
    "interval",
    str,
    OpenApiParameter.PATH,
    enum=list(INTERVALS),
    description="UTC days, weeks from Monday, calendar months; a lifetime never resets.",
)
_operation = describe_operations("Workspaces", 404, path=[WORKSPACE, _INTERVAL])


class WorkspaceBudgetsViewSet(ManagedViewSet):
    """Budgets of a workspace of the account."""

    @_operation(
        "listWorkspaceBudgets",
        "List budgets of a workspace",
        "What its keys may spend together, the widest interval first.",
        _ALL,
        parameters=[WORKSPACE],
    )
    def list(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        budgets = run_queries(
            Lane.READ, lambda: workspace_budgets.find_budgets(caller.account_id, workspace)
        )
        return json_response(_answer(budgets, [serialize_budget(row) for row in budgets.rows]))

    @_operation(
        "getWorkspaceBudget",
        "Get a budget of a workspace",
        "The budget of that interval; 404 where there is none.",
        _ONE,
        400,
    )
    def retrieve(self, request: HttpRequest, workspace: str, interval: str) -> HttpResponseBase:
        caller = self.manager(request)
        word = read_interval(interval)
        budgets, row = run_queries(
            Lane.READ, lambda: workspace_budgets.find_budget(caller.account_id, workspace, word)
        )
        return json_response(_answer(budgets, serialize_budget(row)))

    @_operation(
        "setWorkspaceBudget",
        "Set a budget of a workspace",
        "The budget, which holds at once, for what was spent already too. A budget met or exceeded "
        "blocks with 403, unless it only warns.",
        _ONE,
        400,
        body=NewWorkspaceBudget,
    )
    def update(self, request: HttpRequest, workspace: str, interval: str) -> HttpResponseBase:
        caller = self.manager(request)
        word = read_interval(interval)
        body = managed_body(request)
        wanted = read_budget(body)
        budgets, row = run_queries(
            Lane.OPERATOR,
            lambda: workspace_budgets.set_budget(
                account_id=caller.account_id,
                reference=workspace,
                interval=word,
                by=key_actor(caller),
                **wanted,
            ),
        )
        return json_response(_answer(budgets, serialize_budget(row)))

    @_operation(
        "deleteWorkspaceBudget",
        "Delete a budget of a workspace",
        "The same answer where there was none.",
        deletion_of(WorkspaceBudgetObject),
        400,
    )
    def destroy(self, request: HttpRequest, workspace: str, interval: str) -> HttpResponseBase:
        caller = self.manager(request)
        word = read_interval(interval)
        run_queries(
            Lane.OPERATOR,
            lambda: workspace_budgets.delete_budget(
                account_id=caller.account_id,
                reference=workspace,
                interval=word,
                by=key_actor(caller),
            ),
        )
        return json_response({"deleted": True})


def _answer(budgets: WorkspaceBudgets, data: object) -> JsonObject:
    return {"data": data, "include_byok_in_budgets": budgets.workspace.include_byok_in_budgets}
