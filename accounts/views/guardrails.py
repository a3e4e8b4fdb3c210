"""/guardrails: what requests are held to, and who is held to it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.caller import Caller
from accounts.services import guardrail_assignments as assignments
from accounts.services import guardrails
from accounts.services.records import key_actor
from accounts.views.managed import (
    PAGE,
    WORKSPACE_ID,
    ManagedViewSet,
    describe_operations,
    managed_body,
    read_id,
    read_workspace_id,
)
from accounts.views.schemas.guardrail import (
    GuardrailChanges,
    GuardrailKeyAssignment,
    GuardrailKeyHashes,
    GuardrailMemberAssignment,
    GuardrailMemberIds,
    GuardrailObject,
    NewGuardrail,
    read_guardrail_changes,
    read_new_guardrail,
    serialize_guardrail,
    serialize_key_assignment,
    serialize_member_assignment,
)
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.openapi.components import (
    UUID_TEXT,
    WHOLE,
    Component,
    answer_of,
    deletion_of,
    list_of,
    obj,
)

_ID: Final = OpenApiParameter("guardrail", UUID_TEXT, OpenApiParameter.PATH)
_KEYS: Final = list_of(GuardrailKeyAssignment, "GuardrailKeyList")
_MEMBERS: Final = list_of(GuardrailMemberAssignment, "GuardrailMemberList")
_ASSIGNED: Final = Component("GuardrailAssigned", obj({"assigned_count": WHOLE}))
_UNASSIGNED: Final = Component("GuardrailUnassigned", obj({"unassigned_count": WHOLE}))
_operation = describe_operations("Guardrails", 400, path=[_ID])


class GuardrailsViewSet(ManagedViewSet):
    """Guardrails of the key's own account."""

    @_operation(
        "listGuardrails",
        "List guardrails",
        "The guardrails of a workspace, newest first; its default one once it has been configured.",
        list_of(GuardrailObject),
        parameters=[*PAGE, WORKSPACE_ID],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page, workspace_id = parse_page(request.GET), read_workspace_id(request.GET)
        return self.answer_page(
            lambda: guardrails.list_guardrails(
                account_id=caller.account_id, workspace_id=workspace_id, page=page
            ),
            serialize_guardrail,
        )

    @_operation(
        "createGuardrail",
        "Create a guardrail",
        "The new guardrail. It does nothing until it is assigned to a key or a member.",
        answer_of(GuardrailObject),
        success=201,
        body=NewGuardrail,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        workspace_id, columns = read_new_guardrail(managed_body(request))
        row = run_queries(
            Lane.OPERATOR,
            lambda: guardrails.create_guardrail(
                account_id=caller.account_id,
                workspace_id=workspace_id,
                by=key_actor(caller),
                settings=columns,
            ),
        )
        return json_response({"data": serialize_guardrail(row)}, status=201)

    @_operation(
        "getGuardrail",
        "Get a guardrail",
        "The guardrail of that id.",
        answer_of(GuardrailObject),
        404,
    )
    def retrieve(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        guardrail_id = read_id(guardrail)
        row = run_queries(
            Lane.READ, lambda: guardrails.find_guardrail(caller.account_id, guardrail_id)
        )
        return json_response({"data": serialize_guardrail(row)})

    @_operation(
        "updateGuardrail",
        "Change a guardrail",
        "The guardrail with the fields given changed; requests follow within a second. The first "
        "change of a workspace's `default_guardrail_id` makes it.",
        answer_of(GuardrailObject),
        404,
        409,
        body=GuardrailChanges,
    )
    def partial_update(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        guardrail_id = read_id(guardrail)
        changes = read_guardrail_changes(managed_body(request))
        row = run_queries(
            Lane.OPERATOR,
            lambda: guardrails.change_guardrail(
                account_id=caller.account_id,
                guardrail_id=guardrail_id,
                by=key_actor(caller),
                changes=changes,
            ),
        )
        return json_response({"data": serialize_guardrail(row)})

    @_operation(
        "deleteGuardrail",
        "Delete a guardrail",
        "It governs nobody any more; a workspace's default one is as before its first change.",
        deletion_of(GuardrailObject),
        404,
    )
    def destroy(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        guardrail_id = read_id(guardrail)
        run_queries(
            Lane.OPERATOR,
            lambda: guardrails.delete_guardrail(
                account_id=caller.account_id, guardrail_id=guardrail_id, by=key_actor(caller)
            ),
        )
        return json_response({"deleted": True})


class _Holders(NamedTuple):
    """Who may be under a guardrail: how a body names them, and how they are assigned, listed and
    serialized. `parameter` is what the services call them."""

    parameter: str
    read: Callable[[Mapping[str, Any]], Sequence[str]]
    assign: Callable[..., int]
    unassign: Callable[..., int]
    page: Callable[..., tuple[Sequence[Any], int]]
    serialize: Callable[[Any], JsonObject]


class _HoldersViewSet(ManagedViewSet):
    """Those under guardrails: one guardrail's, or all of the account's."""

    holders: ClassVar[_Holders]

    def page(self, request: HttpRequest, guardrail: str | None = None) -> HttpResponseBase:
        caller = self.manager(request)
        guardrail_id = None if guardrail is None else read_id(guardrail)
        page = parse_page(request.GET)
        return self.answer_page(
            lambda: self.holders.page(
                account_id=caller.account_id, guardrail_id=guardrail_id, page=page
            ),
            self.holders.serialize,
        )

    def assign_holders(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        assign = partial(self.holders.assign, assigner=caller.creator_key)
        return json_response({"assigned_count": self._change(request, caller, guardrail, assign)})

    def unassign_holders(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        count = self._change(request, caller, guardrail, self.holders.unassign)
        return json_response({"unassigned_count": count})

    def _change(
        self, request: HttpRequest, caller: Caller, guardrail: str, change: Callable[..., int]
    ) -> int:
        guardrail_id = read_id(guardrail)
        names = {self.holders.parameter: self.holders.read(managed_body(request))}
        return run_queries(
            Lane.OPERATOR,
            lambda: change(
                account_id=caller.account_id,
                guardrail_id=guardrail_id,
                by=key_actor(caller),
                **names,
            ),
        )


class GuardrailKeysViewSet(_HoldersViewSet):
    """Keys."""

    holders = _Holders(
        "key_hashes",
        lambda body: GuardrailKeyHashes.read(body).key_hashes,
        assignments.assign_keys,
        assignments.unassign_keys,
        assignments.list_assigned_keys,
        serialize_key_assignment,
    )

    @_operation(
        "listGuardrailKeys",
        "List the keys under a guardrail",
        "Its keys, newest first.",
        _KEYS,
        404,
        parameters=[_ID, *PAGE],
    )
    def list(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.page(request, guardrail)

    @_operation(
        "listAllGuardrailKeys",
        "List all keys under guardrails",
        "The account's keys that have a guardrail, newest first.",
        _KEYS,
        parameters=PAGE,
    )
    def list_all(self, request: HttpRequest) -> HttpResponseBase:
        return self.page(request)

    @_operation(
        "assignGuardrailToKeys",
        "Assign a guardrail to keys",
        "How many keys it governs from now on, each instead of the one before. All of them or "
        "none.",
        _ASSIGNED,
        404,
        body=GuardrailKeyHashes,
    )
    def assign(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.assign_holders(request, guardrail)

    @_operation(
        "unassignGuardrailFromKeys",
        "Take a guardrail from keys",
        "How many keys it governed and does no more.",
        _UNASSIGNED,
        404,
        body=GuardrailKeyHashes,
    )
    def remove(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.unassign_holders(request, guardrail)


class GuardrailMembersViewSet(_HoldersViewSet):
    """Members."""

    holders = _Holders(
        "user_ids",
        lambda body: GuardrailMemberIds.read(body).member_user_ids,
        assignments.assign_members,
        assignments.unassign_members,
        assignments.list_assigned_members,
        serialize_member_assignment,
    )

    @_operation(
        "listGuardrailMembers",
        "List the members under a guardrail",
        "Its members, newest first. It governs all keys that they created.",
        _MEMBERS,
        404,
        parameters=[_ID, *PAGE],
    )
    def list(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.page(request, guardrail)

    @_operation(
        "listAllGuardrailMembers",
        "List all members under guardrails",
        "The account's members that have a guardrail, newest first.",
        _MEMBERS,
        parameters=PAGE,
    )
    def list_all(self, request: HttpRequest) -> HttpResponseBase:
        return self.page(request)

    @_operation(
        "assignGuardrailToMembers",
        "Assign a guardrail to members",
        "How many members it governs from now on, each instead of the one before. All or nobody.",
        _ASSIGNED,
        404,
        body=GuardrailMemberIds,
    )
    def assign(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.assign_holders(request, guardrail)

    @_operation(
        "unassignGuardrailFromMembers",
        "Take a guardrail from members",
        "How many members it governed and does no more.",
        _UNASSIGNED,
        404,
        body=GuardrailMemberIds,
    )
    def remove(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.unassign_holders(request, guardrail)
