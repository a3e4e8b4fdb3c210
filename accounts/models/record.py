"""Audit records: who changed what, when, from what to what. Rows are added and then kept."""

from typing import Any, NoReturn

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q

from accounts.models.account import Account, User
from accounts.models.key import ApiKey
from gateway.http.address import AGENT_CHARS_MAX


class AppendOnly(Exception):
    """Somebody tried to change or remove what is kept as it was written."""


class AuditRecordQuerySet(models.QuerySet["AuditRecord"]):
    """Reads, and `create`. Triggers refuse what goes past the ORM, too."""

    def update(self, **changes: object) -> NoReturn:
        raise AppendOnly("audit records are kept as they were written")

    def delete(self) -> NoReturn:
        raise AppendOnly("audit records are kept as they were written")

    def _raw_delete(self, using: str | None) -> NoReturn:
        raise AppendOnly("audit records are kept as they were written")


class AuditRecord(models.Model):
    """One change of one object. `before` and `after` hold the fields that moved, no secrets.

    Exactly one of `operator`, `management_key` and `command` says who. `before` is null for what
    was made, `after` for what is gone. `address` and `agent` are those of the request that did it,
    null where it was none.
    """

    at = models.DateTimeField()
    # A record outlives its subject. The index below begins with the account.
    account = models.ForeignKey(
        Account,
        on_delete=models.DO_NOTHING,
        related_name="+",
        null=True,
        db_index=False,
        db_constraint=False,
    )
    operator = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", null=True)
    management_key = models.ForeignKey(
        ApiKey, on_delete=models.PROTECT, related_name="+", null=True
    )
    command = models.CharField(max_length=64, blank=True, default="")
    action = models.CharField(max_length=32)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=64)
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    address = models.CharField(max_length=64, null=True)
    agent = models.CharField(max_length=AGENT_CHARS_MAX, null=True)

    objects = AuditRecordQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_auditrecord_one_author",
                condition=Q(operator__isnull=False, management_key__isnull=True, command="")
                | Q(operator__isnull=True, management_key__isnull=False, command="")
                | (Q(operator__isnull=True, management_key__isnull=True) & ~Q(command="")),
            ),
        ]
        indexes = [
            models.Index(F("account"), F("id").desc(), name="accounts_record_account"),
            models.Index(
                F("object_type"), F("object_id"), F("id").desc(), name="accounts_record_object"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.object_type} {self.object_id} {self.action}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("audit records are kept as they were written")
        super().save(*args, **options)

    def delete(self, *args: object, **options: object) -> NoReturn:
        raise AppendOnly("audit records are kept as they were written")
