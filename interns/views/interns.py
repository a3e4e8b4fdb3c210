"""/interns: making, reading, changing, provisioning, suspending and deleting interns."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase, QueryDict
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel

from accounts.caller import Caller
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.openapi.components import FLAG, TEXT, UUID_TEXT, Component, array, component, obj
from interns import creation, operations
from interns.access import (
    authorize_caller,
    authorize_manager,
    get_visible_intern,
    read_json_object,
    require_editor,
    select_visible_interns,
)
from interns.errors import InternNotFound, InvalidBody, InvalidListQuery
from interns.history import describe_caller
from interns.models import Intern, Status
from interns.operations import update_intern
from interns.views.base import INTERN_ID, InternViewSet, intern_errors, with_deadline
from interns.views.schemas.intern import (
    InternChanges,
    InternDeletion,
    InternObject,
    NewInternBody,
    NoFields,
    read_changes,
    read_new_intern,
    serialize_intern,
)

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500
STATUSES_MAX: Final = 8
_FIELDS: Final = {"limit", "status", "workspace_id", "starting_after"}
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Cursor(NamedTuple):
    """The last intern of the page before."""

    created_at: datetime
    id: UUID

    def serialize(self) -> str:
        text = f"{self.created_at.isoformat()}|{self.id}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


class InternsQuery(NamedTuple):
    limit: int = LIMIT_DEFAULT
    statuses: tuple[str, ...] = ()
    after: Cursor | None = None
    workspace_id: UUID | None = None


class InternsPage(NamedTuple):
    interns: list[Intern]
    next_cursor: str | None


def read_query(given: QueryDict, own_workspace_id: UUID | None) -> InternsQuery:
    """A key of a workspace names no other one. Raises `InvalidListQuery`."""
    query = {name: values[0] for name, values in given.lists() if len(values) == 1}
    if set(query) != set(given) or set(query) - _FIELDS:
        raise InvalidListQuery
    workspace_id = own_workspace_id
    if "workspace_id" in query:
        try:
            workspace_id = UUID(query["workspace_id"])
        except ValueError:
            raise InvalidListQuery from None
        if own_workspace_id not in (None, workspace_id):
            raise InvalidListQuery
    limit = query.get("limit", str(LIMIT_DEFAULT))
    if not _NUMBER.fullmatch(limit) or not 1 <= int(limit) <= LIMIT_MAX:
        raise InvalidListQuery
    statuses = tuple(dict.fromkeys(query["status"].split(","))) if "status" in query else ()
    if len(statuses) > STATUSES_MAX or not set(statuses) <= set(Status.values):
        raise InvalidListQuery
    after = _read_cursor(query["starting_after"]) if "starting_after" in query else None
    return InternsQuery(int(limit), statuses, after, workspace_id)


def read_interns_page(rows: QuerySet[Intern], query: InternsQuery) -> InternsPage:
    """One page of these, newest first."""
    if query.workspace_id is not None:
        rows = rows.filter(workspace=query.workspace_id)
    if query.statuses:
        rows = rows.filter(status__in=query.statuses)
    if query.after is not None:
        at, pk = query.after
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=pk))
    interns = list(rows.order_by("-created_at", "-pk")[: query.limit + 1])
    if len(interns) <= query.limit:
        return InternsPage(interns, None)
    last = interns[query.limit - 1]
    return InternsPage(interns[: query.limit], Cursor(last.created_at, last.pk).serialize())


def _read_cursor(text: str) -> Cursor:
    try:
        padded = text + "=" * (-len(text) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        moment, _, number = decoded.partition("|")
        cursor = Cursor(datetime.fromisoformat(moment), UUID(number))
    except (binascii.Error, ValueError):
        raise InvalidListQuery from None
    # Only what was given out: the same moment can be written in many ways, without a zone too.
    if cursor.created_at.tzinfo is None or cursor.serialize() != text:
        raise InvalidListQuery
    return cursor


F = TypeVar("F", bound=Callable[..., object])
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255
_LIST: Final = Component(
    "InternList",
    obj(
        {"data": array(InternObject), "has_more": FLAG, "next_cursor": TEXT},
        optional=("next_cursor",),
    ),
)
_ONCE: Final = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_CHARS_MAX},
    OpenApiParameter.HEADER,
    description="The same key and body make one intern. Without it the body is its own key.",
)
_QUERY: Final = (
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    OpenApiParameter("status", str, description="Statuses with commas between."),
    OpenApiParameter(
        "workspace_id", UUID_TEXT, description="The key's own workspace; of a management key, any."
    ),
    OpenApiParameter("starting_after", str, description="`next_cursor` of the page before."),
)
_READING: Final = (401, 403, 404, 408, 500)
_WRITING: Final = (400, 401, 403, 404, 408, 409, 413, 415, 500)


def _operation(
    operation_id: str,
    summary: str,
    answers: dict[int, tuple[Component, str]],
    *errors: int,
    body: type[BaseModel] | None = None,
    parameters: Sequence[OpenApiParameter] = (INTERN_ID,),
) -> Callable[[F], F]:
    """Describes an operation in the OpenAPI document."""
    good = {code: OpenApiResponse(*answer) for code, answer in answers.items()}
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        tags=["Interns"],
        parameters=list(parameters),
        request=None if body is None else component(body),
        responses={**good, **intern_errors(*errors)},
    )


class InternsViewSet(InternViewSet):
    """Inference keys, for the interns of their workspace; but for making one, management keys too
    that name the scope `interns`."""

    until: float

    @_operation(
        "listInterns",
        "List interns",
        {200: (_LIST, "Newest first.")},
        400,
        *_READING,
        parameters=_QUERY,
    )
    @with_deadline
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = authorize_manager(request)
        workspace_id = None if caller.management else _require_workspace(caller)
        query = read_query(request.GET, workspace_id)
        rows = select_visible_interns(caller)
        page = run_queries(Lane.READ, lambda: read_interns_page(rows, query))
        body: JsonObject = {
            "data": list(map(serialize_intern, page.interns)),
            "has_more": page.next_cursor is not None,
        }
        if page.next_cursor is not None:
            body["next_cursor"] = page.next_cursor
        return json_response(body)

    @_operation(
        "createIntern",
        "Create an intern",
        {
            201: (component(InternObject), "It was made."),
            200: (component(InternObject), "It was made before."),
        },
        *_WRITING,
        502,
        body=NewInternBody,
        parameters=[_ONCE],
    )
    @with_deadline
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = authorize_caller(request, writes=True)
        workspace_id = _require_workspace(caller)
        body = read_json_object(request)
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is not None and not 1 <= len(key) <= IDEMPOTENCY_KEY_CHARS_MAX:
            text = f"expected 1 to {IDEMPOTENCY_KEY_CHARS_MAX} characters"
            raise InvalidBody(issues=[Issue("Idempotency-Key", text)])
        fields = read_new_intern(body, workspace_id)
        intern, is_new = creation.create_intern(caller, fields, key=key)
        return json_response(serialize_intern(intern), status=201 if is_new else 200)

    @_operation(
        "getIntern",
        "Get an intern",
        {200: (component(InternObject), "As it is.")},
        *_READING,
    )
    @with_deadline
    def retrieve(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        intern = get_visible_intern(authorize_manager(request), intern_id)
        return json_response(serialize_intern(intern))

    @_operation(
        "updateIntern",
        "Change an intern",
        {200: (component(InternObject), "As it is now.")},
        *_WRITING,
        body=InternChanges,
    )
    @with_deadline
    def partial_update(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        _, intern, changes = self._prepare_edit(request, intern_id, read_changes)
        changed = run_queries(Lane.OPERATOR, lambda: update_intern(intern.pk, changes))
        return json_response(serialize_intern(changed))

    @_operation(
        "provisionIntern",
        "Boot an intern, or resume it",
        {
            202: (
                Component("InternProvisioning", obj({"provisioning": FLAG})),
                "A worker does it. The disk's bound is watched while commands run: a single file "
                "never passes it, many that are written at once may for a second.",
            )
        },
        *_WRITING,
        502,
        body=NoFields,
    )
    @with_deadline
    def provision(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, _ = self._prepare_edit(request, intern_id, NoFields.read)
        operations.provision(intern.pk, by=describe_caller(caller))
        return json_response({"provisioning": True}, status=202)

    @_operation(
        "suspendIntern",
        "Stop an intern's runtime; its disk stays",
        {200: (Component("InternSuspended", obj({"suspended": FLAG})), "It is stopped.")},
        *_WRITING,
        502,
        body=NoFields,
    )
    @with_deadline
    def suspend(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, _ = self._prepare_edit(request, intern_id, NoFields.read)
        operations.suspend(intern.pk, by=describe_caller(caller), until=self.until)
        return json_response({"suspended": True})

    @_operation(
        "deleteIntern",
        "Take an intern down, with its runtime and its vault",
        {202: (Component("InternDeleting", obj({"deleting": FLAG})), "A worker does it.")},
        *_WRITING,
        502,
        body=InternDeletion,
    )
    @with_deadline
    def destroy(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller, intern, deletion = self._prepare_edit(request, intern_id, InternDeletion.read)
        operations.delete(
            intern.pk,
            by=describe_caller(caller),
            acknowledged=deletion.acknowledge_workspace_loss,
        )
        return json_response({"deleting": True}, status=202)

    def _prepare_edit(
        self, request: HttpRequest, intern_id: str, read: Callable[[JsonObject], Any]
    ) -> tuple[Caller, Intern, Any]:
        """Caller, intern and what `read` makes of the body, checked in the order of `access`."""
        caller = authorize_manager(request, writes=True)
        fields = read(read_json_object(request))
        intern = get_visible_intern(caller, intern_id)
        require_editor(caller, intern)
        return caller, intern, fields


def _require_workspace(caller: Caller) -> UUID:
    """The workspace of a key that sees all interns there: an intern's own key sees only itself."""
    if caller.intern_id is not None or caller.workspace_id is None:
        raise InternNotFound
    return caller.workspace_id
