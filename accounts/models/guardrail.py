"""Guardrails: what requests are held to, whoever makes them; and whom each of them governs."""

import uuid
from typing import Any, Final

from django.db import models
from django.db.models import F, Q

from accounts.models.account import Membership, User, Workspace
from accounts.models.budget import Enforcement
from accounts.models.key import ApiKey

DATA_REGIONS: Final = ("global", "europe", "us")


def _list() -> Any:
    return models.JSONField(null=True, blank=True, default=None)


class LivingGuardrails(models.Manager["Guardrail"]):
    """Guardrails that were not deleted, alone or with their workspace."""

    def get_queryset(self) -> models.QuerySet["Guardrail"]:
        living = {"deleted_at__isnull": True, "workspace__deleted_at__isnull": True}
        return super().get_queryset().filter(**living)


class Guardrail(models.Model):
    """What a workspace, a member or a key is held to; null says nothing.

    It belongs to a workspace, and governs whoever it is assigned to in the whole account. The one
    with `is_default` has the workspace's `default_guardrail_id` and governs all of its traffic
    without an assignment. Models are kept by canonical slug. Money is nano-USD; a limit and the
    interval it is reset at come together.
    """

    class Reset(models.TextChoices):
        DAILY = "daily", "Daily (UTC)"
        WEEKLY = "weekly", "Weekly (Monday, UTC)"
        MONTHLY = "monthly", "Monthly (UTC)"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The index below begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="guardrails", db_index=False
    )
    is_default = models.BooleanField(default=False, editable=False)
    name = models.CharField(max_length=200)
    description = models.CharField(max_length=1000, null=True, blank=True, default=None)
    limit_nano = models.BigIntegerField(null=True, blank=True, default=None)
    reset_interval = models.CharField(
        max_length=8, choices=Reset.choices, null=True, blank=True, default=None
    )
    budget_enforcement = models.CharField(
        max_length=5, choices=Enforcement.choices, default="block", db_default="block"
    )
    include_byok_in_budgets = models.BooleanField(default=False)
    allowed_models = _list()
    ignored_models = _list()
    allowed_providers = _list()
    ignored_providers = _list()
    enforce_zdr_anthropic = models.BooleanField(null=True, blank=True, default=None)
    enforce_zdr_openai = models.BooleanField(null=True, blank=True, default=None)
    enforce_zdr_google = models.BooleanField(null=True, blank=True, default=None)
    enforce_zdr_xai = models.BooleanField(null=True, blank=True, default=None)
    enforce_zdr_other = models.BooleanField(null=True, blank=True, default=None)
    enable_paid_model_training = models.BooleanField(null=True, blank=True, default=None)
    enable_free_model_training = models.BooleanField(null=True, blank=True, default=None)
    enable_free_model_publication = models.BooleanField(null=True, blank=True, default=None)
    content_filters = _list()
    content_filter_builtins = _list()
    output_filters = _list()
    output_filter_builtins = _list()
    output_shadow = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Output filters only count what they would have done.",
    )
    enforce_schema = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Answers that do not fit their request's JSON schema are asked for once more.",
    )
    external_guards = _list()
    allowed_data_regions = _list()
    # Counts the changes, so that of two at a time one is refused.
    revision = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = LivingGuardrails()
    everything = models.Manager["Guardrail"]()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_guardrail_one_default",
                fields=["workspace"],
                condition=Q(is_default=True),
            ),
            models.CheckConstraint(
                name="accounts_guardrail_limit_has_interval",
                condition=Q(limit_nano__isnull=True, reset_interval__isnull=True)
                | Q(
                    limit_nano__gt=0,
                    limit_nano__isnull=False,
                    reset_interval__isnull=False,
                    reset_interval__in=["daily", "weekly", "monthly"],
                ),
            ),
            models.CheckConstraint(
                name="accounts_guardrail_budget_enforcement_known",
                condition=Q(budget_enforcement__in=["block", "warn"]),
            ),
        ]
        indexes = [
            models.Index(
                F("workspace"), F("created_at").desc(), F("id"), name="accounts_guardrail_newest"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class _Assignment(models.Model):
    """Whom a guardrail governs, and which user's management key said so."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    assigned_by = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", null=True, blank=True, editable=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True


def living_assignments(assignments: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Those to guardrails that are there."""
    return assignments.filter(
        guardrail__deleted_at__isnull=True, guardrail__workspace__deleted_at__isnull=True
    )


class GuardrailKey(_Assignment):
    """The guardrail of a key: one at most."""

    guardrail = models.ForeignKey(
        Guardrail, on_delete=models.CASCADE, related_name="key_assignments"
    )
    api_key = models.OneToOneField(
        ApiKey, on_delete=models.CASCADE, related_name="guardrail_assignment"
    )

    class Meta:
        verbose_name = "key under a guardrail"
        verbose_name_plural = "keys under guardrails"

    def __str__(self) -> str:
        return f"{self.api_key} under {self.guardrail}"


class GuardrailMember(_Assignment):
    """The guardrail of a member of the account, one at most: it governs the keys that the member
    created, beside their own. A user who leaves the account leaves it too."""

    guardrail = models.ForeignKey(
        Guardrail, on_delete=models.CASCADE, related_name="member_assignments"
    )
    membership = models.OneToOneField(
        Membership, on_delete=models.CASCADE, related_name="guardrail_assignment"
    )

    class Meta:
        verbose_name = "member under a guardrail"
        verbose_name_plural = "members under guardrails"

    def __str__(self) -> str:
        return f"{self.membership} under {self.guardrail}"
