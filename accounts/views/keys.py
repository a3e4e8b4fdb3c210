"""POST /keys: a new inference key, its string shown this once."""

import uuid
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from accounts.authentication import management_caller
from accounts.models import Account, User, Workspace
from accounts.money import nano_of
from accounts.services.keys import create_key
from accounts.views.key_body import KeyBody, read_key_body
from accounts.views.key_description import describe_key_creation
from accounts.views.key_objects import key_object
from gateway.db import Lane, run
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, SchemaInvalid
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet


class KeysViewSet(LeanViewSet):
    """Management keys only."""

    @describe_key_creation
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = management_caller(request)
        self.beside = {"user_id": caller.creator_id}
        body = read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
        wanted = read_key_body(body)
        answer = run(Lane.READ, lambda: _created(caller.account_id, wanted))
        return json_response(answer, status=201)

    def database_gone(self) -> GatewayError:
        return GatewayError()


def _created(account_id: uuid.UUID, wanted: KeyBody) -> dict[str, Any]:
    account = Account.objects.get(pk=account_id)
    key, string = create_key(
        account=account,
        name=wanted.name,
        workspace=_workspace(account, wanted.workspace_id),
        creator=_creator(account, wanted.creator_user_id),
        limit_nano=None if wanted.limit is None else nano_of(wanted.limit),
        limit_reset=wanted.limit_reset,
        include_byok_in_limit=wanted.include_byok_in_limit,
        expires_at=wanted.expires_at,
    )
    return {"data": key_object(key, datetime.now(UTC)), "key": string}


def _workspace(account: Account, wanted: uuid.UUID | None) -> Workspace:
    """The account's workspace of that id, its default one when none is named."""
    mine = account.workspaces.all()
    found = (mine.filter(pk=wanted) if wanted else mine.filter(is_default=True)).first()
    if found is None:
        raise SchemaInvalid([Issue("workspace_id", "Invalid input: no workspace of this account")])
    return found


def _creator(account: Account, public_id: str | None) -> User | None:
    if public_id is None:
        return None
    member = User.objects.filter(memberships__account=account, public_id=public_id).first()
    if member is None:
        raise SchemaInvalid([Issue("creator_user_id", "Invalid input: no member of this account")])
    return member
