"""Archives of interns' workspace disks."""

import uuid

from django.db import models
from django.db.models import F

from accounts.models import Account


class WorkspaceArchive(models.Model):
    """One verified archive. It outlives its intern, so it names it by value.

    `uri` is what the archive storage calls it; `files` counts regular files. Until `expires_at` it
    is kept. One of an intern that was only stopped holds what `boot_id` left on the disk, and is no
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
