"""/guardrails: what requests are held to, and who is held to it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from accounts.services import guardrail_assignments as assignments
from accounts.services import guardrails
from accounts.services.records import by_key
from accounts.views.bodies.guardrail_body import (
    read_changes,
    read_key_hashes,
    read_member_ids,
    read_new_guardrail,
)
from accounts.views.bodies.guardrail_objects import (
    guardrail_object,
    key_assignment_object,
    member_assignment_object,
)
from accounts.views.key_query import read_workspace_id
from accounts.views.managed import ManagedViewSet, managed_body
from accounts.views.openapi import guardrail_description as described
from gateway.database.db import Lane, run
from gateway.http.errors import SchemaInvalid
from gateway.http.paging import page_of
from gateway.http.responses import json_response
from gateway.http.validation import Issue


class GuardrailsViewSet(ManagedViewSet):
    """Guardrails of the key's own account."""

    @described.listing
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page, workspace_id = page_of(request.GET), read_workspace_id(request.GET)
        rows, total = run(
            Lane.READ,
            lambda: guardrails.page_of_guardrails(
                account_id=caller.account_id, workspace_id=workspace_id, page=page
            ),
        )
        return json_response({"data": list(map(guardrail_object, rows)), "total_count": total})

    @described.creation
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        workspace_id, said = read_new_guardrail(managed_body(request))
        row = run(
            Lane.OPERATOR,
            lambda: guardrails.create_guardrail(
                account_id=caller.account_id,
                workspace_id=workspace_id,
                by=by_key(caller),
                settings=said,
            ),
        )
        return json_response({"data": guardrail_object(row)}, status=201)

    @described.retrieval
    def retrieve(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted = _id(guardrail)
        row = run(Lane.READ, lambda: guardrails.find_guardrail(caller.account_id, wanted))
        return json_response({"data": guardrail_object(row)})

    @described.change
    def partial_update(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted, changes = _id(guardrail), read_changes(managed_body(request))
        row = run(
            Lane.OPERATOR,
            lambda: guardrails.change_guardrail(
                account_id=caller.account_id,
                guardrail_id=wanted,
                by=by_key(caller),
                changes=changes,
            ),
        )
        return json_response({"data": guardrail_object(row)})

    @described.deletion
    def destroy(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted = _id(guardrail)
        run(
            Lane.OPERATOR,
            lambda: guardrails.delete_guardrail(
                account_id=caller.account_id, guardrail_id=wanted, by=by_key(caller)
            ),
        )
        return json_response({"deleted": True})


class _Holders(NamedTuple):
    """Who may be under a guardrail: how bodies name them (`word` is what the services call that),
    how they are put under it and taken away, listed and shown."""

    word: str
    named: Callable[[Mapping[str, Any]], Sequence[str]]
    assign: Callable[..., int]
    unassign: Callable[..., int]
    page: Callable[..., tuple[Sequence[Any], int]]
    shown: Callable[[Any], dict[str, Any]]


class _HoldersViewSet(ManagedViewSet):
    """Those under guardrails: one guardrail's, or all of the account's."""

    holders: ClassVar[_Holders]

    def page(self, request: HttpRequest, guardrail: str | None = None) -> HttpResponseBase:
        caller = self.manager(request)
        wanted = None if guardrail is None else _id(guardrail)
        page = page_of(request.GET)
        rows, total = run(
            Lane.READ,
            lambda: self.holders.page(account_id=caller.account_id, guardrail_id=wanted, page=page),
        )
        shown = list(map(self.holders.shown, rows))
        return json_response({"data": shown, "total_count": total})

    def assigned(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        count = self._done(
            request, caller, guardrail, partial(self.holders.assign, assigner=caller.creator_key)
        )
        return json_response({"assigned_count": count})

    def unassigned(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        count = self._done(request, caller, guardrail, self.holders.unassign)
        return json_response({"unassigned_count": count})

    def _done(
        self, request: HttpRequest, caller: Caller, guardrail: str, work: Callable[..., int]
    ) -> int:
        wanted, names = _id(guardrail), self.holders.named(managed_body(request))
        told = {self.holders.word: names}
        return run(
            Lane.OPERATOR,
            lambda: work(
                account_id=caller.account_id, guardrail_id=wanted, by=by_key(caller), **told
            ),
        )


class GuardrailKeysViewSet(_HoldersViewSet):
    """Keys."""

    holders = _Holders(
        "key_hashes",
        read_key_hashes,
        assignments.assign_keys,
        assignments.unassign_keys,
        assignments.page_of_keys,
        key_assignment_object,
    )

    @described.keys
    def list(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.page(request, guardrail)

    @described.all_keys
    def list_all(self, request: HttpRequest) -> HttpResponseBase:
        return self.page(request)

    @described.key_assignment
    def assign(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.assigned(request, guardrail)

    @described.key_removal
    def remove(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.unassigned(request, guardrail)


class GuardrailMembersViewSet(_HoldersViewSet):
    """Members."""

    holders = _Holders(
        "user_ids",
        read_member_ids,
        assignments.assign_members,
        assignments.unassign_members,
        assignments.page_of_members,
        member_assignment_object,
    )

    @described.members
    def list(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.page(request, guardrail)

    @described.all_members
    def list_all(self, request: HttpRequest) -> HttpResponseBase:
        return self.page(request)

    @described.member_assignment
    def assign(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.assigned(request, guardrail)

    @described.member_removal
    def remove(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        return self.unassigned(request, guardrail)


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise SchemaInvalid([Issue("id", "Invalid UUID")]) from None
