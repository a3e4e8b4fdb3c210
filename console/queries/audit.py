"""The audit trail of an account: who changed what, when, from what to what."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404

from accounts.models import AuditRecord
from console.scope import Scope
from console.words import format_money

_WORDS_MAX: Final = 160
# What says nothing to people, or has a column of its own.
_HIDDEN: Final = frozenset({"hash", "workspace_id", "updated_at", "address", "agent"})


class FieldChange(NamedTuple):
    """What a field was and became, in words; one of both is empty where an object was made or
    deleted."""

    name: str
    before: str
    after: str


class ChangeRow(NamedTuple):
    """One change, in words."""

    record: AuditRecord

    @property
    def by(self) -> str:
        record = self.record
        if record.operator is not None:
            return record.operator.username
        if record.management_key is not None:
            return f"key {record.management_key.name}"
        return f"command {record.command}"

    @property
    def what(self) -> str:
        return f"{self.record.object_type.replace('_', ' ')} {self.record.action}"

    @property
    def changes(self) -> str:
        """`limit: $5.00 → $7.00`, shortened."""
        text = self.all_changes
        return text if len(text) <= _WORDS_MAX else text[:_WORDS_MAX] + "…"

    @property
    def all_changes(self) -> str:
        """The same in full."""
        if self.is_update:
            parts = [f"{each.name}: {each.before} → {each.after}" for each in self.fields]
        else:
            parts = [f"{each.name}: {each.before or each.after}" for each in self.fields]
        return ", ".join(parts)

    @property
    def is_update(self) -> bool:
        """Whether the object was there before and after."""
        return bool(self.record.before and self.record.after)

    @property
    def fields(self) -> list[FieldChange]:
        """What was changed; of an object that was made or deleted, all that it had."""
        before, after = self.record.before or {}, self.record.after or {}
        names = [n for n in dict.fromkeys([*before, *after]) if n not in _HIDDEN]
        if self.is_update:
            return [
                FieldChange(_name(n), _say(n, before.get(n)), _say(n, after.get(n))) for n in names
            ]
        return [
            FieldChange(
                _name(n), _say(n, before[n]) if before else "", _say(n, after[n]) if after else ""
            )
            for n in names
            if (before or after)[n] is not None
        ]


def _name(field: str) -> str:
    return field.removesuffix("_nano").replace("_", " ")


def _say(field: str, value: Any) -> str:
    if value is None:
        return "none"
    if field.endswith("_nano") and isinstance(value, int):
        return format_money(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def find_change(scope: Scope, number: int) -> ChangeRow:
    """The change of that number. Raises `Http404` where it is not the account's."""
    rows = AuditRecord.objects.select_related("operator", "management_key")
    return ChangeRow(get_object_or_404(rows, account=scope.account, pk=number))


def select_changes(scope: Scope, wanted: Mapping[str, str]) -> QuerySet[AuditRecord]:
    """Changes to the account's objects, narrowed to a `kind` of object, and to its id or a person
    (`text`)."""
    rows = AuditRecord.objects.filter(account=scope.account)
    if kind := wanted["kind"]:
        rows = rows.filter(object_type=kind.replace(" ", "_")[:32])
    if text := wanted["text"]:
        rows = rows.filter(Q(object_id=text) | Q(operator__username=text))
    return rows.select_related("operator", "management_key")
