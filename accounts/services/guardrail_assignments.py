"""Whom guardrails govern. All who are named are moved, or nobody."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet, Subquery

from accounts.models import ApiKey, Guardrail, GuardrailKey, GuardrailMember, Membership
from accounts.models.guardrail import living_assignments
from accounts.services.guardrails import DEFAULT_IDS_VERSION, find_default_workspace, find_guardrail
from accounts.services.records import Actor, record_row
from accounts.services.spend_scopes import end_holder_budgets, outdate_limits
from gateway.http.errors import InvalidRequest, NotFound, SchemaInvalid
from gateway.http.paging import Page
from gateway.http.validation import Issue

_record: Final = partial(record_row, "guardrail")
# Keys or memberships, each as a budget's holder.
_Holders = Sequence[tuple[ApiKey | Membership, dict[str, int]]]


class DefaultGuardrailUnassignable(InvalidRequest):
    message = "A workspace's default guardrail cannot be assigned: it governs all of its traffic"


# --- Reading --------------------------------------------------------------------------------------


def list_assigned_keys(
    *, account_id: UUID, guardrail_id: UUID | None, page: Page
) -> tuple[list[GuardrailKey], int]:
    """One page of a guardrail's keys, of all guardrails where none is named, newest first; and how
    many there are. Raises `NotFound`."""
    rows = living_assignments(GuardrailKey.objects.all()).filter(
        api_key__account=account_id, api_key__deleted_at__isnull=True
    )
    found = _filter_by_guardrail(rows, account_id, guardrail_id)
    page_rows = found.select_related("api_key", "assigned_by").order_by("-created_at", "pk")
    return list(page_rows[page.rows]), found.count()


def list_assigned_members(
    *, account_id: UUID, guardrail_id: UUID | None, page: Page
) -> tuple[list[GuardrailMember], int]:
    """One page of a guardrail's members, or of all; and how many there are. Raises `NotFound`."""
    rows = living_assignments(GuardrailMember.objects.all()).filter(membership__account=account_id)
    found = _filter_by_guardrail(rows, account_id, guardrail_id)
    page_rows = found.select_related("membership__user", "assigned_by")
    return list(page_rows.order_by("-created_at", "pk")[page.rows]), found.count()


def _filter_by_guardrail(
    rows: QuerySet[Any], account_id: UUID, guardrail_id: UUID | None
) -> QuerySet[Any]:
    if guardrail_id is None:
        return rows
    return rows.filter(guardrail=find_guardrail(account_id, guardrail_id))


# --- Keys -----------------------------------------------------------------------------------------


def assign_keys(
    *,
    account_id: UUID,
    guardrail_id: UUID,
    by: Actor,
    assigner: int | None,
    key_hashes: Sequence[str],
) -> int:
    """How many keys the guardrail governs from now on, each instead of the one before; `assigner`
    is a user's number. Raises `NotFound`, `DefaultGuardrailUnassignable`, and `SchemaInvalid` for a
    hash of no key."""
    with transaction.atomic():
        outdate_limits(account_id)
        with _refuse_default_guardrail(account_id, guardrail_id):
            guardrail, keys = _load_with_keys(account_id, guardrail_id, key_hashes)
        _end_other_budgets(guardrail, [(key, {"key": key.pk}) for key in keys])
        rows = [
            GuardrailKey(guardrail=guardrail, api_key=key, assigned_by_id=assigner) for key in keys
        ]
        _upsert(GuardrailKey, rows, "api_key")
        named = {"key_hashes": list(key_hashes)}
        _record(by, "keys assigned", guardrail, None, named, account_id=account_id)
    return len(keys)


def unassign_keys(
    *, account_id: UUID, guardrail_id: UUID, by: Actor, key_hashes: Sequence[str]
) -> int:
    """How many of the keys were governed by the guardrail and are no more. Raises `NotFound`, and
    `SchemaInvalid` for a hash of no key."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail, keys = _load_with_keys(account_id, guardrail_id, key_hashes)
        _end_budgets(guardrail, [(key, {"key": key.pk}) for key in keys])
        rows = GuardrailKey.objects.filter(guardrail=guardrail, api_key__in=keys)
        removed = rows.delete()[0]
        if removed:
            named = {"key_hashes": list(key_hashes)}
            _record(by, "keys unassigned", guardrail, named, None, account_id=account_id)
    return removed


def _load_with_keys(
    account_id: UUID, guardrail_id: UUID, hashes: Sequence[str]
) -> tuple[Guardrail, list[ApiKey]]:
    """The account's guardrail and its inference keys of these hashes, in one query. Raises as
    `_read_annotated_guardrail` does, and `SchemaInvalid`."""
    rows = ApiKey.objects.inference(account_id).filter(hash__in=hashes)
    rows = rows.select_related("guardrail_assignment__guardrail")
    keys = list(rows.annotate(**_annotate_guardrail(account_id, guardrail_id)))
    guardrail = _read_annotated_guardrail(keys, account_id, guardrail_id)
    known = {key.hash for key in keys}
    _refuse_unknown("key_hashes", hashes, known, "Invalid input: no key of this account")
    return guardrail, keys


# --- Members --------------------------------------------------------------------------------------


def assign_members(
    *,
    account_id: UUID,
    guardrail_id: UUID,
    by: Actor,
    assigner: int | None,
    user_ids: Sequence[str],
) -> int:
    """How many members the guardrail governs from now on, named by their users' public ids, as
    `assign_keys` does it for keys."""
    with transaction.atomic():
        outdate_limits(account_id)
        with _refuse_default_guardrail(account_id, guardrail_id):
            guardrail, members = _load_with_members(account_id, guardrail_id, user_ids)
        _end_other_budgets(guardrail, [(each, {"user": each.user_id}) for each in members])
        rows = [
            GuardrailMember(guardrail=guardrail, membership=each, assigned_by_id=assigner)
            for each in members
        ]
        _upsert(GuardrailMember, rows, "membership")
        named = {"user_ids": list(user_ids)}
        _record(by, "members assigned", guardrail, None, named, account_id=account_id)
    return len(members)


def unassign_members(
    *, account_id: UUID, guardrail_id: UUID, by: Actor, user_ids: Sequence[str]
) -> int:
    """How many of the members were governed by the guardrail and are no more."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail, members = _load_with_members(account_id, guardrail_id, user_ids)
        _end_budgets(guardrail, [(each, {"user": each.user_id}) for each in members])
        rows = GuardrailMember.objects.filter(guardrail=guardrail, membership__in=members)
        removed = rows.delete()[0]
        if removed:
            named = {"user_ids": list(user_ids)}
            _record(by, "members unassigned", guardrail, named, None, account_id=account_id)
    return removed


