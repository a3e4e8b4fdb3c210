"""Who is calling: everything the hot path wants to know of a key, read in one query."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from accounts.models import ApiKey, Membership


@dataclass(frozen=True, slots=True)
class Caller:
    """A key as it stood when it was read. `creator_left` means the creator is no member any more.

    `workspace_id` is None for management keys.
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

    def usable(self, now: datetime) -> bool:
        return not self.disabled and (self.expires_at is None or self.expires_at > now)


def read_caller(key_hash: str) -> Caller | None:
    """The caller behind a key's hash, or None when there is no such key (or it was deleted)."""
    key = (
        ApiKey.objects.filter(hash=key_hash, deleted_at__isnull=True)
        .select_related("workspace", "creator")
        .first()
    )
    if key is None:
        return None
    creator = key.creator
    left = (
        creator is not None
        and not Membership.objects.filter(account_id=key.account_id, user=creator).exists()
    )
    return Caller(
        key_id=key.pk,
        key_hash=key_hash,
        management=key.is_management,
        account_id=key.account_id,
        workspace_id=key.workspace_id,
        creator_id=creator.public_id if creator else None,
        creator_left=left,
        disabled=key.disabled,
        expires_at=key.expires_at,
        default_text_model=key.workspace.default_text_model if key.workspace else "",
    )
