"""A team's own provider credentials: making, changing, reordering and deleting them.

Every change leaves an audit record, without the key.

A key is tried at its provider before anything is written, outside of any transaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import BigIntegerField, Count, Max, Q, Value

from accounts.byok import mask_key, seal_key
from accounts.models import ApiKey, ByokCredential, Membership, Workspace
from accounts.ports import KeyTrial, higher_apps
from accounts.services.keys import NoSuchWorkspace
from accounts.services.records import Actor, read_fields, record_row
from gateway.http.errors import GatewayError, InvalidRequest, NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import Page
from gateway.http.validation import Issue

_record: Final = partial(record_row, "byok_credential")

# What a record tells. `version` is among them because a new key may have the label of the old one.
FACTS: Final = (
    *("provider", "name", "label", "workspace_id", "disabled", "is_fallback", "sort_order"),
    *("is_required", "is_byok_only"),
    *("allowed_models", "allowed_key_ids", "allowed_user_ids", "key_said", "version"),
)
# All of a workspace's are read with each of its keys.
CREDENTIALS_MAX: Final = 500
_HASHES: Final = "allowed_api_key_hashes"


class CredentialChanged(GatewayError):
    status, error_type = 409, "invalid_request"
    message = "Resource conflict. Please try again later."


class TooManyCredentials(InvalidRequest):
    message = f"An account can have at most {CREDENTIALS_MAX} credentials"


class ProviderKeyRefused(SchemaInvalid):
    """The provider itself says that the key is none of its."""

    def __init__(self, trial: KeyTrial) -> None:
        text = f"Invalid input: {trial.explanation}, so it does not take this key"
        super().__init__([Issue("key", text)])


class CredentialDetails(NamedTuple):
    """A credential, and the hashes of the keys that it is for; None for all keys."""

    row: ByokCredential
    key_hashes: list[str] | None


def list_credentials(
    *, account_id: UUID, workspace_id: UUID | None, provider: str | None, page: Page
) -> tuple[list[CredentialDetails], int]:
    """One page of what serves a workspace, the default one unless named, newest first, and how
    many there are. Raises `NoSuchWorkspace`."""
    place = Q(workspace__is_default=True) if workspace_id is None else Q(workspace=workspace_id)
    rows = ByokCredential.objects.living().filter(account=account_id)
    rows = rows.filter(place | Q(workspace__isnull=True))
    if provider is not None:
        rows = rows.filter(provider=provider)
    found = list(rows.order_by("-created_at", "pk")[page.rows])
    if (
        not found
        and workspace_id is not None
        and not Workspace.objects.filter(account=account_id, pk=workspace_id).exists()
    ):
        raise NoSuchWorkspace
    return _load_many_details(found), rows.count()


def find_credential(account_id: UUID, credential_id: UUID) -> ByokCredential:
    """Raises `NotFound`."""
    row = ByokCredential.objects.living().filter(account=account_id, pk=credential_id).first()
    if row is None:
        raise NotFound
    return row


def load_details(row: ByokCredential) -> CredentialDetails:
    return _load_many_details([row])[0]


def check_with_provider(provider: str, key: str) -> KeyTrial:
    """Ask the provider about the key. A key on which it gives no verdict counts as good.

    Raises `ProviderKeyRefused`.
    """
    trial = higher_apps().try_key(provider, key)
    if trial.verdict == "refused":
        raise ProviderKeyRefused(trial)
    return trial


def create_credential(
    *,
    account_id: UUID,
    workspace_id: UUID | None,
    provider: str,
    key: str,
    trial: KeyTrial,
    by: Actor,
    every_workspace: bool = False,
    **fields: Any,
) -> CredentialDetails:
    """A new credential, last in its section. `key` is cleaned; `fields` has columns and the hashes
    of keys as the API names them. Without a workspace it is the default one's.

    Raises `SchemaInvalid` for a workspace or keys of others and for an only one that is a fallback,
    and `TooManyCredentials`.
    """
    new_id = uuid4()
    with transaction.atomic():
        workspace = _lock_workspace(account_id, workspace_id)
        hashes = fields.pop(_HASHES, None)
        users = fields.get("allowed_user_ids") or ()
        keys = _find_owned(account_id, hashes or (), users)
        _check_users(keys, users)
        row = ByokCredential(
            id=new_id,
            account_id=account_id,
            workspace_id=None if every_workspace else workspace.pk,
            provider=provider,
            **_build_key_columns(new_id, key, trial),
            **fields,
        )
        if hashes is not None:
            row.allowed_key_ids = _resolve_key_ids(keys, hashes)
        _check_section(row)
        row.sort_order, living = find_next_place(row)
        if living >= CREDENTIALS_MAX:
            raise TooManyCredentials
        row.save(force_insert=True)
        _record(by, "created", row, None, read_fields(row, FACTS))
    return CredentialDetails(row, hashes)


def change_credential(
    *,
    row: ByokCredential,
    changes: Mapping[str, Any],
    by: Actor,
    key: str | None = None,
    trial: KeyTrial | None = None,
) -> CredentialDetails:
    """The credential with these fields set, and its key rotated in place where there is a new one.

    `row` is as it was when the caller looked: raises `CredentialChanged` where it is not so any
    more, and `SchemaInvalid` as `create_credential` does.
    """
    before, wanted = read_fields(row, FACTS), dict(changes)
    hashes = wanted.pop(_HASHES, None)
    with transaction.atomic():
        users = wanted.get("allowed_user_ids") or ()
        keys = _find_owned(row.account_id, hashes or (), users, numbers=row.allowed_key_ids or ())
        _check_users(keys, users, row.allowed_user_ids or ())
        if _HASHES in changes:
            wanted["allowed_key_ids"] = None if hashes is None else _resolve_key_ids(keys, hashes)
        moved = {name: value for name, value in wanted.items() if getattr(row, name) != value}
        if key is not None and trial is not None:
            moved |= _build_key_columns(row.pk, key, trial)
        for name, value in moved.items():
            setattr(row, name, value)
        _check_section(row)
        if "is_fallback" in moved:
            moved["sort_order"] = row.sort_order = find_next_place(row)[0]
        if moved:
            _write(row, moved)
            _record(by, "rotated" if key else "updated", row, before, read_fields(row, FACTS))
    return CredentialDetails(row, _find_hashes(keys, row))


def delete_credential(*, row: ByokCredential, by: Actor) -> None:
    """Delete it as its users see it: the row stays without the key. Raises `NotFound` where
    somebody else was faster."""
    before = read_fields(row, FACTS)
    with transaction.atomic():
        if not _wipe(ByokCredential.objects.filter(pk=row.pk)):
            raise NotFound
        _record(by, "deleted", row, before, None)


def wipe_credentials_of(workspace_id: UUID) -> int:
    """Delete a workspace's own credentials; how many there were. In the caller's transaction."""
    return _wipe(ByokCredential.objects.filter(workspace=workspace_id))


def move_credential(*, row: ByokCredential, places: int, by: Actor) -> None:
    """Move it down its section by that many places, up for less than nothing, as far as there are
    some; the others close up. Raises `NotFound` where it is not there any more."""
    with transaction.atomic():
        _lock_workspace(row.account_id, None)
        # The living credentials that are ordered among themselves with this one.
        section = ByokCredential.objects.living().filter(
            account=row.account_id, workspace=row.workspace_id, is_fallback=row.is_fallback
        )
        order = list(section.order_by("sort_order"))
        at = next((at for at, each in enumerate(order) if each.pk == row.pk), None)
        if at is None:
            raise NotFound
        order.insert(max(0, at + places), order.pop(at))
        moving = [(place, each) for place, each in enumerate(order) if each.sort_order != place]
        # No two may have the same place even for a moment, so they go behind all of them first.
        behind = max(each.sort_order for each in order) + 1
        for place, each in moving:
            ByokCredential.objects.filter(pk=each.pk).update(sort_order=behind + place)
        for place, each in moving:
            before = read_fields(each, FACTS)
            each.sort_order = place
            _write(each, {"sort_order": place})
            _record(by, "updated", each, before, read_fields(each, FACTS))


def _check_section(row: ByokCredential) -> None:
    """Raises `SchemaInvalid`: a fallback comes after the shared endpoints, and there are none."""
    if row.is_byok_only and row.is_fallback:
        text = "Invalid input: a fallback credential cannot be the provider's only one"
        raise SchemaInvalid([Issue("is_byok_only", text)])


def find_next_place(row: ByokCredential) -> tuple[int, int]:
    """The place behind the last of the row's section, and how many the account has in all."""
    mine = Q(workspace=row.workspace_id, is_fallback=row.is_fallback)
    if row.workspace_id is None:
        mine = Q(workspace__isnull=True, is_fallback=row.is_fallback)
    found = (
        ByokCredential.objects.living()
        .filter(account=row.account_id)
        .aggregate(last=Max("sort_order", filter=mine), living=Count("pk"))
    )
    return (0 if found["last"] is None else found["last"] + 1), found["living"]


