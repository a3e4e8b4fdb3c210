"""Making, changing and revoking API keys."""

from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from accounts.keystring import hash_of, label_of, new_key
from accounts.models import Account, ApiKey, SpendCounter, User, Workspace
from accounts.models.key import ApiKeyQuerySet
from accounts.windows import LIMITED_WINDOW, window_starts


def create_key(
    *,
    account: Account,
    name: str,
    workspace: Workspace | None,
    creator: User | None = None,
    limit_nano: int | None = None,
    limit_reset: str | None = None,
    include_byok_in_limit: bool = False,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key and its string, which is shown this once. Without a workspace it manages."""
    string = new_key(settings.API_KEY_PREFIX)
    kind = ApiKey.Kind.INFERENCE if workspace else ApiKey.Kind.MANAGEMENT
    key = ApiKey.objects.create(
        account=account,
        workspace=workspace,
        creator=creator,
        kind=kind,
        name=name,
        hash=hash_of(string),
        label=label_of(string, settings.API_KEY_PREFIX),
        limit_nano=limit_nano,
        limit_reset=limit_reset,
        include_byok_in_limit=include_byok_in_limit,
        expires_at=expires_at,
    )
    return key, string


def rotate_key(*, key: ApiKey) -> str:
    """A new string for the same key; the old one stops at once. Usage and limits stay."""
    string = new_key(settings.API_KEY_PREFIX)
    key.hash = hash_of(string)
    key.label = label_of(string, settings.API_KEY_PREFIX)
    key.updated_at = datetime.now(UTC)
    key.save(update_fields=["hash", "label", "updated_at"])
    return string


def set_disabled(*, keys: ApiKeyQuerySet, disabled: bool) -> int:
    """Disable or enable keys; every process follows within a second. Returns how many moved."""
    return keys.exclude(disabled=disabled).update(disabled=disabled, updated_at=datetime.now(UTC))


def delete_keys(*, keys: ApiKeyQuerySet) -> int:
    """Delete keys for good, as their users see it; the rows stay, because history names them.

    Every process follows within a second. Returns how many moved.
    """
    now = datetime.now(UTC)
    return keys.filter(deleted_at__isnull=True).update(deleted_at=now, updated_at=now)


def set_limit(*, key: ApiKey, limit_nano: int | None, limit_reset: str | None) -> None:
    """Change what the key may spend; what the window already counted stays counted.

    The account row is locked first, as the ledger writer does, so that no hold is being placed
    against these counters meanwhile.
    """
    now = datetime.now(UTC)
    with transaction.atomic():
        Account.objects.select_for_update().get(pk=key.account_id)
        key.limit_nano, key.limit_reset, key.updated_at = limit_nano, limit_reset, now
        key.save(update_fields=["limit_nano", "limit_reset", "updated_at"])
        mine = SpendCounter.objects.filter(scope=SpendCounter.Scope.KEY, scope_id=str(key.pk))
        mine.update(limit_nano=None)
        window = LIMITED_WINDOW[limit_reset]
        mine.filter(window=window, window_start=window_starts(now)[window]).update(
            limit_nano=limit_nano
        )


def usage_nano(*, key: ApiKey, at: datetime) -> dict[str, int]:
    """What the key spent in each window that contains `at`: total, day, week, month."""
    starts = window_starts(at)
    wanted = Q()
    for window, start in starts.items():
        wanted |= Q(window=window, window_start=start)
    rows = SpendCounter.objects.filter(
        wanted, scope=SpendCounter.Scope.KEY, scope_id=str(key.pk)
    ).values_list("window", "spent_nano")
    return dict.fromkeys(starts, 0) | dict(rows)
