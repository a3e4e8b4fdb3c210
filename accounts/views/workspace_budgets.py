"""/workspaces/{id}/budgets: what the keys of a workspace may spend together."""

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from accounts.models import WorkspaceBudget
from accounts.services import workspace_budgets
from accounts.services.records import key_actor
from accounts.services.workspace_budgets import WorkspaceBudgets
from accounts.views.bodies.budget_body import read_budget, read_interval
from accounts.views.managed import ManagedViewSet, managed_body
from accounts.views.openapi import budget_description as described
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import format_time, usd
from gateway.http.responses import json_response


class WorkspaceBudgetsViewSet(ManagedViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    @described.listing
    def list(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        found = run_queries(
            Lane.READ, lambda: workspace_budgets.find_budgets(caller.account_id, workspace)
        )
        return json_response(_answer(found, [budget_object(row) for row in found.rows]))

    @described.retrieval
    def retrieve(self, request: HttpRequest, workspace: str, interval: str) -> HttpResponseBase:
        caller = self.manager(request)
        word = read_interval(interval)
        found, row = run_queries(
            Lane.READ, lambda: workspace_budgets.find_budget(caller.account_id, workspace, word)
        )
        return json_response(_answer(found, budget_object(row)))

    @described.setting
    def update(self, request: HttpRequest, workspace: str, interval: str) -> HttpResponseBase:
        caller = self.manager(request)
        word = read_interval(interval)
        body = managed_body(request)
        limit_nano, include_byok = read_budget(body)
        found, row = run_queries(
            Lane.OPERATOR,
            lambda: workspace_budgets.set_budget(
                account_id=caller.account_id,
                reference=workspace,
                interval=word,
                limit_nano=limit_nano,
                include_byok=include_byok,
                by=key_actor(caller),
            ),
        )
        return json_response(_answer(found, budget_object(row)))

    @described.deletion
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


def budget_object(row: WorkspaceBudget) -> dict[str, Any]:
    """A budget as the API shows it; every field is present."""
    lifetime = row.interval == WorkspaceBudget.Interval.LIFETIME
    return {
        "id": str(row.pk),
        "workspace_id": str(row.workspace_id),
        "limit_usd": usd(row.limit_nano),
        "reset_interval": None if lifetime else row.interval,
        "created_at": format_time(row.created_at),
        "updated_at": format_time(row.updated_at),
    }


def _answer(found: WorkspaceBudgets, data: Any) -> dict[str, Any]:
    return {"data": data, "include_byok_in_budgets": found.workspace.include_byok_in_budgets}
