"""/auth/keys: apps get keys by OAuth with PKCE; /auth/apps: which apps an account let have keys."""

from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.authentication import authenticate_counted, authenticate_optional
from accounts.caller import Caller
from accounts.models import ApiKey, AuthorizationCode, User, Workspace
from accounts.rates import guard_lookup, limit_exchanges, limit_wrong_tokens
from accounts.services import oauth
from accounts.services.attempts import record_attempt
from accounts.services.key_limits import read_usages
from accounts.services.keys import NoSuchWorkspace
from accounts.services.records import key_actor
from accounts.views.managed import PAGE, ManagedViewSet, describe_operations, managed_body
from accounts.views.schemas.key import KeyObject, serialize_key
from accounts.views.schemas.oauth import (
    AppObject,
    AuthorizationCodeObject,
    CodeExchange,
    NewAuthorizationCode,
)
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import NotFound, PermissionDenied, RateLimited
from gateway.http.jsonio import JsonObject
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.openapi.components import (
    NO_KEY,
    TEXT,
    Component,
    add_description,
    answer_of,
    component,
    deletion_of,
    list_of,
    obj,
)
from gateway.openapi.errors import error_responses

_TAG: Final = "OAuth"
_APP: Final = OpenApiParameter("app", TEXT, OpenApiParameter.PATH, description="The app's `id`.")
_APP_ID_DIGITS_MAX: Final = 18
_EXCHANGED: Final = Component(
    "CodeExchangeAnswer",
    obj(
        {
            "key": add_description(TEXT, "The key, shown this once."),
            "user_id": {"type": ["string", "null"], "description": "Whose key it is."},
        }
    ),
)
_KEYS: Final = list_of(KeyObject, "AppKeyList")
_operation = describe_operations(_TAG, path=[_APP])


class CannotDelegate(PermissionDenied):
    """A key with limits of its own would escape them by making another one. An app's key would
    escape the app's revocation."""

    message = (
        "This key is limited or an app's and cannot let apps have keys. Use a key without a limit, "
        "expiry or guardrail of its own that no app was given, or a management key."
    )


