"""Creating presets, adding versions, and changing the designated version."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import FilteredRelation, OuterRef, Q, QuerySet, Subquery

from accounts.models import Membership, User, Workspace
from accounts.services.records import Actor, read_fields, record_change
from gateway.http.errors import GatewayError, NotFound, PayloadTooLarge
from gateway.http.jsonio import dumps
from routing.presets.models import Preset, PresetVersion
from routing.presets.read import PresetScope, forget_active_presets
from routing.presets.schema import PresetContent

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


class _PresetLookup(NamedTuple):
    """The workspace, the creator of the version, and the preset if it exists."""

    workspace_id: uuid.UUID
    maker: User | None
    preset: Preset | None


def save_version(
    *, place: PresetScope, slug: str, content: PresetContent, creator: str | None, by: Actor
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
    now = datetime.now(UTC)
    version = PresetVersion(
        config=config, system_prompt=content.system_prompt, version=1, created_at=now
    )
    with _conflict_on_race(), transaction.atomic():
        found = _find(place, slug, creator)
        version.creator = found.maker
        if found.preset is None:
            preset = _create(place, found, slug, version, by)
        else:
            _limit_lock_wait()
            preset = _add(found.preset, version, by)
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


@contextmanager
def _conflict_on_race() -> Iterator[None]:
    """Turn database errors of concurrent changes into `PresetConflict`."""
    try:
        yield
    except IntegrityError as error:
        raise PresetConflict from error
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) in _LOST or "locked" in str(error):
            raise PresetConflict from error
        raise


def _limit_lock_wait() -> None:
    """Set PostgreSQL's lock timeout. SQLite has a limit of its own."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")


def _find(place: PresetScope, slug: str, creator: str | None) -> _PresetLookup:
    """Find workspace, creator and preset in one query. Raises `NotFound`."""
    makers = _makers(creator)
    row = (
        Workspace.objects.filter(place.workspace)
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
    maker = User(pk=row["maker"], public_id=row["maker_public_id"]) if row["maker"] else None
    return _PresetLookup(row["pk"], maker, _preset_in(row) if row["kept__id"] else None)


_FIELDS: Final = tuple(field.attname for field in Preset._meta.concrete_fields)
_PRESET_COLUMNS: Final = tuple(f"kept__{name}" for name in _FIELDS)


def _makers(creator: str | None) -> QuerySet[User]:
    if creator is not None:
        return User.objects.filter(public_id=creator)
    admins = Q(memberships__account=OuterRef("account"), memberships__role=Membership.Role.ADMIN)
    return User.objects.filter(admins).order_by("memberships__created_at", "memberships__pk")


def _preset_in(row: Mapping[str, Any]) -> Preset:
    preset = Preset(**{name: row[f"kept__{name}"] for name in _FIELDS})
    preset._state.adding = False
    if preset.creator_id is not None:
        preset.creator = User(pk=preset.creator_id, public_id=row["kept__creator__public_id"])
    return preset


def _create(
    place: PresetScope, found: _PresetLookup, slug: str, version: PresetVersion, by: Actor
) -> Preset:
    preset = Preset(
        account_id=place.account_id,
        workspace_id=found.workspace_id,
        slug=slug,
        name=slug,
        creator=found.maker,
        designated_version_id=version.pk,
        created_at=version.created_at,
        updated_at=version.created_at,
    )
    preset.save(force_insert=True)
    version.preset = preset
    version.save(force_insert=True)
    facts = {**read_fields(preset, ("slug", "workspace_id", "designated_version_id")), "version": 1}
    _record(by, "created", preset, None, facts)
    transaction.on_commit(forget_active_presets)
    return preset


def _add(preset: Preset, version: PresetVersion, by: Actor) -> Preset:
    if preset.status == Preset.Status.ARCHIVED:
        raise PresetArchived
    before = {"designated_version_id": preset.designated_version_id}
    version.preset, version.version = preset, _next_number(preset, version)
    version.save(force_insert=True)
    preset.designated_version_id, preset.latest_version = version.pk, version.version
    preset.updated_at = version.created_at
    after = {"designated_version_id": version.pk, "version": version.version}
    _record(by, "updated", preset, before, after)
    transaction.on_commit(forget_active_presets)
    return preset


# Locks, reads and updates the row in one statement.
_NEXT: Final = (
    "UPDATE routing_preset SET latest_version = latest_version + 1, "
    "designated_version_id = %s, updated_at = %s "
    "WHERE id = %s AND status <> %s RETURNING latest_version"
)


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
        cursor.execute(_NEXT, values)
        row = cursor.fetchone()
    if row is None:
        raise PresetConflict
    return int(row[0])


def _record(
    by: Actor,
    action: str,
    preset: Preset,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> None:
    record_change(
        by=by,
        action=action,
        object_type="preset",
        object_id=preset.pk,
        account_id=preset.account_id,
        before=before,
        after=after,
    )
