"""Making, changing and deleting guardrails."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Manager, Q

from accounts.models import Guardrail, Workspace
from accounts.services.keys import NoSuchWorkspace
from accounts.services.records import Actor, read_fields, record_row
from accounts.services.spend_scopes import end_guardrail_budget, outdate_limits
from gateway.http.errors import Conflict, InvalidRequest, NotFound, SchemaInvalid
from gateway.http.paging import Page
from gateway.http.validation import Issue

_record: Final = partial(record_row, "guardrail")

# What callers set; each is a column of the same name.
SETTINGS: Final = (
    *("name", "description", "limit_nano", "reset_interval", "budget_enforcement"),
    *("include_byok_in_budgets",),
    *("allowed_models", "ignored_models", "allowed_providers", "ignored_providers"),
    *("enforce_zdr_anthropic", "enforce_zdr_openai", "enforce_zdr_google"),
    *("enforce_zdr_xai", "enforce_zdr_other", "enable_paid_model_training"),
    *("enable_free_model_training", "enable_free_model_publication"),
    *("content_filters", "content_filter_builtins", "allowed_data_regions"),
    *(
        "output_filters",
        "output_filter_builtins",
        "output_shadow",
        "enforce_schema",
        "external_guards",
    ),
)
_BUDGET: Final = (
    *("limit_nano", "reset_interval", "budget_enforcement", "include_byok_in_budgets"),
)
DEFAULT_IDS_VERSION: Final = 5


class LimitWithoutInterval(SchemaInvalid):
    """Of a budget's limit and the interval it is reset at, one is there without the other."""

    def __init__(self, missing: str) -> None:
        text = "Invalid input: limit_usd and reset_interval come together, or both are null"
        super().__init__([Issue(missing, text)])


class DefaultNameImmutable(InvalidRequest):
    message = "The name of a workspace's default guardrail cannot be changed"


def list_guardrails(
    *, account_id: UUID, workspace_id: UUID | None, page: Page
) -> tuple[list[Guardrail], int]:
    """One page of a workspace's guardrails, of the default one where none is named, newest first;
    and how many there are. Raises `NoSuchWorkspace`."""
    place = Q(is_default=True) if workspace_id is None else Q(pk=workspace_id)
    workspace = Workspace.objects.filter(place, account_id=account_id).values("pk").first()
    if workspace is None:
        raise NoSuchWorkspace
    rows = Guardrail.objects.filter(workspace=workspace["pk"])
    return list(rows.order_by("-created_at", "pk")[page.rows]), rows.count()


def find_guardrail(account_id: UUID, guardrail_id: UUID) -> Any:
    """The account's guardrail of that id. Raises `NotFound`."""
    found = _find_in_account(Guardrail.objects, account_id, guardrail_id)
    if found is None:
        raise NotFound
    return found


def _find_in_account(rows: Manager[Guardrail], account_id: UUID, guardrail_id: UUID) -> Any:
    found = rows.filter(pk=guardrail_id, workspace__account=account_id)
    return found.select_related("workspace").first()


def create_guardrail(
    *, account_id: UUID, workspace_id: UUID | None, by: Actor, settings: Mapping[str, Any]
) -> Guardrail:
    """A new guardrail, which does nothing until it is assigned; in the default workspace where none
    is named. Raises `NoSuchWorkspace`, `LimitWithoutInterval`."""
    place = Q(is_default=True) if workspace_id is None else Q(pk=workspace_id)
    with transaction.atomic():
        workspace = Workspace.objects.filter(place, account_id=account_id).first()
        if workspace is None:
            raise NoSuchWorkspace
        guardrail = Guardrail(workspace=workspace, **settings)
        _check_budget(guardrail)
        guardrail.save(force_insert=True)
        _record(by, "created", guardrail, None, read_fields(guardrail, SETTINGS))
    return guardrail


def change_guardrail(
    *, account_id: UUID, guardrail_id: UUID, by: Actor, changes: Mapping[str, Any]
) -> Any:
    """The guardrail with its settings changed; the default one of a workspace is made by its first
    change. Raises `NotFound`, `DefaultNameImmutable`, `LimitWithoutInterval`, and `Conflict` where
    somebody else changed it meanwhile.
    """
    with transaction.atomic():
        if not changes.keys().isdisjoint(_BUDGET):
            outdate_limits(account_id)
        guardrail = _load_for_change(account_id, guardrail_id)
        if guardrail.is_default and changes.get("name", guardrail.name) != guardrail.name:
            raise DefaultNameImmutable
        if guardrail._state.adding:
            return _create_default(guardrail, by, changes)
        return update_guardrail(guardrail, by=by, changes=changes)


