"""Credentials of a team's own at a provider."""

import uuid

from django.db import models
from django.db.models import F, Q

from accounts.models.account import Account, Workspace


class ByokCredentialQuerySet(models.QuerySet["ByokCredential"]):
    def living(self) -> "ByokCredentialQuerySet":
        """Those that were not deleted."""
        return self.filter(deleted_at__isnull=True)

    def reaching(self, workspace_id: object) -> "ByokCredentialQuerySet":
        """Those of the workspace, and those for all workspaces."""
        return self.filter(Q(workspace=workspace_id) | Q(workspace__isnull=True))


class ByokCredential(models.Model):
    """A provider's key that a team brought. It is sealed for its own row and shown to nobody.

    Without a workspace it serves all of the account's. `sort_order` counts from 0 in its section:
    the workspace's prioritised or its fallback credentials. The three lists narrow its use, null
    narrows nothing: model ids, numbers of keys, public ids of users. Where it `is_required`, the
    gateway's own credential does not serve the models it is for; where it `is_byok_only`, none of
    the provider's. `version` counts the changes.
    `key_said` is what the provider made of the key when it was given.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The index below begins with it.
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="byok_credentials", db_index=False
    )
    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.PROTECT,
        related_name="byok_credentials",
        null=True,
        blank=True,
    )
    provider = models.CharField(max_length=64)
    name = models.CharField(max_length=255, null=True, blank=True, default=None)
    label = models.CharField(max_length=32, editable=False)
    sealed = models.TextField(blank=True, default="", editable=False)
    disabled = models.BooleanField(default=False)
    is_fallback = models.BooleanField(default=False)
    is_required = models.BooleanField(default=False, db_default=False)
    is_byok_only = models.BooleanField(default=False, db_default=False)
    sort_order = models.PositiveIntegerField(default=0)
    allowed_models = models.JSONField(null=True, blank=True, default=None)
    allowed_key_ids = models.JSONField(null=True, blank=True, default=None)
    allowed_user_ids = models.JSONField(null=True, blank=True, default=None)
    version = models.PositiveIntegerField(default=0, editable=False)
    key_said = models.CharField(max_length=200, blank=True, default="", editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ByokCredentialQuerySet.as_manager()

    class Meta:
        verbose_name = "BYOK credential"
        verbose_name_plural = "BYOK credentials"
        constraints = [
            models.UniqueConstraint(
                name="accounts_byok_one_place_per_workspace",
                fields=["workspace", "is_fallback", "sort_order"],
                condition=Q(workspace__isnull=False, deleted_at__isnull=True),
            ),
            models.UniqueConstraint(
                name="accounts_byok_one_place_per_account",
                fields=["account", "is_fallback", "sort_order"],
                condition=Q(workspace__isnull=True, deleted_at__isnull=True),
            ),
            models.CheckConstraint(
                name="accounts_byok_only_is_no_fallback",
                condition=Q(is_byok_only=False) | Q(is_fallback=False),
            ),
            models.CheckConstraint(
                name="accounts_byok_deleted_is_wiped",
                condition=(Q(deleted_at__isnull=True) & ~Q(sealed=""))
                | Q(deleted_at__isnull=False, sealed=""),
            ),
        ]
        indexes = [
            models.Index(F("account"), F("created_at").desc(), name="accounts_byok_account_time"),
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.label}"
