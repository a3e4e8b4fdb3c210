"""Making, changing and deleting workspaces."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.models import (
    ApiKey,
    ByokCredential,
    Membership,
    Workspace,
    WorkspaceBudget,
)
from accounts.roles import Action, list_account_roles
from accounts.services.byok import wipe_credentials_of
from accounts.services.records import Actor, read_fields, record_row
from accounts.services.spend_scopes import outdate_limits
from gateway.http.errors import InvalidRequest, NotFound, PermissionDenied, SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import Page
from gateway.http.validation import Issue

record_workspace: Final = partial(record_row, "workspace")

SLUG_PATTERN: Final = r"^[a-z0-9]+(?:-[a-z0-9]+)*$"
SLUG_CHARS_MAX: Final = 50
# What is set, each a column of the same name. All but `queue_weight` are callers' to set: with it
# one account would take the turns of others.
SETTINGS: Final = (
    *("name", "slug", "description", "default_text_model", "default_image_model"),
    *("default_provider_sort", "disabled_server_tools", "rate_limits"),
    *("hedge", "rescue", "response_cache", "queue_weight"),
    *("io_logging_api_key_ids", "io_logging_sampling_rate"),
    *("is_data_discount_logging_enabled", "is_observability_broadcast_enabled"),
    *("is_observability_io_logging_enabled", "end_user_budget", "tag_budgets"),
    "member_key_limits",
)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_KEYS: Final = "keys"
_LARGEST_KEY_ID: Final = 2**63 - 1
_BATCH: Final = 500


class SlugTaken(InvalidRequest):
    message = "Workspace slug already exists"


class WorkspaceHasKeys(InvalidRequest):
    message = "Workspace has active API keys. Delete the keys first."


class WorkspaceInUse(InvalidRequest):
    """Apps above this one keep something in it that does not go with it. `name` is its word."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Workspace has {name}. Delete the {name} first.")


class DefaultWorkspaceUndeletable(PermissionDenied):
    message = "Deleting the default workspace is not supported"


def match_reference(reference: str) -> Q | None:
    """What a workspace's id or slug asks the table for; None where it can be neither."""
    wanted = Q()
    if _UUID.fullmatch(reference):
        wanted |= Q(pk=UUID(reference))
    if len(reference) <= SLUG_CHARS_MAX and re.fullmatch(SLUG_PATTERN[1:-1], reference):
        wanted |= Q(slug=reference)
    return wanted or None


def select_workspaces(account_id: UUID) -> QuerySet[Any]:
    """The account's workspaces, each with its `creator_public_id`.

    The account's first admin stands for a creator that is not known.
    """
    admins = Membership.objects.filter(
        account=OuterRef("account"), role__in=list_account_roles(Action.WORKSPACES)
    ).order_by("created_at", "pk")
    creator = Coalesce("created_by__public_id", Subquery(admins.values("user__public_id")[:1]))
    budgets = WorkspaceBudget.objects.filter(workspace=OuterRef("pk"))
    return Workspace.objects.filter(account_id=account_id).annotate(
        creator_public_id=creator, has_budgets=Exists(budgets)
    )


def find_workspace(
    account_id: UUID,
    reference: str,
    *,
    lock: bool = False,
    asked: Mapping[str, Any] | None = None,
) -> Any:
    """The account's workspace of that id or slug, as `select_workspaces` has it, with what is
    `asked` beside. Raises `NotFound`.

    Its id counts where a slug reads like one. A locked one gets no new key before the transaction
    ends.
    """
    wanted = match_reference(reference)
    if wanted is None:
        raise NotFound
    rows = select_workspaces(account_id).annotate(**(asked or {})).filter(wanted)
    if lock:
        # The account's row first, in the order of all who change keys and of the ledger writer.
        rows = rows.select_related("account").select_for_update(of=("account", "self"), no_key=True)
    found = sorted(rows, key=lambda row: str(row.pk) != reference.lower())
    if not found:
        raise NotFound
    return found[0]


def list_workspaces(account_id: UUID, page: Page) -> tuple[list[Any], int]:
    """One page, newest first, and how many there are."""
    rows = select_workspaces(account_id).order_by("-created_at", "pk")
    return list(rows[page.rows]), Workspace.objects.filter(account_id=account_id).count()


