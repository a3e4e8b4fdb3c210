"""Making, changing, rotating and revoking API keys. Every change leaves an audit record.

Those that change take a queryset narrowed to the keys meant. They lock the keys and their accounts'
rows before they look, as the ledger writer does. `at` is the moment of the change, now unless said.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists

from accounts.events.kinds import EventKind
from accounts.events.outbox import record_event
from accounts.keystring import generate_key, hash_key, label_key
from accounts.models import Account, ApiKey, App, FormerHash, User, Workspace
from accounts.models.key import ApiKeyQuerySet
from accounts.services.key_limits import KeyUsage, set_counter_limits
from accounts.services.member_keys import COLUMNS, bound_key
from accounts.services.past_spending import recount_budgets
from accounts.services.records import SYSTEM, Actor, read_fields, record_row
from accounts.services.spend_scopes import end_member_budgets, outdate_limits
from accounts.spending import find_limited_window
from gateway.http.errors import Conflict, SchemaInvalid
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.validation import Issue

_record: Final = partial(record_row, "key")

GRACE_S_MAX: Final = 604_800
_FACTS: Final = (
    *("name", "hash", "label", "kind", "workspace_id", "creator_id", "external_user", "app_id"),
    *("disabled", "scopes", "managed_workspaces", "allowed_models", "allowed_ips", "rate_limits"),
    *("hedge", "rescue"),
    *("limit_nano", "limit_reset", "limit_enforcement", "include_byok_in_limit"),
    *("expires_at", "deleted_at"),
)
_LIMITS: Final = {"limit_nano", "limit_reset", "limit_enforcement", "include_byok_in_limit"}


class NoSuchWorkspace(SchemaInvalid):
    """The workspace named for a key is not one of its account's."""

    def __init__(self) -> None:
        super().__init__([Issue("workspace_id", "Invalid input: no workspace of this account")])


class InternKeyImmovable(Conflict):
    """An intern works in its own workspace; its key goes nowhere else."""

    message = "This key belongs to an intern and stays in its workspace"


def create_key(
    *,
    account: Account,
    name: str,
    workspace: Workspace | None,
    creator: User | None = None,
    limit_nano: int | None = None,
    limit_reset: str | None = None,
    limit_enforcement: str = "block",
    include_byok_in_limit: bool = False,
    expires_at: datetime | None = None,
    external_user: str | None = None,
    app: App | None = None,
    playground_user: User | None = None,
    scopes: Sequence[str] | None = None,
    managed_workspaces: Sequence[str] | None = None,
    allowed_models: Sequence[str] | None = None,
    allowed_ips: Sequence[str] | None = None,
    rate_limits: Sequence[JsonObject] | None = None,
    hedge: bool | None = None,
    rescue: bool | None = None,
    by: Actor = SYSTEM,
) -> tuple[ApiKey, str]:
    """A new key and its string, which is shown this once. Without a workspace it manages."""
    string = generate_key(settings.API_KEY_PREFIX)
    kind = ApiKey.Kind.INFERENCE if workspace else ApiKey.Kind.MANAGEMENT
    with transaction.atomic():
        key = ApiKey.objects.create(
            account=account,
            workspace=workspace,
            creator=creator,
            kind=kind,
            name=name,
            hash=hash_key(string),
            label=label_key(string, settings.API_KEY_PREFIX),
            limit_nano=limit_nano,
            limit_reset=limit_reset,
            limit_enforcement=limit_enforcement,
            include_byok_in_limit=include_byok_in_limit,
            expires_at=expires_at,
            external_user=external_user,
            app=app,
            playground_user=playground_user,
            scopes=scopes,
            managed_workspaces=managed_workspaces,
            allowed_models=allowed_models,
            allowed_ips=allowed_ips,
            rate_limits=rate_limits,
            hedge=hedge,
            rescue=rescue,
        )
        _record(by, "created", key, None, read_fields(key, _FACTS), at=key.created_at)
        whose = f"in workspace {workspace.name}" if workspace else "to manage the account"
        _record_key_event(key, "created", key.created_at, f"It was made {whose}.")
    return key, string


