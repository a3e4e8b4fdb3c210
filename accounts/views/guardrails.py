"""/guardrails: what requests are held to, and who is held to it."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import management_caller
from accounts.caller import Caller
from accounts.services import guardrail_assignments as assignments
from accounts.services import guardrails
from accounts.services.records import by_key
from accounts.views import guardrail_description as described
from accounts.views.guardrail_body import (
    read_changes,
    read_key_hashes,
    read_member_ids,
    read_new_guardrail,
)
from accounts.views.guardrail_objects import (
    guardrail_object,
    key_assignment_object,
    member_assignment_object,
)
from accounts.views.key_query import read_workspace_id
from gateway.db import Lane, run
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, SchemaInvalid
from gateway.http.paging import page_of
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet


class _Managed(LeanViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    def manager(self, request: HttpRequest) -> Caller:
        caller = management_caller(request)
        self.beside = {"user_id": caller.creator_id}
        return caller

    def database_gone(self) -> GatewayError:
        return GatewayError()


class GuardrailsViewSet(_Managed):
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
        workspace_id, said = read_new_guardrail(_body(request))
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
        wanted, changes = _id(guardrail), read_changes(_body(request))
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


class GuardrailKeysViewSet(_Managed):
    """The keys under guardrails: one guardrail's, or all of the account's."""

    @described.keys
    def list(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        return self._page(request, caller, _id(guardrail))

    @described.all_keys
    def list_all(self, request: HttpRequest) -> HttpResponseBase:
        return self._page(request, self.manager(request), None)

    @described.key_assignment
    def assign(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted, hashes = _id(guardrail), read_key_hashes(_body(request))
        count = run(
            Lane.OPERATOR,
            lambda: assignments.assign_keys(
                account_id=caller.account_id,
                guardrail_id=wanted,
                by=by_key(caller),
                assigner=caller.creator_key,
                key_hashes=hashes,
            ),
        )
        return json_response({"assigned_count": count})

    @described.key_removal
    def remove(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted, hashes = _id(guardrail), read_key_hashes(_body(request))
        count = run(
            Lane.OPERATOR,
            lambda: assignments.unassign_keys(
                account_id=caller.account_id,
                guardrail_id=wanted,
                by=by_key(caller),
                key_hashes=hashes,
            ),
        )
        return json_response({"unassigned_count": count})

    def _page(
        self, request: HttpRequest, caller: Caller, guardrail_id: UUID | None
    ) -> HttpResponseBase:
        page = page_of(request.GET)
        rows, total = run(
            Lane.READ,
            lambda: assignments.page_of_keys(
                account_id=caller.account_id, guardrail_id=guardrail_id, page=page
            ),
        )
        shown = list(map(key_assignment_object, rows))
        return json_response({"data": shown, "total_count": total})


class GuardrailMembersViewSet(_Managed):
    """The members under guardrails, likewise."""

    @described.members
    def list(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        return self._page(request, caller, _id(guardrail))

    @described.all_members
    def list_all(self, request: HttpRequest) -> HttpResponseBase:
        return self._page(request, self.manager(request), None)

    @described.member_assignment
    def assign(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted, user_ids = _id(guardrail), read_member_ids(_body(request))
        count = run(
            Lane.OPERATOR,
            lambda: assignments.assign_members(
                account_id=caller.account_id,
                guardrail_id=wanted,
                by=by_key(caller),
                assigner=caller.creator_key,
                user_ids=user_ids,
            ),
        )
        return json_response({"assigned_count": count})

    @described.member_removal
    def remove(self, request: HttpRequest, guardrail: str) -> HttpResponseBase:
        caller = self.manager(request)
        wanted, user_ids = _id(guardrail), read_member_ids(_body(request))
        count = run(
            Lane.OPERATOR,
            lambda: assignments.unassign_members(
                account_id=caller.account_id,
                guardrail_id=wanted,
                by=by_key(caller),
                user_ids=user_ids,
            ),
        )
        return json_response({"unassigned_count": count})

    def _page(
        self, request: HttpRequest, caller: Caller, guardrail_id: UUID | None
    ) -> HttpResponseBase:
        page = page_of(request.GET)
        rows, total = run(
            Lane.READ,
            lambda: assignments.page_of_members(
                account_id=caller.account_id, guardrail_id=guardrail_id, page=page
            ),
        )
        shown = list(map(member_assignment_object, rows))
        return json_response({"data": shown, "total_count": total})


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise SchemaInvalid([Issue("id", "Invalid UUID")]) from None


def _body(request: HttpRequest) -> dict[str, Any]:
    return read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
