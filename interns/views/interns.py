"""/interns: making, reading, changing, provisioning, suspending and deleting interns."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase

from accounts.caller import Caller
from gateway.database.db import Lane, run_queries
from gateway.http.responses import json_response
from interns import creation, operations
from interns.access import json_body, let_in, require_editor, visible
from interns.changing import change
from interns.errors import InternNotFound
from interns.history import by_caller
from interns.models import Intern
from interns.views import description as described
from interns.views.base import InternViewSet
from interns.views.body import (
    read_changes,
    read_deletion,
    read_key,
    read_new_intern,
    read_nothing,
)
from interns.views.deadline import in_time
from interns.views.listing import page_of_interns, read_query
from interns.views.objects import intern_object


class InternsViewSet(InternViewSet):
    """Inference keys, for the interns of their workspace."""

    until: float

    @described.listing
    @in_time
    def list(self, request: HttpRequest) -> HttpResponseBase:
        workspace_id = _member_of(let_in(request))
        wanted = read_query(request.GET, workspace_id)
        page = run_queries(Lane.READ, lambda: page_of_interns(workspace_id, wanted))
        more = page.next_cursor is not None
        told: dict[str, Any] = {"data": [intern_object(each) for each in page.interns]}
        told |= {"has_more": more} | ({"next_cursor": page.next_cursor} if more else {})
        return json_response(told)

    @described.creation
    @in_time
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = let_in(request, writes=True)
        workspace_id = _member_of(caller)
        body = json_body(request)
        key = read_key(request.META.get("HTTP_IDEMPOTENCY_KEY"))
        wanted = read_new_intern(body, workspace_id)
        intern, made = creation.create(caller, wanted, key=key)
        return json_response(intern_object(intern), status=201 if made else 200)

    @described.retrieval
    @in_time
    def retrieve(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        return json_response(intern_object(visible(let_in(request), intern_id)))

    @described.change
    @in_time
    def partial_update(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        _, intern, changes = self._edited(request, intern_id, read_changes)
        changed = run_queries(Lane.OPERATOR, lambda: change(intern.pk, changes))
        return json_response(intern_object(changed))

    @described.provisioning
    @in_time
    def provision(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, _ = self._edited(request, intern_id, read_nothing)
        operations.provision(intern.pk, by=by_caller(caller))
        return json_response({"provisioning": True}, status=202)

    @described.suspension
    @in_time
    def suspend(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, _ = self._edited(request, intern_id, read_nothing)
        operations.suspend(intern.pk, by=by_caller(caller), until=self.until)
        return json_response({"suspended": True})

    @described.deletion
    @in_time
    def destroy(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, acknowledged = self._edited(request, intern_id, read_deletion)
        operations.delete(intern.pk, by=by_caller(caller), acknowledged=acknowledged)
        return json_response({"deleting": True}, status=202)

    def _edited(
        self, request: HttpRequest, intern_id: str, read: Callable[[dict[str, Any]], Any]
    ) -> tuple[Caller, Intern, Any]:
        """Who changes which intern, and what `read` makes of the body, in the order of 6.1."""
        caller = let_in(request, writes=True)
        said = read(json_body(request))
        intern = visible(caller, intern_id)
        require_editor(caller, intern)
        return caller, intern, said


def _member_of(caller: Caller) -> UUID:
    """The workspace of a key that sees all interns there: an intern's own key sees only itself."""
    if caller.intern_id is not None or caller.workspace_id is None:
        raise InternNotFound
    return caller.workspace_id
