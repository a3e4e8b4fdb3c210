"""/vault: secrets bound to host names, of a workspace or of one of its interns. Values are taken
and never given."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from accounts.caller import Caller
from accounts.services.records import key_actor
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import DatabaseGone, GatewayError, NotFound
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.responses import build_error_response, json_response, log
from gateway.limits.limits import MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
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
from interns.views import vault_description as described
from interns.views.base import InternViewSet, with_deadline
from interns.views.vault_body import BODY_BYTES_MAX, read_name, read_names, read_page, read_secret

T = TypeVar("T")
_SOURCE: Final = "router_vault"
# What interns say in words of their own.
_MESSAGES: Final[Mapping[type[GatewayError], str]] = {
    InternNotFound: NotFound.message,
    OperationTimedOut: "Operation timed out. Please try again later.",
}


class _VaultViewSet(InternViewSet):
    """The gate of interns; refusals without metadata."""

    def caller(self, request: HttpRequest, *, writes: bool = False) -> Caller:
        caller = authorize_caller(request)
        if writes and not caller.vault_writes_enabled:
            raise VaultWritesOff
        _count_request(caller)
        return caller

    def database_gone(self) -> GatewayError:
        return DatabaseGone()

    def _failure(self, request: HttpRequest, error: BaseException) -> HttpResponseBase:
        log.error("%s %s failed", request.method, request.path_info, exc_info=error)
        return self.refusal(request, GatewayError())

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        message = _MESSAGES.get(type(error), error.text)
        body = {"error": {"code": error.status, "message": message}}
        return build_error_response(error, body, status=error.status)


class WorkspaceSecretsViewSet(_VaultViewSet):
    """Secrets of the key's workspace. An intern's own key does not see them here."""

    @described.listing
    @with_deadline
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self._caller(request)
        page = read_page(request.GET.dict())
        rows, more = _read(lambda: read_secrets_page(filter_secrets(_filter_shared(caller)), page))
        return json_response({"data": list(map(_serialize, rows)), "has_more": more})

    @described.storing
    @with_deadline
    def update(self, request: HttpRequest, name: str) -> HttpResponseBase:
        caller = self._caller(request, writes=True)
        stored = read_secret(name, _read_body(request))
        row = _write(lambda: _put_shared(caller, stored))
        return json_response({"data": _serialize(row)})

    @described.deletion
    @with_deadline
    def destroy(self, request: HttpRequest, name: str) -> HttpResponseBase:
        caller = self._caller(request, writes=True)
        wanted = read_name(name)
        secrets = filter_secrets(_filter_shared(caller))
        _write(lambda: delete_secret(secrets=secrets, name=wanted, **_audit_fields(caller)))
        return _answer_nothing()

    def _caller(self, request: HttpRequest, *, writes: bool = False) -> Caller:
        caller = self.caller(request, writes=writes)
        if caller.intern_id is not None:
            raise NotFound
        return caller


class InternSecretsViewSet(_VaultViewSet):
    """Secrets of one intern. Whoever may change the intern may change them."""

    @described.listing_of_intern
    @with_deadline
    def list(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = self.caller(request)
        page = read_page(request.GET.dict())
        found = get_visible_intern(caller, intern_id)
        rows, more = _read(lambda: read_secrets_page(filter_secrets(_filter_private(found)), page))
        return json_response({"data": list(map(_serialize, rows)), "has_more": more})

    @described.storing_in_intern
    @with_deadline
    def update(self, request: HttpRequest, intern_id: str, name: str) -> HttpResponseBase:
        caller = self.caller(request, writes=True)
        stored = read_secret(name, _read_body(request))
        found = _get_editable_intern(caller, intern_id)
        row = _write(
            partial(
                put_secret, vaults=_filter_private(found), stored=stored, **_audit_fields(caller)
            )
        )
        return json_response({"data": _serialize(row)})

    @described.deletion_in_intern
    @with_deadline
    def destroy(self, request: HttpRequest, intern_id: str, name: str) -> HttpResponseBase:
        caller = self.caller(request, writes=True)
        wanted = read_name(name)
        secrets = filter_secrets(_filter_private(_get_editable_intern(caller, intern_id)))
        _write(lambda: delete_secret(secrets=secrets, name=wanted, **_audit_fields(caller)))
        return _answer_nothing()

    @described.copying
    @with_deadline
    def copy(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = self.caller(request, writes=True)
        names = read_names(_read_body(request))
        found = _get_editable_intern(caller, intern_id)
        rows = _write(
            lambda: copy_secrets(
                source=_filter_shared(caller),
                vault=_get_vault(found),
                names=names,
                **_audit_fields(caller),
            )
        )
        return json_response({"data": list(map(_serialize, rows))})

    @described.effective
    @with_deadline
    def effective(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        caller = self.caller(request)
        page = read_page(request.GET.dict())
        found = get_visible_intern(caller, intern_id)
        rows = _read(lambda: read_effective_secrets(found))
        shown = [_serialize(row) | {"scope": row.scope} for row in rows[page.rows]]
        return json_response({"data": shown, "has_more": len(rows) > page.offset + page.limit})

    @described.connections
    @with_deadline
    def connections(self, request: HttpRequest, intern_id: str) -> HttpResponseBase:
        found = get_visible_intern(self.caller(request), intern_id)
        keys = _read(lambda: list_connections(found.pk))
        return json_response({"data": [{"key": key} for key in keys]})


class CopyViewSet(InternSecretsViewSet):
    """`copy` is a name like any other, too: it can be stored and deleted."""

    def dispatch(self, request: HttpRequest, *args: Any, **path: Any) -> HttpResponseBase:
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
    found = get_visible_intern(caller, intern_id)
    require_editor(caller, found)
    return found


def _get_vault(intern: Intern) -> Vault:
    """Raises `NotFound` for an intern whose vault is not there yet, or any more."""
    found: Vault | None = getattr(intern, "vault", None)
    if found is None:
        raise NotFound
    return found


def _filter_shared(caller: Caller) -> "QuerySet[Vault]":
    return Vault.objects.filter(workspace=caller.workspace_id, intern__isnull=True)


def _filter_private(intern: Intern) -> "QuerySet[Vault]":
    return Vault.objects.filter(intern=intern.pk)


def _audit_fields(caller: Caller) -> JsonObject:
    return {"account_id": caller.account_id, "by": key_actor(caller)}


def _read_body(request: HttpRequest) -> Mapping[str, Any]:
    return read_object(request, bytes_max=BODY_BYTES_MAX)


def _count_request(caller: Caller) -> None:
    if settings.RATE_VAULT:
        limit = Limit(f"vault:{caller.account_id}", settings.RATE_VAULT, MINUTE_S)
        taken = rate_limiter().take(limit)
        if isinstance(taken, Exceeded):
            raise build_refusal(taken, source=_SOURCE)


def _read(work: Callable[[], T]) -> T:
    return run_queries(Lane.READ, work)


def _write(work: Callable[[], T]) -> T:
    return run_queries(Lane.OPERATOR, work)


def _answer_nothing() -> HttpResponse:
    response = HttpResponse(status=204)
    del response.headers["Content-Type"]
    return response


def _serialize(row: Any) -> JsonObject:
    """Every field is present; the value is in none of them."""
    return {
        "name": row.name,
        "hosts": row.hosts,
        "fingerprint": row.fingerprint,
        "created_at": format_time(row.created_at),
    }
