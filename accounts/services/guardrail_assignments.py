"""Whom guardrails govern (management reference 12.2). All who are named are moved, or nobody."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from accounts.models import ApiKey, Guardrail, GuardrailKey, GuardrailMember, Membership
from accounts.models.guardrail import living_assignments
from accounts.services.guardrail_budgets import begin_budget_of, end_budget_of
from accounts.services.guardrails import default_workspace_of, find_guardrail
from accounts.services.records import Actor, record_change
from accounts.services.spend_scopes import outdate_limits
from gateway.http.errors import InvalidRequest, NotFound, SchemaInvalid
from gateway.http.paging import Page
from gateway.http.validation import Issue

# Keys or memberships, each as a budget's holder.
_Holders = Sequence[tuple[ApiKey | Membership, dict[str, int]]]


class DefaultAppliesByItself(InvalidRequest):
    message = "A workspace's default guardrail cannot be assigned: it governs all of its traffic"


# --- Reading --------------------------------------------------------------------------------------


def page_of_keys(
    *, account_id: UUID, guardrail_id: UUID | None, page: Page
) -> tuple[list[GuardrailKey], int]:
    """One page of a guardrail's keys, of all guardrails where none is named, newest first; and how
    many there are. Raises `NotFound`."""
    rows = living_assignments(GuardrailKey.objects.all()).filter(
        api_key__account=account_id, api_key__deleted_at__isnull=True
    )
    found = _of(rows, account_id, guardrail_id)
    page_rows = found.select_related("api_key", "assigned_by").order_by("-created_at", "pk")
    return list(page_rows[page.rows]), found.count()


def page_of_members(
    *, account_id: UUID, guardrail_id: UUID | None, page: Page
) -> tuple[list[GuardrailMember], int]:
    """The same of members."""
    rows = living_assignments(GuardrailMember.objects.all()).filter(membership__account=account_id)
    found = _of(rows, account_id, guardrail_id)
    page_rows = found.select_related("membership__user", "assigned_by")
    return list(page_rows.order_by("-created_at", "pk")[page.rows]), found.count()


def _of(rows: QuerySet[Any], account_id: UUID, guardrail_id: UUID | None) -> QuerySet[Any]:
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
    is a user's number. Raises `NotFound`, `DefaultAppliesByItself`, and `SchemaInvalid` for a
    hash of no key."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail = _assignable(account_id, guardrail_id)
        keys = _keys(account_id, key_hashes)
        _end_others(guardrail, [(key, {"key": key.pk}) for key in keys])
        begin_budget_of(guardrail, [{"key": key.pk} for key in keys])
        rows = [
            GuardrailKey(guardrail=guardrail, api_key=key, assigned_by_id=assigner) for key in keys
        ]
        _put(GuardrailKey, rows, "api_key")
        _record(by, "keys assigned", guardrail, None, {"key_hashes": list(key_hashes)})
    return len(keys)


def unassign_keys(
    *, account_id: UUID, guardrail_id: UUID, by: Actor, key_hashes: Sequence[str]
) -> int:
    """How many of the keys were governed by the guardrail and are no more. Raises `NotFound`, and
    `SchemaInvalid` for a hash of no key."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail = find_guardrail(account_id, guardrail_id)
        keys = _keys(account_id, key_hashes)
        _end(guardrail, [(key, {"key": key.pk}) for key in keys])
        rows = GuardrailKey.objects.filter(guardrail=guardrail, api_key__in=keys)
        removed = rows.delete()[0]
        if removed:
            _record(by, "keys unassigned", guardrail, {"key_hashes": list(key_hashes)}, None)
    return removed


def _keys(account_id: UUID, hashes: Sequence[str]) -> list[ApiKey]:
    """The account's inference keys of these hashes. Raises `SchemaInvalid`."""
    rows = ApiKey.objects.inference(account_id).filter(hash__in=hashes)
    rows = rows.select_related("guardrail_assignment__guardrail")
    known = {key.hash: key for key in rows}
    _refuse_unknown("key_hashes", hashes, known, "Invalid input: no key of this account")
    return list(known.values())


# --- Members --------------------------------------------------------------------------------------


