"""Who may do what with interns, checked in this order:

    caller = let_in(request, writes=True)     # host 403, credential 401/403, programme 404
    body = json_body(request)                 # size 413, media type 415, syntax 400
    ... the body's own fields ...             # 400
    intern = visible(caller, intern_id)       # 404
    require_editor(caller, intern)            # 403
    ... its state ...                         # 409

Chat uses the same functions; so does the vault, whose refusals have no metadata. Management keys
are let in by `authorize_manager`, where they name the scope `interns`.
"""

from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from accounts.authentication import authenticate, open_to_manager, read_key_string
from accounts.caller import Caller
from accounts.keystring import hash_key
from accounts.models import ApiKey, Membership, Workspace, WorkspaceMembership
from accounts.rates import count_management_request
from accounts.roles import Action, list_account_roles, list_workspace_roles
from gateway.database.db import Lane, run_queries
from gateway.http.address import MAIN_REGION, find_region
from gateway.http.body import parse_large, read_body
from gateway.http.errors import (
    InvalidRequest,
    JsonTooDeep,
    MalformedJson,
    PayloadTooLarge,
    PermissionDenied,
    Unauthenticated,
    UnsupportedEncoding,
)
from gateway.http.jsonio import JsonObject, Raw
from interns.errors import (
    BodyTooLarge,
    InternForbidden,
    InternNotFound,
    InternUnauthenticated,
    InvalidBody,
    UnsupportedMediaType,
)
from interns.models import Intern

BODY_BYTES_MAX = 1_048_576


def authorize_caller(request: HttpRequest, *, writes: bool = False) -> Caller:
    """The caller, who is of the programme. `writes` is for what the write switch turns off.

    Raises `InternForbidden`, `InternUnauthenticated`, `InternNotFound`; also `RateLimited` and
    `DatabaseGone`.
    """
    caller = _authenticate(request)
    if caller.management:
        raise InternUnauthenticated
    _require_programme(caller, writes=writes)
    return caller


def authorize_manager(request: HttpRequest, *, writes: bool = False) -> Caller:
    """Like `authorize_caller`, but a management key that names the scope `interns` is let in too.
    One that may do everything is not, because callers of the API count on that refusal."""
    caller = _authenticate(request)
    if caller.management:
        if caller.scopes is None or "interns" not in caller.scopes:
            raise InternUnauthenticated
        try:
            open_to_manager(caller, request)
        except PermissionDenied:
            raise InternForbidden from None
        count_management_request(caller, request)
    _require_programme(caller, writes=writes)
    return caller


def _require_programme(caller: Caller, *, writes: bool) -> None:
    if not caller.interns_enabled or (writes and not caller.intern_writes_enabled):
        raise InternNotFound


def _authenticate(request: HttpRequest) -> Caller:
    if find_region(request) != MAIN_REGION:
        raise InternForbidden
    try:
        return authenticate(request)
    except Unauthenticated:
        string = read_key_string(request)
        if string is None:
            raise InternUnauthenticated from None
        # A key that is good but for its workspace, which was deleted.
        gone = Workspace.everything.filter(deleted_at__isnull=False).values("pk")
        keys = ApiKey.objects.filter(hash=hash_key(string), disabled=False, deleted_at__isnull=True)
        if run_queries(Lane.READ, keys.filter(workspace__in=gone).exists):
            raise InternForbidden from None
        raise InternUnauthenticated from None
    except PermissionDenied:
        raise InternForbidden from None


def read_json_object(request: HttpRequest, *, bytes_max: int = BODY_BYTES_MAX) -> JsonObject:
    """The body as an object; no body at all is an empty one.

    Raises `BodyTooLarge`, `UnsupportedMediaType` and `InvalidBody`.
    """
    raw = read_raw_body(request, bytes_max=bytes_max)
    if not raw:
        return {}
    declared = str(request.META.get("CONTENT_TYPE", ""))
    if declared.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType
    try:
        value = parse_large(raw)
    except JsonTooDeep as error:
        raise InvalidBody(error.text) from None
    except MalformedJson:
        raise InvalidBody from None
    if not isinstance(value, dict):
        raise InvalidBody
    return value


def read_raw_body(request: HttpRequest, *, bytes_max: int) -> Raw:
    try:
        return read_body(request, bytes_max=bytes_max)
    except PayloadTooLarge:
        raise BodyTooLarge from None
    except UnsupportedEncoding as error:
        raise UnsupportedMediaType(error.text) from None
    except InvalidRequest as error:
        raise InvalidBody(error.text) from None


def get_visible_intern(caller: Caller, intern_id: str) -> Intern:
    """The intern, with its vault and workspace. An intern's own key sees itself only.

    Raises `InternNotFound`, for any string that is not the id of one.
    """
    try:
        wanted = UUID(intern_id)
    except ValueError:
        raise InternNotFound from None
    # Only the form that ids are shown in.
    if str(wanted) != intern_id.lower() or caller.intern_id not in (None, wanted):
        raise InternNotFound
    rows = select_visible_interns(caller).select_related("workspace", "creator")
    found = run_queries(Lane.READ, lambda: rows.filter(pk=wanted).first())
    if found is None:
        raise InternNotFound
    return found


def select_visible_interns(caller: Caller) -> QuerySet[Intern]:
    """Those of the key's workspace; for a management key, of the workspaces that it is for."""
    rows = Intern.objects.select_related("vault")
    if not caller.management:
        return rows.filter(workspace=caller.workspace_id)
    if caller.managed_workspaces is not None:
        rows = rows.filter(workspace__in=caller.managed_workspaces)
    return rows.filter(workspace__account=caller.account_id)


def require_editor(caller: Caller, intern: Intern) -> None:
    """Its creator and the workspace's admins may change it; its own key may not. Of a management
    key the scope was looked at already.

    Raises `InternForbidden`.
    """
    if caller.management:
        return
    if caller.intern_id is not None or caller.creator_key is None:
        raise InternForbidden
    if caller.creator_key != intern.creator_id and not is_workspace_admin(caller):
        raise InternForbidden


def is_workspace_admin(caller: Caller) -> bool:
    """Whether the key's creator is an admin of its workspace, or of the whole account."""
    admins = Membership.objects.filter(account=caller.account_id, user=caller.creator_key)
    of_workspace = WorkspaceMembership.objects.filter(
        workspace=caller.workspace_id,
        role__in=list_workspace_roles(Action.OTHERS_INTERNS),
    ).values("membership")
    by_account = Q(role__in=list_account_roles(Action.OTHERS_INTERNS))
    allowed = admins.filter(by_account | Q(pk__in=of_workspace))
    return run_queries(Lane.READ, allowed.exists)
