"""What a workspace may spend."""

import uuid

from django.db import models
from django.db.models import Q

from accounts.models.account import Workspace


class Enforcement(models.TextChoices):
    """What a limit does when it is spent."""

    BLOCK = "block", "Refuse requests"
    WARN = "warn", "Only tell"


class WorkspaceBudget(models.Model):
    """The most that all keys of a workspace together may spend in each interval (UTC).

    Whether spending on credentials of the account's own counts is the workspace's to say, for all
    its budgets. Change them through `accounts.services.workspace_budgets`.
    """

    class Interval(models.TextChoices):
        LIFETIME = "lifetime", "Lifetime"
        MONTHLY = "monthly", "Monthly (UTC)"
        WEEKLY = "weekly", "Weekly (Monday, UTC)"
        DAILY = "daily", "Daily (UTC)"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The constraint's index begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="budgets", db_index=False
    )
    interval = models.CharField(max_length=8, choices=Interval.choices)
    limit_nano = models.BigIntegerField()
    enforcement = models.CharField(
        max_length=5, choices=Enforcement.choices, default="block", db_default="block"
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_workspacebudget_once_per_interval", fields=["workspace", "interval"]
            ),
            models.CheckConstraint(
                name="accounts_workspacebudget_limit_positive", condition=Q(limit_nano__gt=0)
            ),
            models.CheckConstraint(
                name="accounts_workspacebudget_enforcement_known",
                condition=Q(enforcement__in=["block", "warn"]),
            ),
            models.CheckConstraint(
                name="accounts_workspacebudget_interval_known",
                condition=Q(interval__in=["lifetime", "monthly", "weekly", "daily"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workspace} {self.interval}"
