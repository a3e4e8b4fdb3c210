"""/keys: an account's inference keys, managed with one of its management keys; /key: the key that
asks."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Subquery
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.authentication import authenticate_counted
from accounts.caller import Caller
from accounts.models import ApiKey, User, Workspace
from accounts.models.key import ApiKeyQuerySet
from accounts.money import usd_to_nano
from accounts.rates import read_free_requests
from accounts.scopes import check_managed_workspace
from accounts.services.key_limits import KeyUsage, build_zero_usage, read_usage, read_usages
from accounts.services.keys import (
    NoSuchWorkspace,
    change_key_with_usage,
    create_key,
    delete_keys,
    rotate_key,
)
from accounts.services.records import key_actor
from accounts.views.managed import (
    WORKSPACE_ID,
    ManagedViewSet,
    describe_operations,
    managed_body,
    read_workspace_id,
)
from accounts.views.schemas.fields import resolve_rate_limits
from accounts.views.schemas.key import (
    CurrentKey,
    KeyChanges,
    KeyObject,
    KeyRotation,
    NewKey,
    load_current_key,
    read_key_changes,
    resolve_models,
    serialize_key,
)
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_optional_object
from gateway.http.errors import NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.http.validation import Issue, describe_options
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import (
    TEXT,
    Component,
    add_description,
    answer_of,
    array,
    deletion_of,
    obj,
)
from gateway.openapi.errors import error_responses

T = TypeVar("T")
_PAGE_KEYS: Final = 100
_FLAGS: Final = {"true": True, "false": False, "null": False, "": False}
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_TAG: Final = "Keys and credits"
_KEY: Final = OpenApiParameter(
    "key_hash", TEXT, OpenApiParameter.PATH, description="The key's `hash`."
)
_FLAG: Final = {"type": "string", "enum": ["true", "false"], "default": "false"}
_QUERY: Final = [
    OpenApiParameter("offset", {"type": "integer", "minimum": 0, "default": 0}),
    OpenApiParameter("include_disabled", _FLAG, description="Disabled keys as well."),
    OpenApiParameter("include_expired", _FLAG, description="Expired keys as well."),
    WORKSPACE_ID,
]
_LIST: Final = Component("KeyList", obj({"data": array(KeyObject)}))
_WITH_STRING: Final = Component(
    "NewKeyAnswer",
    obj({"data": KeyObject, "key": add_description(TEXT, "The key, shown this once.")}),
)
_operation = describe_operations(_TAG, path=[_KEY])


class _KeyQuery(NamedTuple):
    """Which keys a list is to have. Without a workspace the default one is meant."""

    offset: int
    include_disabled: bool
    include_expired: bool
    workspace_id: UUID | None


class KeyViewSet(LeanViewSet):
    """Any key may ask about itself."""

    @extend_schema(
        operation_id="getCurrentKey",
        summary="Get the key that asks",
        description="Its limit, what it spent in each UTC window, and what kind of key it is.",
        tags=[_TAG],
        responses={
            200: OpenApiResponse(answer_of(CurrentKey), description="The key."),
            **error_responses(401, 403, 500, 503),
        },
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        free = read_free_requests(caller)
        data = run_queries(Lane.READ, lambda: load_current_key(caller, free, datetime.now(UTC)))
        return json_response({"data": data})


class KeysViewSet(ManagedViewSet):
    """Inference keys of the account."""

    secret_answers = frozenset({"create", "rotate"})

    @_operation(
        "listKeys",
        "List inference keys",
        "A page of keys, newest first, 100 to a page; management keys are not among them.",
        _LIST,
        400,
        parameters=_QUERY,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        given = request.GET.dict()
        query = _KeyQuery(
            parse_page({"offset": given.get("offset", "")}).offset,
            _read_flag(given, "include_disabled"),
            _read_flag(given, "include_expired"),
            read_workspace_id(given),
        )
        check_managed_workspace(caller, query.workspace_id)
        now = datetime.now(UTC)

        def load() -> Sequence[JsonObject]:
            keys = _list_keys(caller.account_id, query, at=now)
            usages = read_usages(keys=keys, at=now)
            return [serialize_key(key, usages[key.pk]) for key in keys]

        return json_response({"data": _run_query(load)})

    @_operation(
        "createKey",
        "Create an inference key",
        "The key. Its string is in this answer and never again.",
        _WITH_STRING,
        400,
        success=201,
        body=NewKey,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body = NewKey.read(managed_body(request))
        check_managed_workspace(caller, body.workspace_id)
        models = resolve_models(body.allowed_models)
        limits = resolve_rate_limits(body.model_dump(include={"rate_limits"})["rate_limits"])
        key, string = _run_query(lambda: _create_key(caller, body, models, limits))
        # Nothing was spent with it yet.
        answer = {"data": serialize_key(key, build_zero_usage(key.created_at)), "key": string}
        return json_response(answer, status=201)

    @_operation(
        "getKey",
        "Get an inference key",
        "The key, its limit, and what it spent in each UTC window.",
        answer_of(KeyObject),
        404,
    )
    def retrieve(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        keys = _find_key(self.manager(request), key_hash)
        data = _run_query(lambda: _with_usage(keys.select_related("creator").get()))
        return json_response({"data": data})

    @_operation(
        "updateKey",
        "Change an inference key",
        "The key as it is now. Fields that are not sent stay as they are. A changed limit applies "
        "at once to what is counted already; disabling takes effect within a second.",
        answer_of(KeyObject),
        400,
        404,
        409,
        body=KeyChanges,
    )
    def partial_update(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        caller = self.manager(request)
        keys = _find_key(caller, key_hash)
        changes = read_key_changes(managed_body(request))
        if "workspace_id" in changes:
            check_managed_workspace(caller, changes["workspace_id"])
        data = _run_query(
            lambda: _with_usage(
                *change_key_with_usage(keys=keys, changes=changes, by=key_actor(caller))
            )
        )
        return json_response({"data": data})

    @_operation(
        "deleteKey",
        "Delete an inference key",
        "It stops working within a second; its history stays.",
        deletion_of(KeyObject),
        404,
    )
    def destroy(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        caller = self.manager(request)
        keys = _find_key(caller, key_hash)
        if not _run_query(lambda: delete_keys(keys=keys, by=key_actor(caller))):
            raise NotFound
        return json_response({"deleted": True})

    @_operation(
        "rotateKey",
        "Give an inference key a new string",
        "The key and its new string, which is in this answer and never again. Hash and label "
        "change; limits and spending stay. The old string works until its grace period ends, and "
        "no string before it works any longer than it.",
        _WITH_STRING,
        400,
        404,
        body=KeyRotation,
    )
    def rotate(self, request: HttpRequest, key_hash: str) -> HttpResponseBase:
        caller = self.manager(request)
        keys = _find_key(caller, key_hash)
        body = read_optional_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        grace_s = KeyRotation.read(body).grace_seconds

        def rotate() -> JsonObject:
            key, string = rotate_key(keys=keys, grace_s=grace_s, by=key_actor(caller))
            return {"data": _with_usage(key), "key": string}

        return json_response(_run_query(rotate))


def _read_flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "").lower()
    if text not in _FLAGS:
        raise SchemaInvalid([Issue(name, describe_options(("true", "false")))])
    return _FLAGS[text]


def _list_keys(account_id: UUID, query: _KeyQuery, *, at: datetime) -> list[ApiKey]:
    """A page, newest first. Raises `SchemaInvalid` for a workspace that is not the account's."""
    keys = ApiKey.objects.inference(account_id).filter(
        Q(workspace__is_default=True)
        if query.workspace_id is None
        else Q(workspace=query.workspace_id)
    )
    if not query.include_disabled:
        keys = keys.filter(disabled=False)
    if not query.include_expired:
        keys = keys.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=at))
    page = keys.select_related("creator").order_by("-created_at", "-pk")
    found = list(page[query.offset : query.offset + _PAGE_KEYS])
    if (
        not found
        and query.workspace_id is not None
        and not Workspace.objects.filter(account=account_id, pk=query.workspace_id).exists()
    ):
        raise NoSuchWorkspace
    return found


