"""/workspaces: the teams of an account, their settings and their members."""

from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.services import workspace_members, workspaces
from accounts.services.records import key_actor
from accounts.views.managed import PAGE, ManagedViewSet, describe_operations, managed_body
from accounts.views.schemas.workspace import (
    NewWorkspace,
    WorkspaceChanges,
    WorkspaceMember,
    WorkspaceObject,
    WorkspaceUserIds,
    hash_end_users,
    read_new_workspace,
    read_workspace_changes,
    serialize_workspace,
)
from gateway.database.db import Lane, run_queries
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.openapi.components import (
    WHOLE,
    Component,
    answer_of,
    array,
    deletion_of,
    list_of,
    obj,
)

WORKSPACE: Final = OpenApiParameter(
    "workspace", str, OpenApiParameter.PATH, description="The workspace's id or slug."
)
_operation = describe_operations("Workspaces", path=[WORKSPACE])
_ADDED: Final = Component(
    "WorkspaceMembersAdded", obj({"data": array(WorkspaceMember), "added_count": WHOLE})
)
_REMOVED: Final = Component("WorkspaceMembersRemoved", obj({"removed_count": WHOLE}))


class WorkspacesViewSet(ManagedViewSet):
    """Workspaces of the key's own account, by id or slug."""

    @_operation(
        "listWorkspaces",
        "List workspaces",
        "The account's workspaces, newest first.",
        list_of(WorkspaceObject),
        400,
        parameters=PAGE,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page = parse_page(request.GET)
        return self.answer_page(
            lambda: workspaces.list_workspaces(caller.account_id, page),
            serialize_workspace,
        )

    @_operation(
        "createWorkspace",
        "Create a workspace",
        "The new workspace. A slug that the account uses already is refused.",
        answer_of(WorkspaceObject),
        400,
        success=201,
        body=NewWorkspace,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        columns = hash_end_users(read_new_workspace(managed_body(request)), caller.account_id)
        row = run_queries(
            Lane.OPERATOR,
            lambda: workspaces.create_workspace(
                account_id=caller.account_id,
                creator=caller.creator_id,
                by=key_actor(caller),
                settings=columns,
            ),
        )
        return json_response({"data": serialize_workspace(row)}, status=201)

    @_operation(
        "getWorkspace",
        "Get a workspace",
        "The workspace of that id or slug.",
        answer_of(WorkspaceObject),
        404,
    )
    def retrieve(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        row = run_queries(
            Lane.READ, lambda: workspaces.find_workspace(caller.account_id, workspace)
        )
        return json_response({"data": serialize_workspace(row)})

    @_operation(
        "updateWorkspace",
        "Change a workspace",
        "The workspace with the fields given changed; requests follow within a second.",
        answer_of(WorkspaceObject),
        400,
        404,
        body=WorkspaceChanges,
    )
    def partial_update(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        changes = hash_end_users(read_workspace_changes(managed_body(request)), caller.account_id)
        row = run_queries(
            Lane.OPERATOR,
            lambda: workspaces.change_workspace(
                account_id=caller.account_id,
                reference=workspace,
                by=key_actor(caller),
                changes=changes,
            ),
        )
        return json_response({"data": serialize_workspace(row)})

    @_operation(
        "deleteWorkspace",
        "Delete a workspace",
        "Refused while a key of it is active, and for the default workspace. Records stay.",
        deletion_of(WorkspaceObject),
        400,
        404,
    )
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

    @_operation(
        "listWorkspaceMembers",
        "List members of a workspace",
        "Its members, newest first; everybody of the account belongs to the default workspace.",
        list_of(WorkspaceMember),
        400,
        404,
        parameters=[WORKSPACE, *PAGE],
    )
    def list(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        page = parse_page(request.GET)
        return self.answer_page(
            lambda: workspace_members.list_members(
                account_id=caller.account_id, reference=workspace, page=page
            ),
            WorkspaceMember.from_row,
        )

    @_operation(
        "addWorkspaceMembers",
        "Add members to a workspace",
        "The members added, each with the role that it has in the account. All of them or nobody.",
        _ADDED,
        400,
        404,
        body=WorkspaceUserIds,
    )
    def add(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        user_ids = WorkspaceUserIds.read(managed_body(request)).user_ids
        members, added = run_queries(
            Lane.OPERATOR,
            lambda: workspace_members.add_members(
                account_id=caller.account_id,
                reference=workspace,
                by=key_actor(caller),
                user_ids=user_ids,
            ),
        )
        return json_response(
            {"data": list(map(WorkspaceMember.from_row, members)), "added_count": added}
        )

    @_operation(
        "removeWorkspaceMembers",
        "Remove members from a workspace",
        "How many were removed: nobody, where one of them has an active key there.",
        _REMOVED,
        400,
        404,
        body=WorkspaceUserIds,
    )
    def remove(self, request: HttpRequest, workspace: str) -> HttpResponseBase:
        caller = self.manager(request)
        user_ids = WorkspaceUserIds.read(managed_body(request)).user_ids
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
