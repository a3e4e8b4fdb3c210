"""What a new key's body names, looked up in the caller's account."""

from django.db import transaction

from accounts.caller import Caller
from accounts.models import ApiKey, User, Workspace
from accounts.money import nano_of
from accounts.services.keys import NoSuchWorkspace, create_key
from accounts.services.records import by_key
from accounts.views.key_body import KeyBody
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue


def make_key(caller: Caller, wanted: KeyBody) -> tuple[ApiKey, str]:
    """The key and its string. Raises `SchemaInvalid` for a workspace or creator of others."""
    with transaction.atomic():
        workspace = _workspace(caller, wanted)
        return create_key(
            account=workspace.account,
            name=wanted.name,
            workspace=workspace,
            creator=_creator(caller, wanted.creator_user_id),
            limit_nano=None if wanted.limit is None else nano_of(wanted.limit),
            limit_reset=wanted.limit_reset,
            include_byok_in_limit=wanted.include_byok_in_limit,
            expires_at=wanted.expires_at,
            by=by_key(caller),
        )


def _workspace(caller: Caller, wanted: KeyBody) -> Workspace:
    """The account's workspace of that id, its default one when none is named; not deleted while
    the key is being made."""
    chosen = {"pk": wanted.workspace_id} if wanted.workspace_id else {"is_default": True}
    found = (
        Workspace.objects.filter(account=caller.account_id, **chosen)
        .select_related("account")
        .select_for_update(of=("account", "self"), no_key=True)
        .first()
    )
    if found is None:
        raise NoSuchWorkspace
    return found


def _creator(caller: Caller, public_id: str | None) -> User | None:
    if public_id is None:
        return None
    members = User.objects.filter(memberships__account=caller.account_id)
    member = members.filter(public_id=public_id).first()
    if member is None:
        raise SchemaInvalid([Issue("creator_user_id", "Invalid input: no member of this account")])
    return member