def change_key(
    *,
    keys: ApiKeyQuerySet,
    changes: Mapping[str, Any],
    by: Actor = SYSTEM,
    at: datetime | None = None,
) -> ApiKey:
    """The one key of `keys` with these fields set; a changed limit holds at once, for what is
    counted already. Raises `ApiKey.DoesNotExist`, `NoSuchWorkspace` and `InternKeyImmovable`."""
    return change_key_with_usage(keys=keys, changes=changes, by=by, at=at)[0]


def change_key_with_usage(
    *,
    keys: ApiKeyQuerySet,
    changes: Mapping[str, Any],
    by: Actor = SYSTEM,
    at: datetime | None = None,
) -> tuple[ApiKey, KeyUsage | None]:
    """`change_key`, and what the key spent where its limit was changed (else None)."""
    with transaction.atomic():
        key = keys.living().lock().get()
        return key, _change_one(key, changes, by, at or datetime.now(UTC))[1]


def rotate_key(
    *,
    keys: ApiKeyQuerySet,
    grace_s: int = 0,
    expires_at: datetime | None = None,
    by: Actor = SYSTEM,
    at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """The one key of `keys` with a new string, shown this once. Usage and limits stay.

    Its current string works on for `grace_s` seconds, and no earlier one works any longer than it.
    With `expires_at` the key ends then. Raises `ApiKey.DoesNotExist`.
    """
    assert 0 <= grace_s <= GRACE_S_MAX
    at = at or datetime.now(UTC)
    string, until = generate_key(settings.API_KEY_PREFIX), at + timedelta(seconds=grace_s)
    with transaction.atomic():
        key = keys.living().lock().get()
        FormerHash.objects.create(hash=key.hash, api_key=key, valid_until=until)
        fresh: JsonObject = {
            "hash": hash_key(string),
            "label": label_key(string, settings.API_KEY_PREFIX),
        }
        if expires_at is not None:
            fresh["expires_at"] = expires_at
        _change_one(key, fresh, by, at, action="rotated")
        grace = f"works until {format_time(until)}" if grace_s else "works no longer"
        _record_key_event(key, "rotated", at, f"It has a new string; the former one {grace}.")
    return key, string


def set_disabled(*, keys: ApiKeyQuerySet, disabled: bool, by: Actor = SYSTEM) -> int:
    """Disable or enable keys; every process follows within a second. Returns how many moved."""
    return _change_all(keys, {"disabled": disabled}, by, "updated")


def delete_keys(*, keys: ApiKeyQuerySet, by: Actor = SYSTEM) -> int:
    """Delete keys for good, as their users see it; the rows stay, because history names them.

    Every process follows within a second. Returns how many moved.
    """
    return _change_all(keys, {"deleted_at": datetime.now(UTC)}, by, "deleted")


def _change_all(keys: ApiKeyQuerySet, changes: Mapping[str, Any], by: Actor, action: str) -> int:
    now = datetime.now(UTC)
    with transaction.atomic():
        found = list(keys.living().lock())
        return sum(_change_one(key, changes, by, now, action=action)[0] for key in found)


def _change_one(
    key: ApiKey, changes: Mapping[str, Any], by: Actor, at: datetime, *, action: str = "updated"
) -> tuple[bool, KeyUsage | None]:
    """Set and save what differs, with its record. Whether anything did, and what the key spent
    where its limit was changed. The key is locked."""
    before = read_fields(key, _FACTS)
    moved = [name for name, value in changes.items() if before[name] != value]
    if not moved:
        return False, None
    usage, stood_on = None, find_limited_window(key)
    fields = {name: changes[name] for name in moved} | {"updated_at": at}
    row = ApiKey.objects.filter(pk=key.pk)
    if "workspace_id" in moved:
        if key.intern_id is not None:
            raise InternKeyImmovable
        target = Workspace.objects.filter(pk=changes["workspace_id"], account=key.account_id)
        row = row.filter(Exists(target))
    if not row.update(**fields):
        raise NoSuchWorkspace
    for name, value in fields.items():
        setattr(key, name, value)
    if _LIMITS.intersection(moved):
        usage = set_counter_limits(key=key, at=at, moved=find_limited_window(key) != stood_on)
    if "creator_id" in moved:
        # What the key spent is another member's from here on, whose budgets are others.
        outdate_limits(key.account_id)
        recount_budgets(key.account_id, now=at)
        # What the key holds as well: the ledger writer makes that member's counters anew.
        end_member_budgets(key.account_id, key.creator_id)
    _record(by, action, key, before, read_fields(key, _FACTS), at=at)
    return True, usage


def _record_key_event(
    key: ApiKey, what: Literal["created", "rotated"], at: datetime, text: str
) -> None:
    """For whoever wants to hear of keys, in the transaction of the deed. Those of playgrounds get a
    new string every hour and never leave the console."""
    if key.playground_user_id is not None:
        return
    kind: EventKind = "key.created" if what == "created" else "key.rotated"
    record_event(
        kind,
        # The hash is new each time.
        key=f"{kind}:{key.pk}:{key.hash}",
        title=f'API key "{key.name}" was {what}',
        text=f'API key "{key.name}" ({key.label}) was {what}. {text} '
        "Who holds a management key of the account can disable or delete it.",
        account_id=key.account_id,
        workspace_id=key.workspace_id,
        data={"key_id": key.pk, "key_name": key.name, "key_label": key.label, "kind": key.kind},
        at=at,
    )


# --- Playgrounds of the console -------------------------------------------------------------------

# How long a string of a playground's key works.
_PLAYGROUND_LIFETIME: Final = timedelta(hours=1)
# Other tabs go on with the former string for this long, and ask for the new one within it.
PLAYGROUND_GRACE: Final = timedelta(minutes=10)


class PlaygroundDisabled(Conflict):
    message = (
        "The key of your playground in this workspace is disabled. "
        "Who leads the workspace can enable it on the page Keys."
    )


def issue_playground_key(
    *, workspace: Workspace, person: User, creator: User | None, by: Actor, at: datetime
) -> tuple[ApiKey, str]:
    """The key of that person's playground, one in each workspace, with a new string for an hour.

    `creator` is the person where they are a member of the account. Raises `PlaygroundDisabled`.
    """
    try:
        with transaction.atomic():
            return _renew_or_create(workspace, person, creator, by, at)
    except IntegrityError:
        # Another tab made it in the meantime.
        return _renew_or_create(workspace, person, creator, by, at)


def end_playgrounds(person: User, *, by: Actor) -> None:
    """End what this person's playgrounds call with, former strings too: their sessions ended."""
    at = datetime.now(UTC)
    own = ApiKey.objects.usable(at).filter(playground_user=person)
    for key_id in own.values_list("pk", flat=True):
        FormerHash.objects.filter(api_key=key_id, valid_until__gt=at).update(valid_until=at)
        key = ApiKey.objects.filter(pk=key_id)
        # Deleted meanwhile, it has ended. A string that nobody has keeps the current one from
        # coming back with the next one, whose time of grace it would have.
        with suppress(ApiKey.DoesNotExist):
            rotate_key(keys=key, expires_at=at, by=by, at=at)


def _renew_or_create(
    workspace: Workspace, person: User, creator: User | None, by: Actor, at: datetime
) -> tuple[ApiKey, str]:
    own = ApiKey.objects.filter(playground_user=person, workspace=workspace, deleted_at=None)
    key, expires_at = own.first(), at + _PLAYGROUND_LIFETIME
    if key is None:
        return create_key(
            account=workspace.account,
            name=f"Playground of {person.username}"[:100],
            workspace=workspace,
            creator=creator,
            playground_user=person,
            expires_at=expires_at,
            by=by,
            **bound_key(workspace.pk, creator.pk if creator else None, {}).fields,
        )
    if key.disabled:
        raise PlaygroundDisabled
    # An operator joined the account, or left it; or members' keys have less than before.
    creator_id = creator.pk if creator else None
    bound = bound_key(workspace.pk, creator_id, {name: getattr(key, name) for name in COLUMNS})
    change_key(keys=own, changes={"creator_id": creator_id} | bound.fields, by=by, at=at)
    grace_s = int(PLAYGROUND_GRACE.total_seconds())
    return rotate_key(keys=own, grace_s=grace_s, expires_at=expires_at, by=by, at=at)