def _write(row: ByokCredential, moved: Mapping[str, Any]) -> None:
    """Raises `CredentialChanged` where the row is not as it was read."""
    row.updated_at = datetime.now(UTC)
    seen = ByokCredential.objects.living().filter(pk=row.pk, version=row.version)
    row.version += 1
    try:
        with transaction.atomic():
            written = seen.update(**moved, version=row.version, updated_at=row.updated_at)
    except IntegrityError as error:
        # The place at the end of the section went to another one.
        raise CredentialChanged from error
    if not written:
        raise CredentialChanged


def _wipe(rows: Any) -> int:
    moved: int = rows.living().update(sealed="", deleted_at=datetime.now(UTC))
    return moved


def _build_key_columns(credential_id: UUID, key: str, trial: KeyTrial) -> JsonObject:
    return {
        "sealed": seal_key(credential_id, key),
        "label": mask_key(key),
        "key_said": trial.explanation[:200],
    }


# --- What is the account's own --------------------------------------------------------------------


def _lock_workspace(account_id: UUID, workspace_id: UUID | None) -> Workspace:
    """The account's workspace of that id, its default one for none. Its row and the account's are
    locked, so that nobody else numbers credentials meanwhile."""
    chosen = {"pk": workspace_id} if workspace_id else {"is_default": True}
    found = (
        Workspace.objects.filter(account=account_id, **chosen)
        .select_related("account")
        .select_for_update(of=("account", "self"), no_key=True)
        .first()
    )
    if found is None:
        raise NoSuchWorkspace
    return found