def assign_members(
    *,
    account_id: UUID,
    guardrail_id: UUID,
    by: Actor,
    assigner: int | None,
    user_ids: Sequence[str],
) -> int:
    """The same as `assign_keys`, of members by their users' public ids."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail = _assignable(account_id, guardrail_id)
        members = _members(account_id, user_ids)
        _end_others(guardrail, [(each, {"user": each.user_id}) for each in members])
        begin_budget_of(guardrail, [{"user": each.user_id} for each in members])
        rows = [
            GuardrailMember(guardrail=guardrail, membership=each, assigned_by_id=assigner)
            for each in members
        ]
        _put(GuardrailMember, rows, "membership")
        _record(by, "members assigned", guardrail, None, {"user_ids": list(user_ids)})
    return len(members)


def unassign_members(
    *, account_id: UUID, guardrail_id: UUID, by: Actor, user_ids: Sequence[str]
) -> int:
    """The same as `unassign_keys`, of members."""
    with transaction.atomic():
        outdate_limits(account_id)
        guardrail = find_guardrail(account_id, guardrail_id)
        members = _members(account_id, user_ids)
        _end(guardrail, [(each, {"user": each.user_id}) for each in members])
        rows = GuardrailMember.objects.filter(guardrail=guardrail, membership__in=members)
        removed = rows.delete()[0]
        if removed:
            _record(by, "members unassigned", guardrail, {"user_ids": list(user_ids)}, None)
    return removed


def _members(account_id: UUID, user_ids: Sequence[str]) -> list[Membership]:
    """The account's memberships of these users. Raises `SchemaInvalid`."""
    rows = Membership.objects.filter(account_id=account_id, user__public_id__in=user_ids)
    rows = rows.select_related("user", "guardrail_assignment__guardrail")
    known = {row.user.public_id: row for row in rows}
    text = "Invalid input: no member of this account"
    _refuse_unknown("member_user_ids", user_ids, known, text)
    return list(known.values())


# --- Both -----------------------------------------------------------------------------------------


def _refuse_unknown(field: str, named: Sequence[str], known: Iterable[str], text: str) -> None:
    there = set(known)
    issues = [Issue(f"{field}.{i}", text) for i, each in enumerate(named) if each not in there]
    if issues:
        raise SchemaInvalid(issues)


def _assignable(account_id: UUID, guardrail_id: UUID) -> Any:
    """Also a default guardrail that is not configured is told for what it is."""
    try:
        guardrail: Guardrail = find_guardrail(account_id, guardrail_id)
    except NotFound:
        if default_workspace_of(account_id, guardrail_id) is None:
            raise
        raise DefaultAppliesByItself from None
    if guardrail.is_default:
        raise DefaultAppliesByItself
    return guardrail


def _end_others(guardrail: Guardrail, holders: _Holders) -> None:
    """Of holders that leave another guardrail for this one, the other one's budget ends."""
    before = [(_guardrail_of(row), holder) for row, holder in holders]
    end_budget_of(
        (other.pk, holder)
        for other, holder in before
        if other is not None and other.pk != guardrail.pk and other.limit_nano is not None
    )


def _end(guardrail: Guardrail, holders: _Holders) -> None:
    """The guardrail's budget ends for those of the holders that it governs."""
    if guardrail.limit_nano is not None:
        end_budget_of(
            (guardrail.pk, holder) for row, holder in holders if _guardrail_of(row) == guardrail
        )


def _guardrail_of(row: ApiKey | Membership) -> Guardrail | None:
    """The guardrail that a key or a member is under."""
    assignment = getattr(row, "guardrail_assignment", None)
    return None if assignment is None else assignment.guardrail


def _put(model: Any, rows: Sequence[Any], holder: str) -> None:
    """One row for each holder: a new one, or the one that it has turned to this guardrail."""
    model.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=[holder],
        update_fields=["guardrail", "assigned_by", "created_at"],
    )


def _record(
    by: Actor,
    action: str,
    guardrail: Guardrail,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    record_change(
        by=by,
        action=action,
        object_type="guardrail",
        object_id=guardrail.pk,
        account_id=guardrail.workspace.account_id,
        before=before,
        after=after,
    )
