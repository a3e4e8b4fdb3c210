"""API keys: only the SHA-256 of the key string is kept."""

from datetime import datetime

from django.db import models
from django.db.models import Q

from accounts.models.account import Account, User, Workspace


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime) -> "ApiKeyQuerySet":
        """Keys that open a door at `now`: neither deleted, disabled nor expired."""
        alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
        return self.filter(alive, deleted_at__isnull=True, disabled=False)


class ApiKey(models.Model):
    """A credential of an account: inference keys live in a workspace, management keys do not."""

    class Kind(models.TextChoices):
        INFERENCE = "inference", "Inference"
        MANAGEMENT = "management", "Management"

    class Reset(models.TextChoices):
        DAILY = "daily", "Daily (UTC)"
        WEEKLY = "weekly", "Weekly (Monday, UTC)"
        MONTHLY = "monthly", "Monthly (UTC)"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="keys")
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="keys", null=True, blank=True
    )
    creator = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="keys", null=True, blank=True
    )
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.INFERENCE)
    name = models.CharField(max_length=100)
    hash = models.CharField(max_length=64, unique=True, editable=False)
    label = models.CharField(max_length=40, editable=False)
    disabled = models.BooleanField(default=False)
    limit_nano = models.BigIntegerField(null=True, blank=True)
    limit_reset = models.CharField(
        max_length=8,
        choices=Reset.choices,
        null=True,
        blank=True,
    )
    include_byok_in_limit = models.BooleanField(default=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(
                name="accounts_apikey_workspace_fits_kind",
                condition=Q(kind="inference", workspace__isnull=False)
                | Q(kind="management", workspace__isnull=True),
            ),
            models.CheckConstraint(
                name="accounts_apikey_limit_not_negative",
                condition=Q(limit_nano__isnull=True) | Q(limit_nano__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.label})"

    @property
    def is_management(self) -> bool:
        return self.kind == self.Kind.MANAGEMENT
