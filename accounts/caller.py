"""Who is calling: everything the hot path wants to know of a key, read in one query."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db.models import Exists, OuterRef

from accounts.models import Account, ApiKey, Membership, Workspace

ProviderSort = Literal["price", "throughput", "latency", "exacto"]


@dataclass(frozen=True, slots=True)
class Caller:
    """A key as it stood when it was read. `creator_left` means the creator is no member any more.

    `workspace_id` is None for management keys. `allowed_providers` and `ignored_providers` are the
    account's own lists; None allows every provider. `disabled_server_tools` is the workspace's.
    """

    key_id: int
    key_hash: str
    management: bool
    account_id: uuid.UUID
    workspace_id: uuid.UUID | None
    creator_id: str | None
    creator_left: bool
    disabled: bool
    expires_at: datetime | None
    default_text_model: str
    default_provider_sort: ProviderSort | None = None
    allowed_providers: tuple[str, ...] | None = None
    ignored_providers: tuple[str, ...] = ()
    disabled_server_tools: frozenset[str] = frozenset()

    def usable(self, now: datetime) -> bool:
        return not self.disabled and (self.expires_at is None or self.expires_at > now)


def read_caller(key_hash: str) -> Caller | None:
    """The caller behind the hash of a key's string, or of a former one in its grace period.

    None when there is no such key (or it was deleted).
    """
    key = _keys().of_string(key_hash).first()
    if key is not None and key.hash != key_hash:
        key = _former(key_hash)
    if key is None:
        return None
    creator = key.creator
    return Caller(
        key_id=key.pk,
        key_hash=key_hash,
        management=key.is_management,
        account_id=key.account_id,
        workspace_id=key.workspace_id,
        creator_id=creator.public_id if creator else None,
        creator_left=creator is not None and not key.creator_stays,
        disabled=key.disabled,
        expires_at=key.expires_at,
        **_wishes(key.account, key.workspace),
    )


def _keys() -> Any:
    """Living keys of living workspaces with all that a caller is made of, in one query."""
    member = Membership.objects.filter(account=OuterRef("account"), user=OuterRef("creator"))
    return (
        ApiKey.objects.living()
        .filter(workspace__deleted_at__isnull=True)
        .select_related("account", "workspace", "creator")
        .annotate(creator_stays=Exists(member))
    )


def _former(key_hash: str) -> Any:
    """The key that was rotated away from this string; it expires when its grace period ends."""
    key = _keys().formerly(key_hash).first()
    if key is not None:
        key.expires_at = min(key.string_until, key.expires_at or key.string_until)
    return key


def _wishes(account: Account, workspace: Workspace | None) -> dict[str, Any]:
    """What account and workspace have to say about every request."""
    return {
        "default_text_model": workspace.default_text_model if workspace else "",
        "default_provider_sort": workspace.default_provider_sort if workspace else None,
        "allowed_providers": tuple(account.allowed_providers or ()) or None,
        "ignored_providers": tuple(account.ignored_providers or ()),
        "disabled_server_tools": frozenset(
            (workspace.disabled_server_tools or ()) if workspace else ()
        ),
    }