def _run_query(work: Callable[[], T]) -> T:
    """Queries about one key of the caller's account, or all; a key that is not there is 404."""
    try:
        return run_queries(Lane.READ, work)
    except ApiKey.DoesNotExist:
        raise NotFound from None


def _find_key(caller: Caller, key_hash: str) -> ApiKeyQuerySet:
    """The account's inference key of that hash. Raises `NotFound` for what can be no hash."""
    if not _HASH.fullmatch(key_hash):
        raise NotFound
    keys = ApiKey.objects.inference(caller.account_id).filter(hash=key_hash)
    if caller.managed_workspaces is not None:
        keys = keys.filter(workspace__in=caller.managed_workspaces)
    return keys


def _with_usage(key: ApiKey, usage: KeyUsage | None = None) -> JsonObject:
    return serialize_key(key, usage or read_usage(key=key, at=datetime.now(UTC)))


def _create_key(
    caller: Caller,
    body: NewKey,
    models: list[str] | None,
    rate_limits: list[JsonObject] | None,
) -> tuple[ApiKey, str]:
    """The key and its string. Raises `SchemaInvalid` for a workspace or creator of others."""
    chosen = {"pk": body.workspace_id} if body.workspace_id else {"is_default": True}
    members = User.objects.filter(memberships__account=caller.account_id)
    member = members.filter(public_id=body.creator_user_id).values("pk")
    creator = None
    with transaction.atomic():
        # The workspace is not deleted while the key is being made.
        workspace: Any = (
            Workspace.objects.filter(account=caller.account_id, **chosen)
            .annotate(member=Subquery(member[:1]))
            .select_related("account")
            .select_for_update(of=("account", "self"), no_key=True)
            .first()
        )
        if workspace is None:
            raise NoSuchWorkspace
        if body.creator_user_id is not None:
            if workspace.member is None:
                text = "Invalid input: no member of this account"
                raise SchemaInvalid([Issue("creator_user_id", text)])
            creator = User(pk=workspace.member, public_id=body.creator_user_id)
        return create_key(
            account=workspace.account,
            name=body.name,
            workspace=workspace,
            creator=creator,
            limit_nano=None if body.limit is None else usd_to_nano(body.limit),
            limit_reset=body.limit_reset,
            limit_enforcement=body.limit_enforcement,
            include_byok_in_limit=body.include_byok_in_limit,
            expires_at=body.expires_at,
            external_user=body.external.user if body.external else None,
            allowed_models=models,
            allowed_ips=body.allowed_ips,
            rate_limits=rate_limits,
            hedge=body.hedge,
            rescue=body.rescue,
            by=key_actor(caller),
        )