def create_workspace(
    *, account_id: UUID, creator: str | None, by: Actor, settings: Mapping[str, Any]
) -> Any:
    """A new workspace. `creator` is a member's public id; the
    account's first admin stands for it where none is named.

    Raises `SlugTaken`, and `SchemaInvalid` for keys, of which a new workspace has none.
    """
    keys = settings.get("io_logging_api_key_ids")
    if keys:
        raise _build_key_error(enumerate(keys))
    members = Membership.objects.filter(account_id=account_id)
    if creator is None:
        members = members.filter(role__in=list_account_roles(Action.WORKSPACES))
    else:
        members = members.filter(user__public_id=creator)
    member = members.select_related("user").order_by("created_at", "pk").first()
    user = member.user if member else None
    workspace: Any = Workspace(account_id=account_id, created_by=user, **settings)
    workspace.creator_public_id = user.public_id if user else None

    def insert() -> None:
        workspace.save(force_insert=True)
        record_workspace(by, "created", workspace, None, read_fields(workspace, SETTINGS))

    _write(workspace, insert)
    return workspace


def change_workspace(
    *, account_id: UUID, reference: str, by: Actor, changes: Mapping[str, Any]
) -> Any:
    """The workspace with its settings changed. Raises `NotFound`, `SlugTaken`, `SchemaInvalid`."""
    with transaction.atomic():
        if not changes.keys().isdisjoint(("end_user_budget", "tag_budgets")):
            outdate_limits(account_id)
        workspace = find_workspace(account_id, reference, lock=True)
        before = read_fields(workspace, SETTINGS)
        for name, value in changes.items():
            setattr(workspace, name, value)
        if changes.get("io_logging_api_key_ids"):
            workspace.io_logging_api_key_ids = resolve_own_keys(
                workspace, changes["io_logging_api_key_ids"]
            )
        workspace.updated_at = datetime.now(UTC)
        _write(workspace, lambda: workspace.save(update_fields=[*changes, "updated_at"]))
        record_workspace(by, "updated", workspace, before, read_fields(workspace, SETTINGS))
    return workspace


def delete_workspace(*, account_id: UUID, reference: str, by: Actor) -> None:
    """Delete it as its users see it; the row stays, because history names it.

    Disabled and expired keys, and rows of other apps, are out of sight with it, and the schedule
    removes them (`clear_deleted_workspaces`). Secrets, such as its BYOK credentials, go at once.
    Its members, budgets and guardrails apply to nothing any more.

    Raises `NotFound`, `DefaultWorkspaceUndeletable`, `WorkspaceInUse`, `WorkspaceHasKeys`.
    """
    now = datetime.now(UTC)
    with transaction.atomic():
        workspace = find_workspace(account_id, reference, lock=True, asked=_annotate_counts())
        if workspace.is_default:
            raise DefaultWorkspaceUndeletable
        # By a statement that begins under the lock: what was found may have been seen before it.
        # Keys, which some of the others have, come last.
        rows = {name: each() for name, each in _hindering.items()} | {
            _KEYS: ApiKey.objects.usable(now)
        }
        hindrances = {
            name: Exists(each.filter(workspace=OuterRef("pk"))) for name, each in rows.items()
        }
        living = Workspace.objects.filter(*(~each for each in hindrances.values()), pk=workspace.pk)
        if not living.update(deleted_at=now):
            annotations = {f"has_{name}": each for name, each in hindrances.items()}
            there: Any = Workspace.everything.filter(pk=workspace.pk).annotate(**annotations).get()
            first = next((name for name in hindrances if getattr(there, f"has_{name}")), _KEYS)
            raise WorkspaceHasKeys if first == _KEYS else WorkspaceInUse(first)
        # As they are under the lock; what was found may have been seen before it.
        counts = {
            name: each.clear(workspace.pk) if each.at_once else getattr(workspace, f"{name}_held")
            for name, each in _belongings.items()
        }
        record_workspace(by, "deleted", workspace, read_fields(workspace, SETTINGS) | counts, None)


