"""Creating presets, adding versions, and changing the designated version."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import FilteredRelation, OuterRef, Q, Subquery

from accounts.models import User, Workspace
from accounts.roles import Action, list_account_roles
from accounts.services.records import Actor, read_fields, record_row
from gateway.http.errors import GatewayError, NotFound, PayloadTooLarge
from gateway.http.jsonio import JsonObject, dumps
from routing.presets.models import Preset, PresetVersion
from routing.presets.read import PresetScope, forget_active_presets
from routing.presets.schema import PresetContent

_record: Final = partial(record_row, "preset")

# Lists show a hundred versions at once, and none of them may be as large as a whole conversation.
CONTENT_BYTES_MAX: Final = 1_048_576
_LOCK_WAIT: Final = "3s"
# SQLSTATE of PostgreSQL: lock timeout, deadlock.
_LOST: Final = frozenset({"55P03", "40P01"})
# Fields that an operator may change.
CHANGEABLE: Final = ("name", "description", "status", "designated_version_id")


class PresetConflict(GatewayError):
    status, error_type = 409, "invalid_request"
    message = "Resource conflict. Please try again later."


class PresetArchived(PresetConflict):
    message = "Preset is archived"


def save_version(
    *, scope: PresetScope, slug: str, content: PresetContent, creator: str | None, by: Actor
) -> Preset:
    """Add a version to the preset of that slug and designate it; create the preset if it is new.

    `creator` is a user's public id; None means the account's first admin. Raises `NotFound` for an
    unknown workspace, `PresetArchived`, `PayloadTooLarge`, and `PresetConflict` if a concurrent
    change wins or holds the row for more than three seconds.
    """
    config = dumps(content.config).decode()
    if len(config.encode()) + len(content.system_prompt.encode()) > CONTENT_BYTES_MAX:
        text = f"Request payload too large: a preset keeps at most {CONTENT_BYTES_MAX} bytes"
        raise PayloadTooLarge(text)
    version = PresetVersion(
        config=config,
        system_prompt=content.system_prompt,
        version=1,
        created_at=datetime.now(UTC),
    )
    try:
        with transaction.atomic():
            row = _find_row(scope, slug, creator)
            if row["maker"]:
                version.creator = User(pk=row["maker"], public_id=row["maker_public_id"])
            if row["kept__id"]:
                preset = _add_version(row, version, by)
            else:
                preset = _create_preset(scope, row["pk"], slug, version, by)
            transaction.on_commit(forget_active_presets)
    except IntegrityError as error:
        raise PresetConflict from error
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) in _LOST or "locked" in str(error):
            raise PresetConflict from error
        raise
    preset.designated_version = version
    return preset


def change_preset(*, preset_id: uuid.UUID, by: Actor, changes: Mapping[str, Any]) -> Preset:
    """Change a preset's name, description, status or designated version (keys of `CHANGEABLE`).
    Raises `NotFound`."""
    now = datetime.now(UTC)
    with transaction.atomic():
        preset = Preset.objects.select_for_update(no_key=True).filter(pk=preset_id).first()
        if preset is None:
            raise NotFound
        before = read_fields(preset, CHANGEABLE)
        for name, value in changes.items():
            setattr(preset, name, value)
        own = preset.versions.filter(pk=preset.designated_version_id)
        assert "designated_version_id" not in changes or own.exists(), "a version of another preset"
        if preset.status != before["status"]:
            preset.status_updated_at = now
        preset.updated_at = now
        preset.save(update_fields=[*changes, "status_updated_at", "updated_at"])
        _record(by, "updated", preset, before, read_fields(preset, CHANGEABLE))
        transaction.on_commit(forget_active_presets)
    return preset


def delete_workspace_presets(workspace_id: uuid.UUID) -> int:
    """Delete the workspace's presets with all versions, in the caller's transaction; returns how
    many presets there were."""
    PresetVersion.objects.filter(preset__workspace=workspace_id).delete()
    gone, _ = Preset.objects.filter(workspace=workspace_id).delete()
    transaction.on_commit(forget_active_presets)
    return gone


_FIELDS: Final = tuple(field.attname for field in Preset._meta.concrete_fields)
_PRESET_COLUMNS: Final = tuple(f"kept__{name}" for name in _FIELDS)


def _find_row(scope: PresetScope, slug: str, creator: str | None) -> JsonObject:
    """Workspace, creator of the version, and the preset if it exists, in one query. Raises
    `NotFound`."""
    if creator is not None:
        makers = User.objects.filter(public_id=creator)
    else:
        member = {"memberships__account": OuterRef("account")}
        admins = User.objects.filter(
            memberships__role__in=list_account_roles(Action.WORKSPACES), **member
        )
        makers = admins.order_by("memberships__created_at", "memberships__pk")
    row: JsonObject | None = (
        Workspace.objects.filter(scope.workspace)
        .annotate(
            kept=FilteredRelation("presets", condition=Q(presets__slug=slug)),
            maker=Subquery(makers.values("pk")[:1]),
            maker_public_id=Subquery(makers.values("public_id")[:1]),
        )
        .values("pk", "maker", "maker_public_id", "kept__creator__public_id", *_PRESET_COLUMNS)
        .first()
    )
    if row is None:
        raise NotFound
    return row


def _create_preset(
    scope: PresetScope, workspace_id: uuid.UUID, slug: str, version: PresetVersion, by: Actor
) -> Preset:
    preset = Preset(
        account_id=scope.account_id,
        workspace_id=workspace_id,
        slug=slug,
        name=slug,
        creator=version.creator,
        designated_version_id=version.pk,
        created_at=version.created_at,
        updated_at=version.created_at,
    )
    preset.save(force_insert=True)
    version.preset = preset
    version.save(force_insert=True)
    facts = {**read_fields(preset, ("slug", "workspace_id", "designated_version_id")), "version": 1}
    _record(by, "created", preset, None, facts)
    return preset


# Locks, reads and updates the row in one statement.
_NEXT: Final = (
    "UPDATE routing_preset SET latest_version = latest_version + 1, "
    "designated_version_id = %s, updated_at = %s "
    "WHERE id = %s AND status <> %s RETURNING latest_version"
)


def _add_version(row: JsonObject, version: PresetVersion, by: Actor) -> Preset:
    """Designate the version as the next one of the preset in the row of `_find_row`."""
    preset = Preset(**{name: row[f"kept__{name}"] for name in _FIELDS})
    preset._state.adding = False
    if preset.creator_id is not None:
        preset.creator = User(pk=preset.creator_id, public_id=row["kept__creator__public_id"])
    if preset.status == Preset.Status.ARCHIVED:
        raise PresetArchived
    before = {"designated_version_id": preset.designated_version_id}
    version.preset, version.version = preset, _next_number(preset, version)
    version.save(force_insert=True)
    preset.designated_version_id, preset.latest_version = version.pk, version.version
    preset.updated_at = version.created_at
    after = {"designated_version_id": version.pk, "version": version.version}
    _record(by, "updated", preset, before, after)
    return preset


def _next_number(preset: Preset, version: PresetVersion) -> int:
    """Designate the version and return its number. Raises `PresetConflict` if the preset was
    archived or removed in the meantime."""
    key = Preset._meta.pk
    values = [
        key.get_db_prep_value(version.pk, connection),
        connection.ops.adapt_datetimefield_value(version.created_at),
        key.get_db_prep_value(preset.pk, connection),
        Preset.Status.ARCHIVED.value,
    ]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # SQLite has a limit of its own.
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
        cursor.execute(_NEXT, values)
        numbers = cursor.fetchone()
    if numbers is None:
        raise PresetConflict
    return int(numbers[0])
