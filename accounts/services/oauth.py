"""Keys for apps by OAuth with PKCE (RFC 7636): somebody approves, and the app exchanges a code.

A code is good for ten minutes and for one key. Five failed exchanges use it up.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils.crypto import salted_hmac

from accounts.models import ApiKey, App, AuthorizationCode, Membership, User, Workspace
from accounts.models.oauth import ORIGIN_CHARS_MAX
from accounts.roles import Action, list_account_roles, list_workspace_roles, may_have_key
from accounts.services.attempts import record_attempt
from accounts.services.keys import create_key, delete_keys
from accounts.services.member_keys import bound_key
from accounts.services.records import Actor, record_row
from gateway.http.errors import (
    GatewayError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    SchemaInvalid,
)
from gateway.http.paging import Page
from gateway.live_settings import settings

_record: Final = partial(record_row, "app")

LIFETIME: Final = timedelta(minutes=10)
FAILURES_MAX: Final = 5
CALLBACK_CHARS_MAX: Final = 2048
# Used and expired codes are kept this long, so that they are refused by their own reason.
_KEPT_FOR: Final = timedelta(days=1)
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1"})
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
# Browsers drop or turn some of the others, so that they go to another host than the one shown.
_URL_CHARACTERS: Final = re.compile(r"[!$-;=?-\[\]_a-z~]+", re.ASCII)
_SIGNATURE_CHARS: Final = 22
NO_CALLBACK: Final = "App without a callback"


class InvalidCode(PermissionDenied):
    message = "Invalid code or code_verifier"


class CodeExpired(PermissionDenied):
    message = "Authorization code expired"


class InvalidMethod(InvalidRequest):
    message = "Invalid code_challenge_method"


class ChallengeNeeded(InvalidRequest):
    message = "A code_challenge with code_challenge_method S256 is needed here"


@dataclass(frozen=True, slots=True)
class AppRequest:
    """What an app asks for. An empty `callback_url` shows the code to the user; an empty
    `challenge` means that the code alone is exchanged."""

    callback_url: str = ""
    challenge: str = ""
    method: str = ""
    key_label: str = ""
    app_name: str = ""
    limit_nano: int | None = None
    limit_reset: str | None = None
    expires_at: datetime | None = None

    @property
    def origin(self) -> str:
        return find_origin(self.callback_url) if self.callback_url else ""


def find_origin(callback_url: str) -> str:
    """Scheme, host and port of a callback; without the port on the user's own machine, where tools
    listen on any. Raises `ValueError` for what is no callback."""
    if len(callback_url) > CALLBACK_CHARS_MAX or not _URL_CHARACTERS.fullmatch(callback_url):
        raise ValueError("odd characters")
    parts = urlsplit(callback_url)
    host, port = (parts.hostname or ""), parts.port
    is_local = host in _LOCAL_HOSTS
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise ValueError("neither https nor local")
    if not _HOST.fullmatch(host) or "@" in parts.netloc:
        raise ValueError("no host")
    origin = f"{parts.scheme}://{host}"
    if port is not None and not is_local:
        origin += f":{port}"
    if len(origin) > ORIGIN_CHARS_MAX:
        raise ValueError("too long")
    return origin


def add_parameter(callback_url: str, name: str, value: str) -> str:
    """The callback with a parameter in its query, beside those it has."""
    parts = urlsplit(callback_url)
    query = [each for each in parse_qsl(parts.query, keep_blank_values=True) if each[0] != name]
    return parts._replace(query=urlencode([*query, (name, value)])).geturl()


def select_usable_workspaces(user: User) -> QuerySet[Workspace]:
    """Where a person may have keys made. That is all workspaces of accounts whose admin he is, and
    of other accounts the default one and those he belongs to."""
    mine = Q(account__memberships__user=user) & (
        Q(is_default=True)
        | Q(account__memberships__role__in=list_account_roles(Action.OTHERS_KEYS))
        | Q(
            memberships__membership__user=user,
            memberships__role__in=list_workspace_roles(Action.OWN_KEYS),
        )
    )
    rows = Workspace.objects.filter(mine).select_related("account").distinct()
    return rows.order_by("account__name", "-is_default", "slug")


def check_challenge(method: str | None) -> None:
    """Raise `ChallengeNeeded` where a weaker proof than the operator wants is going to be asked
    for; None is no challenge."""
    if settings.OAUTH_S256_ONLY and method != AuthorizationCode.Method.S256:
        raise ChallengeNeeded


def authorize_app(
    *, asked: AppRequest, workspace: Workspace, creator: User | None, by: Actor
) -> tuple[AuthorizationCode, str]:
    """A new code and its string, which is shown this once. Raises `SchemaInvalid` where the
    creator's keys may not have so much."""
    limit = {"limit_nano": asked.limit_nano, "limit_reset": asked.limit_reset}
    if issues := bound_key(workspace.pk, creator.pk if creator else None, limit).issues:
        raise SchemaInvalid(issues)
    now, random = datetime.now(UTC), secrets.token_urlsafe(32)
    string = random + _sign(random)
    name = asked.app_name or asked.origin.partition("://")[2] or NO_CALLBACK
    with transaction.atomic():
        (app,) = App.objects.bulk_create(
            [
                App(
                    account_id=workspace.account_id,
                    origin=asked.origin,
                    name=name[:100],
                    authorized_at=now,
                )
            ],
            update_conflicts=True,
            unique_fields=["account", "origin"],
            update_fields=["authorized_at", "revoked_at"],
        )
        code = AuthorizationCode.objects.create(
            code_hash=hash_code(string),
            app=app,
            workspace=workspace,
            creator=creator,
            operator_id=by.operator_id,
            approving_key_id=by.management_key_id,
            challenge=asked.challenge,
            challenge_method=asked.method,
            key_name=asked.key_label or app.name,
            limit_nano=asked.limit_nano,
            limit_reset=asked.limit_reset,
            expires_at=asked.expires_at,
            created_at=now,
        )
        approved = {
            "origin": app.origin,
            "workspace_id": workspace.pk,
            "limit_nano": asked.limit_nano,
            "limit_reset": asked.limit_reset,
            "expires_at": asked.expires_at,
        }
        _record(by, "authorized", app, None, approved)
    return code, string


