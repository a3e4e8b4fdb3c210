"""People and groups as an identity provider's directory has them, and what groups mean here."""

import uuid
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from accounts.models.account import Account, User, Workspace, WorkspaceMembership
from accounts.models.identity import ClaimMapping


class ScimUser(models.Model):
    """A person of a directory. While `active` it is a member of the account.

    `attributes` are those that the directory sent and nothing here reads, as it sent them. Beside
    them stands which identity provider brought the person, or took them out. `has_own_user` says
    that the user was made for it, so that its name and address follow the directory. `groups` are
    the directory's; `claimed_groups` and `claim_mappings` are what claims gave at the last sign-in.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="scim_users")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="scim_users")
    user_name = models.CharField(max_length=255)
    external_id = models.CharField(max_length=255, null=True, blank=True)
    active = models.BooleanField(default=True)
    has_own_user = models.BooleanField(default=False)
    attributes = models.JSONField(default=dict, blank=True)
    claimed_groups: "models.ManyToManyField[ScimGroup, Any]" = models.ManyToManyField(
        "ScimGroup", related_name="claimants", blank=True
    )
    claim_mappings: "models.ManyToManyField[ClaimMapping, Any]" = models.ManyToManyField(
        ClaimMapping, related_name="people", blank=True
    )
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name = "directory user"
        constraints = [
            models.UniqueConstraint(
                name="accounts_scimuser_once_per_account", fields=["account", "user"]
            ),
            models.UniqueConstraint(
                Lower("user_name"), "account", name="accounts_scimuser_name_once_per_account"
            ),
        ]

    def __str__(self) -> str:
        return self.user_name


class DeletedScimUser(models.Model):
    """A person whom a directory deleted: no identity provider brings them back into the account.

    The row goes when the directory has the person again, or when an operator deletes it.
    """

    account = models.ForeignKey(
        Account, on_delete=models.CASCADE, related_name="deleted_scim_users"
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="deleted_scim_users")
    user_name = models.CharField(max_length=255)
    external_id = models.CharField(max_length=255, null=True, blank=True)
    has_own_user = models.BooleanField(default=False)
    switched_off = models.BooleanField(
        default=False,
        db_default=False,
        help_text="By the deletion; whoever was before stays so when the directory has them again.",
    )
    deleted_at = models.DateTimeField()

    class Meta:
        verbose_name = "deleted directory user"
        constraints = [
            models.UniqueConstraint(
                name="accounts_deletedscimuser_once_per_account", fields=["account", "user"]
            ),
        ]

    def __str__(self) -> str:
        return self.user_name


class LivingGroups(models.Manager["ScimGroup"]):
    """Groups that were not deleted; a sync job removes the rows of the others."""

    def get_queryset(self) -> models.QuerySet["ScimGroup"]:
        return super().get_queryset().filter(deleted_at__isnull=True)


class ScimGroup(models.Model):
    """A group of a directory, and who is in it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="scim_groups")
    display_name = models.CharField(max_length=255)
    external_id = models.CharField(max_length=255, null=True, blank=True)
    members = models.ManyToManyField(ScimUser, related_name="groups", blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = LivingGroups()
    everything = models.Manager["ScimGroup"]()

    class Meta:
        verbose_name = "directory group"
        constraints = [
            models.UniqueConstraint(
                name="accounts_scimgroup_name_once_per_account",
                fields=["account", "display_name"],
                condition=Q(deleted_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.display_name


class ScimGroupMapping(models.Model):
    """Members of the group are in the workspace, with this role at least."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    group = models.ForeignKey(ScimGroup, on_delete=models.CASCADE, related_name="mappings")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=8, choices=WorkspaceMembership.Role.choices)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        verbose_name = "group mapping"
        constraints = [
            models.UniqueConstraint(
                name="accounts_scimgroupmapping_once", fields=["group", "workspace"]
            ),
            models.CheckConstraint(
                name="accounts_scimgroupmapping_role_known",
                condition=Q(role__in=["admin", "member", "viewer"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.group} in {self.workspace} as {self.role}"


class ScimSyncJob(models.Model):
    """One run over an account's groups: memberships follow the mappings, deleted groups go."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")
    management_key = models.ForeignKey(
        "accounts.ApiKey", on_delete=models.PROTECT, related_name="+"
    )
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.QUEUED)
    synced_groups = models.PositiveIntegerField(null=True)
    deleted_groups = models.PositiveIntegerField(null=True)
    error_message = models.CharField(max_length=200, null=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                name="accounts_scimsyncjob_open",
                fields=["created_at"],
                condition=Q(status__in=["queued", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.pk}"
