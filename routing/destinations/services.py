"""Destinations: listing, making, changing and deleting them.

Every change leaves an audit record, without the config.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from django.db import transaction

from accounts.events.outbox import record_event
from accounts.models import ApiKey, Workspace
from accounts.services.keys import NoSuchWorkspace
from accounts.services.records import Actor, read_fields, record_row
from gateway.http.errors import Conflict, InvalidRequest, NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import Page
from gateway.http.validation import Issue
from gateway.sealing import UnsealError
from routing.destinations.config import (
    check_config,
    check_kept_secrets,
    mask_secrets,
    merge_config,
    seal_secrets,
    split_config,
    unseal_secrets,
)
from routing.destinations.models import Destination
from routing.destinations.senders import SENDERS
from routing.destinations.senders.interface import Sender

_record: Final = partial(record_row, "destination")

PER_TYPE_MAX: Final = 5
# What a record tells. `version` is among them because a record does not show changes of a config.
FACTS: Final = (
    *("type", "name", "workspace_id", "enabled", "privacy_mode", "sampling_rate", "api_key_ids"),
    *("filter_rules", "regions", "broadcast_generation_cost"),
    *("broadcast_generation_cost_allocation", "broadcast_generation_identity"),
    *("broadcast_generation_request_context", "version"),
)
_HASHES: Final = "api_key_hashes"


class UnsupportedType(InvalidRequest):
    message = "Unsupported destination type"


class TooManyDestinations(Conflict):
    message = f"A maximum of {PER_TYPE_MAX} destinations per type is allowed"


class DestinationDetails(NamedTuple):
    """A destination, its config with masked secrets, and the hashes of its keys; None for all. One
    that does not open under this master key is without its secrets."""

    row: Destination
    config: JsonObject
    key_hashes: list[str] | None
    is_open: bool = True


def find_sender(type_name: str) -> Sender[Any]:
    """Raises `UnsupportedType`."""
    sender = SENDERS.get(type_name)
    if sender is None:
        raise UnsupportedType
    return sender


def list_destinations(
    *, account_id: UUID, workspace_id: UUID | None, page: Page
) -> tuple[list[DestinationDetails], int]:
    """One page of a workspace's, the default one unless named, newest first, and how many there
    are. Raises `NoSuchWorkspace`."""
    place = {"workspace__is_default": True} if workspace_id is None else {"workspace": workspace_id}
    rows = Destination.objects.filter(account=account_id, **place)
    found = list(rows.order_by("-created_at", "pk")[page.rows])
    if not found and workspace_id is not None:
        _find_workspace(account_id, workspace_id)
    return _load_many_details(found), rows.count()


def find_destination(account_id: UUID, destination_id: UUID) -> Destination:
    """Raises `NotFound`."""
    row = Destination.objects.filter(account=account_id, pk=destination_id).first()
    if row is None:
        raise NotFound
    return row


def load_details(row: Destination) -> DestinationDetails:
    return _load_many_details([row])[0]


def load_config(row: Destination) -> JsonObject:
    """The config with its secrets. Raises `UnsealError`."""
    config: JsonObject = row.config
    return config | unseal_secrets(row.pk, row.sealed)


def _open_secrets(row: Destination) -> JsonObject | None:
    """None where they were sealed under another master key."""
    try:
        return unseal_secrets(row.pk, row.sealed)
    except UnsealError:
        return None


def create_destination(
    *,
    account_id: UUID,
    workspace_id: UUID | None,
    type: str,
    config: Mapping[str, Any],
    by: Actor,
    **fields: Any,
) -> DestinationDetails:
    """A new destination; without a workspace it is the default one's. `fields` are columns, and the
    hashes of keys as the API names them.

    Raises `UnsupportedType`, `SchemaInvalid`, `NoSuchWorkspace` and `TooManyDestinations`.
    """
    new_id = uuid4()
    shown, secrets = split_config(check_config(find_sender(type).config, config))
    with transaction.atomic():
        workspace = _find_workspace(account_id, workspace_id, lock=True)
        hashes = fields.pop(_HASHES, None)
        row = Destination(
            id=new_id,
            account_id=account_id,
            workspace_id=workspace.pk,
            type=type,
            config=shown,
            sealed=seal_secrets(new_id, secrets),
            api_key_ids=_find_key_ids(account_id, hashes),
            **fields,
        )
        if Destination.objects.filter(workspace=workspace, type=type).count() >= PER_TYPE_MAX:
            raise TooManyDestinations
        row.save(force_insert=True)
        _record(by, "created", row, None, read_fields(row, FACTS))
    return DestinationDetails(row, shown | mask_secrets(secrets), hashes)


def change_destination(
    *, account_id: UUID, destination_id: UUID, changes: Mapping[str, Any], by: Actor
) -> DestinationDetails:
    """The destination with these fields set. Masked and absent values of its config stay,
    but for secrets that do not open: they are given again.

    Switched on, it begins to count its drops anew. Raises `NotFound` and `SchemaInvalid`.
    """
    wanted = dict(changes)
    with transaction.atomic():
        rows = Destination.objects.select_for_update(no_key=True)
        row = rows.filter(account=account_id, pk=destination_id).first()
        if row is None:
            raise NotFound
        before = read_fields(row, FACTS)
        if _HASHES in wanted:
            wanted["api_key_ids"] = _find_key_ids(account_id, wanted.pop(_HASHES))
        if (config := wanted.pop("config", None)) is not None:
            model, stored = find_sender(row.type).config, row.config | (_open_secrets(row) or {})
            merged = check_config(model, merge_config(stored, config))
            check_kept_secrets(stored, merged, config)
            shown, secrets = split_config(merged)
            wanted |= {"config": shown, "sealed": seal_secrets(row.pk, secrets)}
        if wanted.get("enabled"):
            wanted["drops_in_row"] = 0
        for name, value in wanted.items():
            setattr(row, name, value)
        row.version += 1
        row.save(update_fields=[*wanted, "version", "updated_at"])
        _record(by, "updated", row, before, read_fields(row, FACTS))
    return load_details(row)


def delete_destination(*, row: Destination, by: Actor) -> None:
    """Raises `NotFound` where somebody else was faster."""
    before = read_fields(row, FACTS)
    with transaction.atomic():
        if not Destination.objects.filter(pk=row.pk).delete()[0]:
            raise NotFound
        _record(by, "deleted", row, before, None)


def delete_destinations_of(workspace_id: UUID) -> int:
    """Delete a workspace's, with their secrets; how many there were. In the caller's
    transaction."""
    return Destination.objects.filter(workspace=workspace_id).delete()[0]


def switch_off(row: Destination, *, drops_max: int, by: Actor) -> bool:
    """Switch it off where `drops_max` traces in a row were dropped. Returns whether it did."""
    now = datetime.now(UTC)
    with transaction.atomic():
        at_end = Destination.objects.filter(pk=row.pk, enabled=True, drops_in_row__gte=drops_max)
        if not at_end.update(enabled=False, updated_at=now):
            return False
        _record(by, "updated", row, {"enabled": True}, {"enabled": False})
        row = Destination.objects.get(pk=row.pk)
        # `last_error` tells neither config nor content.
        record_event(
            "destination.disabled",
            key=f"destination.disabled:{row.pk}:{now.isoformat()}",
            title=f'Destination "{row.name}" was switched off',
            text=f'Destination "{row.name}" ({row.type}) took none of the last {row.drops_in_row} '
            f"traces and was switched off: {row.last_error}. A management key of the account can "
            f"switch it on with PATCH /api/v1/observability/destinations/{row.pk}.",
            account_id=row.account_id,
            workspace_id=row.workspace_id,
            data={
                "destination_id": str(row.pk),
                "destination_name": row.name,
                "type": row.type,
                "drops_in_row": row.drops_in_row,
                "last_error": row.last_error,
            },
            at=now,
        )
    return True


# --- What is the account's own --------------------------------------------------------------------


def _find_workspace(
    account_id: UUID, workspace_id: UUID | None, *, lock: bool = False
) -> Workspace:
    """The account's workspace of that id, its default one for none. Locked, nobody else adds
    destinations to it meanwhile. Raises `NoSuchWorkspace`."""
    chosen = {"pk": workspace_id} if workspace_id else {"is_default": True}
    rows = Workspace.objects.filter(account=account_id, **chosen)
    found = (rows.select_for_update(no_key=True) if lock else rows).first()
    if found is None:
        raise NoSuchWorkspace
    return found


def _find_key_ids(account_id: UUID, hashes: Sequence[str] | None) -> list[int] | None:
    """Numbers of the account's living inference keys. Raises `SchemaInvalid` for others'."""
    if hashes is None:
        return None
    keys = ApiKey.objects.filter(
        account=account_id, hash__in=hashes, kind=ApiKey.Kind.INFERENCE, deleted_at__isnull=True
    )
    numbers = dict(keys.values_list("hash", "pk"))
    unknown = [at for at, each in enumerate(hashes) if each not in numbers]
    if unknown:
        text = "Invalid input: no key of this account"
        raise SchemaInvalid([Issue(f"{_HASHES}.{at}", text) for at in unknown])
    return [numbers[each] for each in hashes]


def _load_many_details(rows: Iterable[Destination]) -> list[DestinationDetails]:
    """Keys by the hashes that they have by now."""
    found = list(rows)
    numbers = {number for row in found for number in row.api_key_ids or ()}
    keys = ApiKey.objects.filter(pk__in=numbers).values_list("pk", "hash") if numbers else ()
    hashes = dict(keys)
    opened = [(row, _open_secrets(row)) for row in found]
    return [
        DestinationDetails(
            row,
            row.config | mask_secrets(secrets or {}),
            None
            if row.api_key_ids is None
            else [hashes[number] for number in row.api_key_ids if number in hashes],
            is_open=secrets is not None,
        )
        for row, secrets in opened
    ]