def is_issued(code: str) -> bool:
    """Whether it was given out here, by the code itself. Codes of an earlier key are not known."""
    return hmac.compare_digest(
        _sign(code[:-_SIGNATURE_CHARS]).encode(),
        code[-_SIGNATURE_CHARS:].encode("utf-8", "replace"),
    )


def exchange_code(*, code: str, verifier: str | None, method: str | None) -> tuple[ApiKey, str]:
    """The key that the code is for, and its string.

    Raises `InvalidCode`, `CodeExpired` and `InvalidMethod`; of exchanges at once one succeeds.
    """
    with transaction.atomic():
        found = AuthorizationCode.objects.filter(code_hash=hash_code(code))
        members = Membership.objects.filter(
            account=OuterRef("app__account"), user=OuterRef("creator")
        )
        approvers = ApiKey.objects.usable(datetime.now(UTC)).filter(pk=OuterRef("approving_key"))
        rows = found.select_related("app", "creator").annotate(
            has_member=Exists(members), has_key=Exists(approvers)
        )
        row = rows.select_for_update(of=("self",), no_key=True).first()
        refusal = _find_refusal(row, verifier, method)
        if row is not None and refusal is None:
            made = _make_key(row)
            if made is not None:
                now = datetime.now(UTC)
                found.update(used_at=now)
                AuthorizationCode.objects.filter(created_at__lt=now - _KEPT_FOR).delete()
                return made
            refusal = InvalidCode()
        # It is raised when this is committed.
        found.update(failures=F("failures") + 1)
    assert refusal is not None
    record_attempt(
        "exchange refused",
        object_type="authorization_code",
        object_id=row.pk if row else "unknown",
        account_id=row.app.account_id if row else None,
        app_id=row.app_id if row else None,
        reason=refusal.text,
    )
    raise refusal


