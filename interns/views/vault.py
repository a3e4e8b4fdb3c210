"""/vault: secrets bound to host names, of a workspace or of one of its interns. Values are taken
and never given."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel

from accounts.caller import Caller
from accounts.services.records import key_actor
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import DatabaseGone, GatewayError, NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.responses import build_error_response, json_response, log
from gateway.limits.limits import MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
from gateway.openapi.components import (
    FLAG,
    TEXT,
    WHOLE,
    Component,
    add_description,
    answer_of,
    array,
    component,
    obj,
)
from gateway.openapi.errors import error_responses
from interns.access import authorize_caller, get_visible_intern, require_editor
from interns.errors import InternNotFound, OperationTimedOut
from interns.models import Intern, Vault, VaultSecret
from interns.vault.effective_secrets import read_effective_secrets
from interns.vault.secrets import (
    SecretInput,
    VaultWritesOff,
    copy_secrets,
    delete_secret,
    filter_secrets,
    put_secret,
    read_secrets_page,
)
from interns.vault.service import get_workspace_vault, list_connections
from interns.views.base import INTERN_ID, InternViewSet, with_deadline
from interns.views.schemas.vault import (
    BODY_BYTES_MAX,
    LISTED_MAX,
    NAME_SCHEMA,
    OFFSET_MAX,
    EffectiveSecretObject,
    InternConnection,
    NewVaultSecret,
    VaultCopy,
    VaultSecretObject,
    read_name,
    read_page,
    read_secret,
)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
VAULT_ERROR: Final = Component(
    "VaultError",
    obj({"error": obj({"code": add_description(WHOLE, "The HTTP status."), "message": TEXT})}),
)
_LIST: Final = Component(
    "VaultSecretList", obj({"data": array(VaultSecretObject), "has_more": FLAG})
)
_EFFECTIVE_LIST: Final = Component(
    "EffectiveSecretList", obj({"data": array(EffectiveSecretObject), "has_more": FLAG})
)
_PAGE: Final = (
    OpenApiParameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": LISTED_MAX, "default": LISTED_MAX}
    ),
    OpenApiParameter(
        "offset", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0}
    ),
)
_NAME: Final = OpenApiParameter(
    "name",
    {"type": "string", **NAME_SCHEMA},
    OpenApiParameter.PATH,
    description="The secret's name.",
)
# What interns say in words of their own.
_MESSAGES: Final[Mapping[type[GatewayError], str]] = {
    InternNotFound: NotFound.message,
    OperationTimedOut: "Operation timed out. Please try again later.",
}


def _operation(
    operation_id: str,
    summary: str,
    description: str,
    answer: Component | None,
    *statuses: int,
    body: type[BaseModel] | None = None,
    parameters: Sequence[OpenApiParameter],
) -> Callable[[F], F]:
    """Describes an operation in the OpenAPI document."""
    refusals = [400, 401, 403, 404, 408, 500, 503, *statuses, *([413] if body else [])]
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=f"{description} Takes an inference key.",
        tags=["Vault"],
        parameters=list(parameters),
        request=None if body is None else {"application/json": component(body)},
        responses={
            204 if answer is None else 200: OpenApiResponse(answer, description=description),
            **error_responses(*refusals, body=VAULT_ERROR),
        },
    )


class _VaultViewSet(InternViewSet):
    """The gate of interns; refusals without metadata."""

    outage_error = DatabaseGone

    def caller(self, request: HttpRequest, *, writes: bool = False) -> Caller:
        caller = authorize_caller(request)
        if writes and not caller.vault_writes_enabled:
            raise VaultWritesOff
        if settings.RATE_VAULT:
            limit = Limit(f"vault:{caller.account_id}", settings.RATE_VAULT, MINUTE_S)
            taken = rate_limiter().take(limit)
            if isinstance(taken, Exceeded):
                raise build_refusal(taken, source="router_vault")
        return caller

    def _failure(self, request: HttpRequest, error: BaseException) -> HttpResponseBase:
        log.error("%s %s failed", request.method, request.path_info, exc_info=error)
        return self.refusal(request, GatewayError())

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        message = _MESSAGES.get(type(error), error.text)
        body = {"error": {"code": error.status, "message": message}}
        return build_error_response(error, body, status=error.status)


class WorkspaceSecretsViewSet(_VaultViewSet):
    """Secrets of the key's workspace. An intern's own key does not see them here."""

    @_operation(
        "listVaultSecrets",
        "List secrets",
        "The secrets of the key's workspace, sorted by name, without their values.",
        _LIST,
        parameters=_PAGE,
    )
    @with_deadline
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self._caller(request)
        page = read_page(request.GET.dict())
        rows, more = _read(lambda: read_secrets_page(filter_secrets(_filter_shared(caller)), page))
        return json_response(
            {"data": list(map(VaultSecretObject.from_row, rows)), "has_more": more}
        )

    @_operation(
        "putVaultSecret",
        "Store a secret",
        "The secret as it is now; one of the same name is replaced.",
        answer_of(VaultSecretObject),
        body=NewVaultSecret,
        parameters=[_NAME],
    )
    @with_deadline
    def update(self, request: HttpRequest, name: str) -> HttpResponseBase:
        caller = self._caller(request, writes=True)
        stored = read_secret(name, _read_body(request))
        row = _write(lambda: _put_shared(caller, stored))
        return json_response({"data": VaultSecretObject.from_row(row)})

    @_operation(
        "deleteVaultSecret",
        "Delete a secret",
        "Gone, its value for good; copies in interns' vaults stay.",
        None,
        parameters=[_NAME],
    )
    @with_deadline
    def destroy(self, request: HttpRequest, name: str) -> HttpResponseBase:
        caller = self._caller(request, writes=True)
        secret_name = read_name(name)
        secrets = filter_secrets(_filter_shared(caller))
        _write(lambda: delete_secret(secrets=secrets, name=secret_name, **_audit_fields(caller)))
        return _answer_nothing()

    def _caller(self, request: HttpRequest, *, writes: bool = False) -> Caller:
        caller = self.caller(request, writes=writes)
        if caller.intern_id is not None:
            raise NotFound
        return caller


class InternSecretsViewSet(_VaultViewSet):
    """Secrets of one intern. Whoever may change the intern may change them."""

    @_operation(
        "listInternSecrets",
        "List an intern's secrets",
        "The secrets in the intern's own vault, sorted by name, without their values.",
        _LIST,
        parameters=[INTERN_ID, *_PAGE],
    )
    @with_deadline
    def list(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = self.caller(request)
        page = read_page(request.GET.dict())
        intern = get_visible_intern(caller, intern_id)
        rows, more = _read(lambda: read_secrets_page(filter_secrets(_filter_private(intern)), page))
        return json_response(
            {"data": list(map(VaultSecretObject.from_row, rows)), "has_more": more}
        )

    @_operation(
        "putInternSecret",
        "Store a secret for an intern",
        "The secret as it is now; it comes before others of its name.",
        answer_of(VaultSecretObject),
        body=NewVaultSecret,
        parameters=[INTERN_ID, _NAME],
    )
    @with_deadline
    def update(self, request: HttpRequest, intern_id: str, name: str) -> HttpResponseBase:
        caller = self.caller(request, writes=True)
        stored = read_secret(name, _read_body(request))
        intern = _get_editable_intern(caller, intern_id)
        row = _write(
            partial(
                put_secret, vaults=_filter_private(intern), stored=stored, **_audit_fields(caller)
            )
        )
        return json_response({"data": VaultSecretObject.from_row(row)})

    @_operation(
        "deleteInternSecret",
        "Delete an intern's secret",
        "Gone, its value for good.",
        None,
        parameters=[INTERN_ID, _NAME],
    )
    @with_deadline
    def destroy(self, request: HttpRequest, intern_id: str, name: str) -> HttpResponseBase:
        caller = self.caller(request, writes=True)
        secret_name = read_name(name)
        secrets = filter_secrets(_filter_private(_get_editable_intern(caller, intern_id)))
        _write(lambda: delete_secret(secrets=secrets, name=secret_name, **_audit_fields(caller)))
        return _answer_nothing()

    @_operation(
        "copyInternSecrets",
        "Copy secrets to an intern",
        "The workspace's secrets of these names as the intern has them now, all or none of them.",
        Component("VaultCopyAnswer", obj({"data": array(VaultSecretObject)})),
        409,
        body=VaultCopy,
        parameters=[INTERN_ID],
    )
    @with_deadline
    def copy(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = self.caller(request, writes=True)
        names = VaultCopy.read(_read_body(request)).names
        # None where it is not there yet, or any more.
        vault: Vault | None = getattr(_get_editable_intern(caller, intern_id), "vault", None)
        if vault is None:
            raise NotFound
        rows = _write(
            lambda: copy_secrets(
                source=_filter_shared(caller),
                vault=vault,
                names=names,
                **_audit_fields(caller),
            )
        )
        return json_response({"data": list(map(VaultSecretObject.from_row, rows))})

    @_operation(
        "listEffectiveSecrets",
        "List what an intern can use",
        "For each name the secret that counts: the intern's own, else that of the vault it "
        "borrows, else the workspace's.",
        _EFFECTIVE_LIST,
        parameters=[INTERN_ID, *_PAGE],
    )
    @with_deadline
    def effective(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = self.caller(request)
        page = read_page(request.GET.dict())
        intern = get_visible_intern(caller, intern_id)
        rows = _read(lambda: read_effective_secrets(intern))
        return json_response(
            {
                "data": list(map(EffectiveSecretObject.from_row, rows[page.rows])),
                "has_more": len(rows) > page.offset + page.limit,
            }
        )

    @_operation(
        "listInternVaultConnections",
        "List an intern's connections",
        "The connections whose credentials the intern's vault holds.",
        Component("InternConnectionList", obj({"data": array(InternConnection)})),
        parameters=[INTERN_ID],
    )
    @with_deadline
    def connections(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        intern = get_visible_intern(self.caller(request), intern_id)
        keys = _read(lambda: list_connections(intern.pk))
        return json_response({"data": [{"key": key} for key in keys]})


class CopyViewSet(InternSecretsViewSet):
    """`copy` is a name like any other, too: it can be stored and deleted."""

    def dispatch(self, request: HttpRequest, *args: object, **path: object) -> HttpResponseBase:
        if request.method in {"PUT", "DELETE"}:
            self.action_map = {**self.action_map, "put": "update", "delete": "destroy"}
            path["name"] = "copy"
        return super().dispatch(request, *args, **path)


def _put_shared(caller: Caller, stored: SecretInput) -> VaultSecret:
    """A workspace's vault is made with its first secret."""
    assert caller.workspace_id is not None, "an inference key is in one"
    store = partial(
        put_secret, vaults=_filter_shared(caller), stored=stored, **_audit_fields(caller)
    )
    try:
        return store()
    except NotFound:
        get_workspace_vault(caller.workspace_id)
        return store()


def _get_editable_intern(caller: Caller, intern_id: str) -> Intern:
    intern = get_visible_intern(caller, intern_id)
    require_editor(caller, intern)
    return intern


def _filter_shared(caller: Caller) -> "QuerySet[Vault]":
    return Vault.objects.filter(workspace=caller.workspace_id, intern__isnull=True)


def _filter_private(intern: Intern) -> "QuerySet[Vault]":
    return Vault.objects.filter(intern=intern.pk)


def _audit_fields(caller: Caller) -> JsonObject:
    return {"account_id": caller.account_id, "by": key_actor(caller)}


def _read_body(request: HttpRequest) -> Mapping[str, Any]:
    return read_object(request, bytes_max=BODY_BYTES_MAX)


def _read(work: Callable[[], T]) -> T:
    return run_queries(Lane.READ, work)


def _write(work: Callable[[], T]) -> T:
    return run_queries(Lane.OPERATOR, work)


def _answer_nothing() -> HttpResponse:
    response = HttpResponse(status=204)
    del response.headers["Content-Type"]
    return response
