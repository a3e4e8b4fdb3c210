"""/workspaces: the teams of an account, their settings and their members."""

from django.http import HttpRequest, HttpResponseBase

from accounts.services import workspace_members, workspaces
from accounts.services.records import key_actor
from accounts.views.bodies.workspace_body import read_changes, read_members, read_new_workspace
from accounts.views.bodies.workspace_objects import member_object, workspace_object
from accounts.views.managed import ManagedViewSet, managed_body
from accounts.views.openapi import workspace_description as described
from gateway.database.db import Lane, run_queries
from gateway.http.paging import parse_page
from gateway.http.responses import json_response


class WorkspacesViewSet(ManagedViewSet):
    """Workspaces of the key's own account, by id or slug."""

    @described.listing
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page = parse_page(request.GET)
        rows, total = run_queries(
            Lane.READ, lambda: workspaces.list_workspaces(caller.account_id, page)
        )
        return json_response({"data": list(map(workspace_object, rows)), "total_count": total})

    @described.creation
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        wanted = read_new_workspace(managed_body(request))
        row = run_queries(
            Lane.OPERATOR,
            lambda: workspaces.create_workspace(
                account_id=caller.account_id,
                creator=caller.creator_id,
                by=key_actor(caller),
                settings=wanted,
            ),
        )
        return json_response({"data": workspace_object(row)}, status=201)

    @described.retrieval
    def retrieve(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        row = run_queries(
            Lane.READ, lambda: workspaces.find_workspace(caller.account_id, workspace)
        )
        return json_response({"data": workspace_object(row)})

    @described.change
    def partial_update(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        changes = read_changes(managed_body(request))
        row = run_queries(
            Lane.OPERATOR,
            lambda: workspaces.change_workspace(
                account_id=caller.account_id,
                reference=workspace,
                by=key_actor(caller),
                changes=changes,
            ),
        )
        return json_response({"data": workspace_object(row)})

    @described.deletion
    def destroy(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        run_queries(
            Lane.OPERATOR,
            lambda: workspaces.delete_workspace(
                account_id=caller.account_id, reference=workspace, by=key_actor(caller)
            ),
        )
        return json_response({"deleted": True})


class WorkspaceMembersViewSet(ManagedViewSet):
    """Who belongs to a workspace."""

    @described.members
    def list(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        page = parse_page(request.GET)
        members, total = run_queries(
            Lane.READ,
            lambda: workspace_members.list_members(
                account_id=caller.account_id, reference=workspace, page=page
            ),
        )
        return json_response({"data": list(map(member_object, members)), "total_count": total})

    @described.adding
    def add(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        user_ids = read_members(managed_body(request))
        members, added = run_queries(
            Lane.OPERATOR,
            lambda: workspace_members.add_members(
                account_id=caller.account_id,
                reference=workspace,
                by=key_actor(caller),
                user_ids=user_ids,
            ),
        )
        return json_response({"data": list(map(member_object, members)), "added_count": added})

    @described.removal
    def remove(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        user_ids = read_members(managed_body(request))
        removed = run_queries(
            Lane.OPERATOR,
            lambda: workspace_members.remove_members(
                account_id=caller.account_id,
                reference=workspace,
                by=key_actor(caller),
                user_ids=user_ids,
            ),
        )
        return json_response({"removed_count": removed})