def _load_with_members(
    account_id: UUID, guardrail_id: UUID, user_ids: Sequence[str]
) -> tuple[Guardrail, list[Membership]]:
    """The account's guardrail and memberships, by their users' public ids, in one query."""
    rows = Membership.objects.filter(account_id=account_id, user__public_id__in=user_ids)
    rows = rows.select_related("user", "guardrail_assignment__guardrail")
    members = list(rows.annotate(**_annotate_guardrail(account_id, guardrail_id)))
    guardrail = _read_annotated_guardrail(members, account_id, guardrail_id)
    known = {row.user.public_id for row in members}
    text = "Invalid input: no member of this account"
    _refuse_unknown("member_user_ids", user_ids, known, text)
    return guardrail, members


# --- Both -----------------------------------------------------------------------------------------


def _refuse_unknown(field: str, named: Sequence[str], known: Iterable[str], text: str) -> None:
    there = set(known)
    issues = [Issue(f"{field}.{i}", text) for i, each in enumerate(named) if each not in there]
    if issues:
        raise SchemaInvalid(issues)


# What is asked of a guardrail beside each of its holders-to-be.
_ANNOTATED = ("revision", "limit_nano")


def _annotate_guardrail(account_id: UUID, guardrail_id: UUID) -> dict[str, Subquery]:
    rows = Guardrail.objects.filter(pk=guardrail_id, workspace__account=account_id)
    return {f"beside_{name}": Subquery(rows.values(name)) for name in _ANNOTATED}


def _read_annotated_guardrail(
    holders: Sequence[Any], account_id: UUID, guardrail_id: UUID
) -> Guardrail:
    """The guardrail as read with them, read by itself where it was not. Raises `NotFound`."""
    if holders and holders[0].beside_revision is not None:
        fields = {name: getattr(holders[0], f"beside_{name}") for name in _ANNOTATED}
        return Guardrail(pk=guardrail_id, **fields)
    found: Guardrail = find_guardrail(account_id, guardrail_id)
    return found


@contextmanager
def _refuse_default_guardrail(account_id: UUID, guardrail_id: UUID) -> Iterator[None]:
    """A default guardrail is refused as such before anything else that is wrong, and also where it
    is not configured."""
    try:
        yield
    except (NotFound, SchemaInvalid):
        if find_default_workspace(account_id, guardrail_id) is None:
            raise
        raise DefaultGuardrailUnassignable from None
    if guardrail_id.version == DEFAULT_IDS_VERSION:
        raise DefaultGuardrailUnassignable


def _end_other_budgets(guardrail: Guardrail, holders: _Holders) -> None:
    """Of holders that leave another guardrail for this one, the other one's budget ends."""
    before = [(_find_assigned_guardrail(row), holder) for row, holder in holders]
    end_holder_budgets(
        (other.pk, holder)
        for other, holder in before
        if other is not None and other.pk != guardrail.pk and other.limit_nano is not None
    )


def _end_budgets(guardrail: Guardrail, holders: _Holders) -> None:
    """The guardrail's budget ends for those of the holders that it governs."""
    if guardrail.limit_nano is not None:
        end_holder_budgets(
            (guardrail.pk, holder)
            for row, holder in holders
            if _find_assigned_guardrail(row) == guardrail
        )


def _find_assigned_guardrail(row: ApiKey | Membership) -> Guardrail | None:
    """The guardrail that a key or a member is under."""
    assignment = getattr(row, "guardrail_assignment", None)
    return None if assignment is None else assignment.guardrail


def _upsert(model: Any, rows: Sequence[Any], holder: str) -> None:
    """One row for each holder: a new one, or the one that it has turned to this guardrail."""
    model.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=[holder],
        update_fields=["guardrail", "assigned_by", "created_at"],
    )