def _find_owned(
    account_id: UUID,
    hashes: Iterable[str],
    users: Iterable[str],
    *,
    numbers: Iterable[int] = (),
) -> dict[str, int]:
    """Numbers of the account's inference keys by hash: living ones of these hashes, and those of
    these numbers whatever became of them. And 0, which no key has, by each member's id."""
    hashes, users, numbers = list(hashes), list(users), list(numbers)
    if not (hashes or users or numbers):
        return {}
    wanted = Q(hash__in=hashes, deleted_at__isnull=True) | Q(pk__in=numbers)
    keys = ApiKey.objects.filter(wanted, account=account_id, kind=ApiKey.Kind.INFERENCE)
    found = keys.values_list("hash", "pk")
    if not users:
        return dict(found)
    members = Membership.objects.filter(account=account_id, user__public_id__in=users)
    none = Value(0, output_field=BigIntegerField())
    return dict(found.union(members.annotate(none=none).values_list("user__public_id", "none")))


def _check_users(
    own: Mapping[str, int], users: Sequence[str], earlier: Collection[str] = ()
) -> None:
    """Raises `SchemaInvalid` for ids of who is no member of the account. A user who has left since
    may stay named."""
    text = "Invalid input: no member of this account"
    unknown = [at for at, user in enumerate(users) if user not in own and user not in earlier]
    if unknown:
        raise SchemaInvalid([Issue(f"allowed_user_ids.{at}", text) for at in unknown])


def _resolve_key_ids(keys: Mapping[str, int], hashes: Sequence[str]) -> list[int]:
    """The numbers of the keys named, each once. Raises `SchemaInvalid`."""
    unknown = [at for at, each in enumerate(hashes) if each not in keys]
    if unknown:
        text = "Invalid input: no key of this account"
        raise SchemaInvalid([Issue(f"{_HASHES}.{at}", text) for at in unknown])
    return list(dict.fromkeys(keys[each] for each in hashes))


def _load_many_details(rows: Sequence[ByokCredential]) -> list[CredentialDetails]:
    numbers = {number for row in rows for number in row.allowed_key_ids or ()}
    keys = _find_owned(rows[0].account_id, (), (), numbers=numbers) if numbers else {}
    return [CredentialDetails(row, _find_hashes(keys, row)) for row in rows]


def _find_hashes(keys: Mapping[str, int], row: ByokCredential) -> list[str] | None:
    """The hashes that its keys have by now."""
    if row.allowed_key_ids is None:
        return None
    by_number = {number: key_hash for key_hash, number in keys.items()}
    return [by_number[number] for number in row.allowed_key_ids if number in by_number]
