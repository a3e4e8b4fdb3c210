"""Requests that are to happen once, however often they are sent."""

import uuid

from django.db import models
from django.db.models import F, Q

from accounts.models.account import Account
from accounts.models.key import ApiKey


class RepeatableRequest(models.Model):
    """A POST that came with an `Idempotency-Key`: under way until `finished_at`, then answered.

    `id` is made of the key that called, the path and the header, which is not kept itself. The
    request that carries it out owns `lease_id`, and every later write names it; past `lease_until`
    nobody does. `generation_id` is what an inference request is charged under, `made` what a
    management request made. `sealed_answer` is the body, encrypted for this row, until
    `answer_until`; null where the body is not to be kept.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    path = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    lease_id = models.UUIDField()
    lease_until = models.DateTimeField()
    generation_id = models.CharField(max_length=64, null=True)
    made = models.CharField(max_length=64, blank=True, default="")
    status = models.PositiveSmallIntegerField(null=True)
    sealed_answer = models.TextField(null=True)
    answer_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_repeatablerequest_answer_has_an_end",
                condition=Q(sealed_answer__isnull=True) | Q(answer_until__isnull=False),
            ),
        ]
        indexes = [
            models.Index(F("expires_at"), name="accounts_repeatable_expiry"),
            models.Index(
                F("answer_until"),
                name="accounts_repeatable_answers",
                condition=Q(sealed_answer__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.path} {self.created_at:%Y-%m-%d %H:%M:%S}"
