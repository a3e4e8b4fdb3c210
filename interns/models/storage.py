"""What is stored for interns: archives of their disks; vaults, whose secrets are bound to host
names, of a workspace or of one intern."""

import uuid

from django.db import models
from django.db.models import F, Q

from accounts.models import Account, Workspace
from interns.models.intern import Intern


class WorkspaceArchive(models.Model):
    """One verified archive. It outlives its intern, so it names it by value.

    `uri` is what the archive storage calls it; `files` counts regular files. Until `expires_at` it
    is kept. One of an intern that was only stopped holds what `boot_id` left on the disk. It is no
    longer the disk once a later boot has begun.
    """

    class Source(models.TextChoices):
        TEARDOWN = "teardown", "Teardown"
        STOPPED = "stopped", "While it was stopped"
        OPERATOR = "operator", "Added by hand"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    intern_id = models.UUIDField()
    intern_name = models.CharField(max_length=17)
    account = models.ForeignKey(
        Account,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    workspace_id = models.UUIDField()
    uri = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=64)
    bytes = models.BigIntegerField()
    files = models.BigIntegerField(default=0)
    source = models.CharField(max_length=16, choices=Source.choices, default=Source.TEARDOWN)
    boot_id = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(F("intern_id"), F("created_at").desc(), name="interns_archive_intern"),
            models.Index(F("expires_at"), name="interns_archive_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.intern_name} {self.created_at:%Y-%m-%d %H:%M}"


class Vault(models.Model):
    """A data key of its own, sealed, and the secrets under it. Without an intern it is the
    workspace's. `master_key_id` names the master key that the data key is wrapped with."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="vaults")
    # Teardown removes the vault before the row; nothing else may.
    intern = models.OneToOneField(
        Intern, on_delete=models.PROTECT, related_name="vault", null=True, blank=True
    )
    sealed_data_key = models.TextField(editable=False)
    master_key_id = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="interns_vault_one_per_workspace",
                fields=["workspace"],
                condition=Q(intern__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"vault of {self.intern or self.workspace}"


class VaultSecret(models.Model):
    """One secret. `managed` ones are the gateway's own, such as the intern's API key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The constraint's index begins with it.
    vault = models.ForeignKey(
        Vault, on_delete=models.CASCADE, related_name="secrets", db_index=False
    )
    name = models.CharField(max_length=255)
    sealed = models.TextField(editable=False)
    hosts = models.JSONField(null=True)
    fingerprint = models.CharField(max_length=71, null=True, editable=False)
    managed = models.BooleanField(default=False, editable=False)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="interns_secret_name_once_per_vault", fields=["vault", "name"]
            ),
        ]

    def __str__(self) -> str:
        return self.name