def _find_refusal(row: Any, verifier: str | None, method: str | None) -> GatewayError | None:
    if row is None or row.used_at is not None or row.failures >= FAILURES_MAX:
        return InvalidCode()
    if datetime.now(UTC) - row.created_at > LIFETIME:
        return CodeExpired()
    if method is not None and method != row.challenge_method:
        return InvalidMethod()
    if not row.challenge:
        # A verifier without a challenge: somebody took the challenge away on its way here.
        return InvalidCode() if verifier else None
    given = (verifier or "").encode("utf-8", "surrogatepass")
    if row.challenge_method == AuthorizationCode.Method.S256:
        given = urlsafe_b64encode(sha256(given).digest()).rstrip(b"=")
    return None if hmac.compare_digest(given, row.challenge.encode()) else InvalidCode()


def _make_key(row: Any) -> tuple[ApiKey, str] | None:
    """None where the app was revoked meanwhile or the workspace deleted. Also None where the
    creator left or may have no key there, or the key that approved stopped working."""
    if (
        row.app.revoked_at is not None
        or (row.creator is not None and not row.has_member)
        or (row.approving_key_id is not None and not row.has_key)
    ):
        return None
    # The account's row first, in the order of all who change keys and of the ledger writer.
    workspaces = Workspace.objects.select_related("account").filter(pk=row.workspace_id)
    workspace = workspaces.select_for_update(of=("account", "self"), no_key=True).first()
    if workspace is None:
        return None
    if row.creator is not None and not may_have_key(row.creator_id, workspace):
        return None
    # What members may have was less, perhaps, when the code was given out.
    limit = {"limit_nano": row.limit_nano, "limit_reset": row.limit_reset}
    return create_key(
        account=workspace.account,
        name=row.key_name,
        workspace=workspace,
        creator=row.creator,
        **bound_key(workspace.pk, row.creator_id, limit).fields,
        expires_at=row.expires_at,
        app=row.app,
        by=Actor(operator_id=row.operator_id, management_key_id=row.approving_key_id),
    )


def list_apps(account_id: UUID, page: Page) -> tuple[list[Any], int]:
    """One page of the apps that were not revoked, last authorized first, each with its
    `active_keys`, and how many apps there are."""
    rows = select_apps(account_id)
    return list(rows.order_by("-authorized_at", "-pk")[page.rows]), rows.count()


def select_apps(account_id: UUID) -> QuerySet[Any]:
    """Apps that were not revoked, each with its `active_keys`."""
    now = datetime.now(UTC)
    usable = Q(keys__deleted_at__isnull=True, keys__disabled=False) & (
        Q(keys__expires_at__isnull=True) | Q(keys__expires_at__gt=now)
    )
    apps = App.objects.filter(account_id=account_id, revoked_at__isnull=True)
    return apps.annotate(active_keys=Count("keys", filter=usable))


def find_app(account_id: UUID, app_id: int) -> Any:
    """One of `select_apps`. Raises `NotFound`."""
    app = select_apps(account_id).filter(pk=app_id).first()
    if app is None:
        raise NotFound
    return app


def revoke_app(*, account_id: UUID, app_id: int, by: Actor) -> int:
    """Delete the app's keys and end its codes; how many keys. Raises `NotFound`."""
    now = datetime.now(UTC)
    with transaction.atomic():
        apps = App.objects.filter(account_id=account_id, pk=app_id, revoked_at__isnull=True)
        if not apps.update(revoked_at=now):
            raise NotFound
        AuthorizationCode.objects.filter(app=app_id, used_at__isnull=True).delete()
        deleted = delete_keys(keys=ApiKey.objects.filter(app=app_id), by=by)
        _record(by, "revoked", App.objects.get(pk=app_id), None, {"keys_deleted": deleted})
    return deleted


def _sign(random: str) -> str:
    digest = salted_hmac(
        "authorization code", random.encode("utf-8", "replace"), algorithm="sha256"
    )
    return urlsafe_b64encode(digest.digest()).decode()[:_SIGNATURE_CHARS]


def hash_code(code: str) -> str:
    return sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