def update_guardrail(guardrail: Any, *, by: Actor, changes: Mapping[str, Any]) -> Any:
    """Change a guardrail that was read; raises `Conflict` where somebody has changed it since. Its
    account's limits are outdated where its budget changes."""
    with transaction.atomic():
        before = read_fields(guardrail, SETTINGS)
        for name, value in changes.items():
            setattr(guardrail, name, value)
        _check_budget(guardrail)
        guardrail.updated_at = datetime.now(UTC)
        if before["reset_interval"] not in (None, guardrail.reset_interval):
            # The budget moves to another window, and ends on the one that it had.
            end_guardrail_budget(guardrail.pk)
        rows = Guardrail.objects.filter(pk=guardrail.pk, revision=guardrail.revision)
        guardrail.revision += 1
        written = read_fields(guardrail, (*changes, "updated_at", "revision"))
        if not rows.update(**written):
            raise Conflict
        _record(by, "updated", guardrail, before, read_fields(guardrail, SETTINGS))
    return cast(Guardrail, guardrail)


def delete_guardrail(*, account_id: UUID, guardrail_id: UUID, by: Actor) -> None:
    """Delete it with its assignments; the default one of a workspace is as before its first change.
    Raises `NotFound`."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail = find_guardrail(account_id, guardrail_id)
        if guardrail.limit_nano is not None:
            end_guardrail_budget(guardrail.pk)
        # The row stays out of sight, and so do its assignments: one statement however many.
        rows = Guardrail.objects.filter(pk=guardrail.pk)
        if not rows.update(deleted_at=datetime.now(UTC), revision=guardrail.revision + 1):
            raise NotFound
        _record(by, "deleted", guardrail, read_fields(guardrail, SETTINGS), None)


def find_default_workspace(account_id: UUID, guardrail_id: UUID) -> Any:
    """The workspace whose default guardrail has this id, whether there is one or not; None where
    there is no such workspace."""
    if guardrail_id.version != DEFAULT_IDS_VERSION:
        return None
    workspaces = Workspace.objects.filter(account_id=account_id)
    return next((each for each in workspaces if each.default_guardrail_id == guardrail_id), None)


def _load_for_change(account_id: UUID, guardrail_id: UUID) -> Any:
    """The guardrail, or the default one of a workspace as it is before its first change."""
    found = _find_in_account(Guardrail.everything, account_id, guardrail_id)
    if found is None:
        workspace = find_default_workspace(account_id, guardrail_id)
        if workspace is None:
            raise NotFound
        return _build_default(workspace)
    if found.workspace.deleted_at is not None:
        raise NotFound
    if found.deleted_at is None:
        return found
    if not found.is_default:
        raise NotFound
    return _build_default(found.workspace, revision=found.revision + 1)


def _build_default(workspace: Workspace, *, revision: int = 0) -> Guardrail:
    """A default guardrail that says nothing; a revision means that it was reset."""
    return Guardrail(
        pk=workspace.default_guardrail_id,
        workspace=workspace,
        is_default=True,
        name=f"Workspace {workspace.pk} Default",
        revision=revision,
        created_at=datetime.now(UTC),
    )


def _create_default(guardrail: Any, by: Actor, changes: Mapping[str, Any]) -> Any:
    """Make the default guardrail of a workspace, or bring back the row of one that was reset. Of
    two first changes at a time, the second raises `Conflict`."""
    for name, value in changes.items():
        setattr(guardrail, name, value)
    _check_budget(guardrail)
    if guardrail.revision:
        rows = Guardrail.everything.filter(pk=guardrail.pk, revision=guardrail.revision - 1)
        again = read_fields(guardrail, (*SETTINGS, "created_at", "revision"))
        if not rows.update(**again, updated_at=None, deleted_at=None):
            raise Conflict
    else:
        try:
            with transaction.atomic():
                guardrail.save(force_insert=True)
        except IntegrityError:
            raise Conflict from None
    guardrail._state.adding = False
    _record(by, "created", guardrail, None, read_fields(guardrail, SETTINGS))
    return cast(Guardrail, guardrail)


def _check_budget(guardrail: Guardrail) -> None:
    if guardrail.limit_nano is None and guardrail.reset_interval is not None:
        raise LimitWithoutInterval("limit_usd")
    if guardrail.limit_nano is not None and guardrail.reset_interval is None:
        raise LimitWithoutInterval("reset_interval")