class CodesViewSet(ManagedViewSet):
    """Any key of the account but an intern's."""

    secret_answers = frozenset({"create"})

    @extend_schema(
        operation_id="createAuthorizationCode",
        summary="Let an app have a key",
        description="What the page `/auth` does after a person agreed: a code that the app "
        "exchanges for a key, once, within ten minutes. An inference key names its own workspace "
        "only, may have no limit, expiry or guardrail of its own, and may not be an app's.",
        tags=[_TAG],
        request={"application/json": component(NewAuthorizationCode)},
        responses={
            200: OpenApiResponse(
                answer_of(AuthorizationCodeObject), description="The code and the app."
            ),
            **error_responses(400, 401, 403, 413, 500),
        },
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        _check_may_delegate(caller)
        body = NewAuthorizationCode.read(managed_body(request))
        oauth.check_challenge(body.code_challenge_method)
        title = request.META.get("HTTP_X_ROUTER_TITLE") or request.META.get("HTTP_X_TITLE") or ""
        wanted = body.build_request(callback_url=body.callback_url, app_name=title.strip())

        def authorize() -> tuple[AuthorizationCode, str]:
            return oauth.authorize_app(
                asked=wanted,
                workspace=_find_workspace(caller, body),
                creator=User(pk=caller.creator_key) if caller.creator_key else None,
                by=key_actor(caller),
            )

        code, string = run_queries(Lane.OPERATOR, authorize)
        return json_response({"data": AuthorizationCodeObject.from_row(code, id=string)})


class ExchangeViewSet(ManagedViewSet):
    """Open to the app that has the code and proves that the code is its own."""

    secret_answers = frozenset({"create"})

    @extend_schema(
        operation_id="exchangeAuthorizationCode",
        summary="Exchange a code for a key",
        description="The key is an ordinary inference key of the account. A code is good for one "
        "key; five failed attempts use it up. Takes no credential.",
        tags=[_TAG],
        auth=NO_KEY,
        request={"application/json": component(CodeExchange)},
        responses={
            200: OpenApiResponse(_EXCHANGED, description="The key, and whose it is."),
            **error_responses(400, 401, 403, 413, 429, 500),
        },
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        authenticate_optional(request)
        body = CodeExchange.read(read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES))

        def exchange() -> tuple[ApiKey, str]:
            return oauth.exchange_code(
                code=body.code, verifier=body.code_verifier, method=body.code_challenge_method
            )

        # Guesses from an address keep nobody there from exchanging a code that was given out.
        is_ours = oauth.is_issued(body.code)
        try:
            key, string = guard_lookup(
                lambda: run_queries(Lane.OPERATOR, exchange),
                limit=limit_exchanges(oauth.hash_code(body.code))
                if is_ours
                else limit_wrong_tokens(request),
                failures=(oauth.InvalidCode, oauth.CodeExpired, oauth.InvalidMethod),
            )
        except RateLimited as refusal:
            reason = refusal.text
            record_attempt("turned away", object_type="authorization_code", reason=reason)
            raise
        user_id = key.creator.public_id if key.creator else None
        return json_response({"key": string, "user_id": user_id})


class AppsViewSet(ManagedViewSet):
    """Apps that people of the account let have keys."""

    @_operation(
        "listApps",
        "List apps",
        "Apps that were let have keys, last authorized first; revoked ones are not among them.",
        list_of(AppObject),
        400,
        parameters=PAGE,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller, page = self.manager(request), parse_page(request.GET)
        return self.answer_page(
            lambda: oauth.list_apps(caller.account_id, page),
            AppObject.from_row,
        )

    @_operation("getApp", "Get an app", "The app.", answer_of(AppObject), 404)
    def retrieve(self, request: HttpRequest, app: str) -> HttpResponseBase:
        caller, app_id = self.manager(request), _read_app_id(app)
        row = run_queries(Lane.READ, lambda: oauth.find_app(caller.account_id, app_id))
        return json_response({"data": AppObject.from_row(row)})

    @_operation(
        "listAppKeys",
        "List an app's keys",
        "Keys that it was given in any workspace, newest first, disabled and expired ones too. "
        "`DELETE /keys/{key_hash}` ends one of them.",
        _KEYS,
        400,
        404,
        parameters=[_APP, *PAGE],
    )
    def list_keys(self, request: HttpRequest, app: str) -> HttpResponseBase:
        caller, app_id, page = self.manager(request), _read_app_id(app), parse_page(request.GET)

        def load() -> JsonObject:
            oauth.find_app(caller.account_id, app_id)
            rows = ApiKey.objects.inference(caller.account_id).filter(app=app_id)
            keys = list(rows.select_related("creator").order_by("-created_at", "-pk")[page.rows])
            usages = read_usages(keys=keys, at=datetime.now(UTC))
            data = [serialize_key(key, usages[key.pk]) for key in keys]
            return {"data": data, "total_count": rows.count()}

        return json_response(run_queries(Lane.READ, load))

    @_operation(
        "revokeApp",
        "Revoke an app",
        "All its keys stop working within a second and are deleted; codes it has not exchanged "
        "are void. It is listed again once somebody authorizes it anew.",
        deletion_of(AppObject),
        404,
    )
    def destroy(self, request: HttpRequest, app: str) -> HttpResponseBase:
        caller, app_id = self.manager(request), _read_app_id(app)
        run_queries(
            Lane.OPERATOR,
            lambda: oauth.revoke_app(
                account_id=caller.account_id, app_id=app_id, by=key_actor(caller)
            ),
        )
        return json_response({"deleted": True})


def _check_may_delegate(caller: Caller) -> None:
    if caller.management:
        return
    has_guardrail = any(each.scope == "key" for each in caller.guardrails)
    has_rates = any(rule.owner.startswith("key:") for rule in caller.rate_rules)
    is_bound = bool(caller.limited or caller.expires_at or caller.allowed_networks)
    if is_bound or has_guardrail or has_rates or caller.intern_id or caller.is_of_app:
        raise CannotDelegate


def _find_workspace(caller: Caller, body: NewAuthorizationCode) -> Workspace:
    """Where the key will live. Raises `NoSuchWorkspace` and `PermissionDenied`."""
    if caller.workspace_id is not None:
        if body.workspace_id not in (None, caller.workspace_id):
            raise PermissionDenied("An inference key lets apps use its own workspace only")
        # It is there: keys of deleted workspaces open no door.
        return Workspace(pk=caller.workspace_id, account_id=caller.account_id)
    chosen: Any = {"pk": body.workspace_id} if body.workspace_id else {"is_default": True}
    workspace = Workspace.objects.filter(account=caller.account_id, **chosen).first()
    if workspace is None:
        raise NoSuchWorkspace
    return workspace


def _read_app_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _APP_ID_DIGITS_MAX):
        raise NotFound
    return int(text)
