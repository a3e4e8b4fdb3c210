"""What a new key's body names, looked up in the caller's account."""

from typing import Any

from django.db import transaction
from django.db.models import Subquery

from accounts.caller import Caller
from accounts.models import ApiKey, User, Workspace
from accounts.money import usd_to_nano
from accounts.services.keys import NoSuchWorkspace, create_key
from accounts.services.records import key_actor
from accounts.views.bodies.key_body import KeyBody
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue


def make_key(caller: Caller, wanted: KeyBody) -> tuple[ApiKey, str]:
    """The key and its string. Raises `SchemaInvalid` for a workspace or creator of others."""
    with transaction.atomic():
        workspace, creator = _named(caller, wanted)
        return create_key(
            account=workspace.account,
            name=wanted.name,
            workspace=workspace,
            creator=creator,
            limit_nano=None if wanted.limit is None else usd_to_nano(wanted.limit),
            limit_reset=wanted.limit_reset,
            include_byok_in_limit=wanted.include_byok_in_limit,
            expires_at=wanted.expires_at,
            external_user=wanted.external.user if wanted.external else None,
            by=key_actor(caller),
        )


def _named(caller: Caller, wanted: KeyBody) -> tuple[Workspace, User | None]:
    """The account's workspace of that id, its default one when none is named, and the member of
    that id. The workspace is not deleted while the key is being made."""
    chosen = {"pk": wanted.workspace_id} if wanted.workspace_id else {"is_default": True}
    members = User.objects.filter(memberships__account=caller.account_id)
    member = members.filter(public_id=wanted.creator_user_id).values("pk")
    found: Any = (
        Workspace.objects.filter(account=caller.account_id, **chosen)
        .annotate(member=Subquery(member[:1]))
        .select_related("account")
        .select_for_update(of=("account", "self"), no_key=True)
        .first()
    )
    if found is None:
        raise NoSuchWorkspace
    return found, _creator(found.member, wanted.creator_user_id)


def _creator(number: int | None, public_id: str | None) -> User | None:
    if public_id is None:
        return None
    if number is None:
        raise SchemaInvalid([Issue("creator_user_id", "Invalid input: no member of this account")])
    return User(pk=number, public_id=public_id)
