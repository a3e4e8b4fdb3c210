"""/interns: making, reading, changing, provisioning, suspending and deleting interns."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.responses import json_response
from interns import creation, operations
from interns.access import authorize_caller, get_visible_intern, read_json_object, require_editor
from interns.errors import InternNotFound
from interns.history import describe_caller
from interns.leases import is_pickup_overdue
from interns.machine import build_progress
from interns.models import Intern, Vault
from interns.operations import update_intern
from interns.views import description as described
from interns.views.base import InternViewSet, with_deadline
from interns.views.body import (
    read_changes,
    read_deletion,
    read_empty_body,
    read_idempotency_key,
    read_new_intern,
)
from interns.views.listing import read_interns_page, read_query


class InternsViewSet(InternViewSet):
    """Inference keys, for the interns of their workspace."""

    until: float

    @described.listing
    @with_deadline
    def list(self, request: HttpRequest) -> HttpResponseBase:
        workspace_id = _require_workspace(authorize_caller(request))
        given = read_query(request.GET, workspace_id)
        page = run_queries(Lane.READ, lambda: read_interns_page(workspace_id, given))
        more = page.next_cursor is not None
        body: JsonObject = {"data": [serialize_intern(each) for each in page.interns]}
        body |= {"has_more": more} | ({"next_cursor": page.next_cursor} if more else {})
        return json_response(body)

    @described.creation
    @with_deadline
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = authorize_caller(request, writes=True)
        workspace_id = _require_workspace(caller)
        body = read_json_object(request)
        key = read_idempotency_key(request.META.get("HTTP_IDEMPOTENCY_KEY"))
        given = read_new_intern(body, workspace_id)
        intern, is_new = creation.create_intern(caller, given, key=key)
        return json_response(serialize_intern(intern), status=201 if is_new else 200)

    @described.retrieval
    @with_deadline
    def retrieve(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        return json_response(
            serialize_intern(get_visible_intern(authorize_caller(request), intern_id))
        )

    @described.change
    @with_deadline
    def partial_update(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        _, intern, changes = self._prepare_edit(request, intern_id, read_changes)
        changed = run_queries(Lane.OPERATOR, lambda: update_intern(intern.pk, changes))
        return json_response(serialize_intern(changed))

    @described.provisioning
    @with_deadline
    def provision(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, _ = self._prepare_edit(request, intern_id, read_empty_body)
        operations.provision(intern.pk, by=describe_caller(caller))
        return json_response({"provisioning": True}, status=202)

    @described.suspension
    @with_deadline
    def suspend(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, _ = self._prepare_edit(request, intern_id, read_empty_body)
        operations.suspend(intern.pk, by=describe_caller(caller), until=self.until)
        return json_response({"suspended": True})

    @described.deletion
    @with_deadline
    def destroy(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, acknowledged = self._prepare_edit(request, intern_id, read_deletion)
        operations.delete(intern.pk, by=describe_caller(caller), acknowledged=acknowledged)
        return json_response({"deleting": True}, status=202)

    def _prepare_edit(
        self, request: HttpRequest, intern_id: str, read: Callable[[JsonObject], Any]
    ) -> tuple[Caller, Intern, Any]:
        """Caller, intern and what `read` makes of the body, checked in the order of `access`."""
        caller = authorize_caller(request, writes=True)
        given = read(read_json_object(request))
        intern = get_visible_intern(caller, intern_id)
        require_editor(caller, intern)
        return caller, intern, given


def _require_workspace(caller: Caller) -> UUID:
    """The workspace of a key that sees all interns there: an intern's own key sees only itself."""
    if caller.intern_id is not None or caller.workspace_id is None:
        raise InternNotFound
    return caller.workspace_id


def serialize_intern(intern: Intern) -> JsonObject:
    """Every field is present."""
    waits = is_pickup_overdue(intern, datetime.now(UTC))
    return {
        "id": str(intern.pk),
        "name": intern.name,
        "description": intern.description,
        "instructions": intern.instructions,
        "model": intern.model,
        "hostname": intern.hostname,
        "status": str(intern.status),
        "progress": build_progress(intern.progress_step, waits=waits),
        "last_failure_message": intern.last_failure_message,
        "vault_id": _read_vault_id(intern),
        "attached_vault_id": _text_or_none(intern.attached_vault_id),
        "workspace_id": str(intern.workspace_id),
        "created_at": format_time(intern.created_at),
        "updated_at": format_time(intern.updated_at),
    }


def _read_vault_id(intern: Intern) -> str | None:
    try:
        return str(intern.vault.pk)
    except Vault.DoesNotExist:
        return None


def _text_or_none(value: object | None) -> str | None:
    return None if value is None else str(value)