def clear_deleted_workspaces() -> int:
    """Remove what is left in deleted workspaces, where nobody sees it any more. It takes a batch of
    them for each kind, each workspace in a transaction of its own. Returns how many rows are gone.
    """
    deleted, gone = Workspace.everything.filter(deleted_at__isnull=False).values("pk"), 0
    for belongings in _belongings.values():
        left = belongings.rows().filter(workspace__in=deleted).order_by()
        for workspace_id in set(left.values_list("workspace", flat=True)[:_BATCH]):
            with transaction.atomic():
                gone += belongings.clear(workspace_id)
    return gone


class WorkspaceBelongings(NamedTuple):
    """What goes with a workspace: all rows of one kind, each with its `workspace`. It also says how
    those of one workspace are removed in the caller's transaction, and how many there were.
    `at_once` is for secrets, others are removed by the schedule and must be out of sight by then.
    """

    rows: Callable[[], QuerySet[Any]]
    clear: Callable[[UUID], int]
    at_once: bool = False


def _select_unused_keys() -> QuerySet[Any]:
    return ApiKey.objects.filter(deleted_at__isnull=True)


def _delete_keys(workspace_id: UUID) -> int:
    now = datetime.now(UTC)
    return (
        _select_unused_keys().filter(workspace=workspace_id).update(deleted_at=now, updated_at=now)
    )


_belongings: dict[str, WorkspaceBelongings] = {
    "unused_keys": WorkspaceBelongings(_select_unused_keys, _delete_keys),
    "byok_credentials": WorkspaceBelongings(
        lambda: ByokCredential.objects.living(), wipe_credentials_of, at_once=True
    ),
}


def register_belongings(name: str, belongings: WorkspaceBelongings) -> None:
    """For apps above this one, at start-up. `name` is a word of its own."""
    _belongings[name] = belongings


_hindering: dict[str, Callable[[], QuerySet[Any]]] = {}


def register_hindrance(name: str, rows: Callable[[], QuerySet[Any]]) -> None:
    """For apps above this one, at start-up: no workspace is deleted while it has such rows."""
    _hindering[name] = rows


def _annotate_counts() -> JsonObject:
    """How many a workspace has of each kind that stays for now, by the kind's name and `_held`."""
    counts = {}
    for name, belongings in _belongings.items():
        if not belongings.at_once:
            mine = belongings.rows().filter(workspace=OuterRef("pk")).order_by().values("workspace")
            number = Subquery(mine.annotate(number=Count("pk")).values("number"))
            counts[f"{name}_held"] = Coalesce(number, 0)
    return counts


def _write(workspace: Workspace, write: Callable[[], None]) -> None:
    """Let the table itself say whether the slug is free."""
    try:
        with transaction.atomic():
            write()
    except IntegrityError as error:
        others = Workspace.objects.filter(account_id=workspace.account_id, slug=workspace.slug)
        if others.exclude(pk=workspace.pk).exists():
            raise SlugTaken from error
        raise


def resolve_own_keys(workspace: Workspace, wanted: Sequence[int | str]) -> list[int]:
    """The numbers of keys of this workspace, named by number or by hash, each once.

    Raises `SchemaInvalid`.
    """
    numbers = [each for each in wanted if isinstance(each, int) and 0 < each <= _LARGEST_KEY_ID]
    hashes = [each for each in wanted if isinstance(each, str)]
    rows = ApiKey.objects.filter(
        Q(pk__in=numbers) | Q(hash__in=hashes), workspace=workspace, deleted_at__isnull=True
    ).values_list("pk", "hash")
    known: dict[int | str, int] = {}
    for number, key_hash in rows:
        known |= {number: number, key_hash: number}
    unknown = [(index, each) for index, each in enumerate(wanted) if each not in known]
    if unknown:
        raise _build_key_error(unknown)
    return list(dict.fromkeys(known[each] for each in wanted))


def _build_key_error(places: Iterable[tuple[int, object]]) -> SchemaInvalid:
    text = "Invalid input: no key of this workspace"
    return SchemaInvalid([Issue(f"io_logging_api_key_ids.{index}", text) for index, _ in places])
