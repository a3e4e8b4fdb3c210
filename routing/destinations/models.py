"""The rows of destinations."""

import uuid
from typing import Final

from django.db import models
from django.db.models import Q

from accounts.models import Account, Workspace

# Data regions whose requests a destination may get.
REGIONS: Final = ("global", "europe", "us")


def list_regions() -> list[str]:
    return list(REGIONS)


class Destination(models.Model):
    """A receiver of one workspace's generations.

    `config` may be shown, `sealed` are its secrets. `api_key_ids` are numbers of keys, null for all
    of the workspace's. `drops_in_row` counts the traces dropped since the last delivery, `dropped`
    all of them, `delivered` those that arrived. `last_error` says why the last delivery failed.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="destinations", db_index=False
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="destinations", db_index=False
    )
    type = models.CharField(max_length=32)
    name = models.CharField(max_length=255)
    config = models.JSONField(default=dict)
    sealed = models.TextField(editable=False)
    enabled = models.BooleanField(default=True)
    privacy_mode = models.BooleanField(default=False)
    sampling_rate = models.FloatField(default=1)
    api_key_ids = models.JSONField(null=True, blank=True, default=None)
    filter_rules = models.JSONField(null=True, blank=True, default=None)
    broadcast_generation_cost = models.BooleanField(default=False)
    broadcast_generation_cost_allocation = models.BooleanField(default=False)
    broadcast_generation_identity = models.BooleanField(default=False)
    broadcast_generation_request_context = models.BooleanField(default=False)
    regions = models.JSONField(default=list_regions)
    version = models.PositiveIntegerField(default=0, editable=False)
    delivered = models.BigIntegerField(default=0, editable=False)
    dropped = models.BigIntegerField(default=0, editable=False)
    drops_in_row = models.PositiveIntegerField(default=0, editable=False)
    last_error = models.CharField(max_length=200, blank=True, default="", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="routing_destination_samples_a_share",
                condition=Q(sampling_rate__gt=0, sampling_rate__lte=1),
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "type"], name="routing_destination_workspace"),
            models.Index(fields=["account", "created_at"], name="routing_destination_account"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.type})"
