"""Presets and their versions."""

import uuid
from typing import Any, Final, NoReturn

from django.db import models
from django.db.models import F, Q

from accounts.models import Account, User, Workspace
from gateway.http.jsonio import JsonObject, loads

SLUG_CHARS_MAX: Final = 100


class NeverChanged(Exception):
    """A version was about to be changed; versions never change."""


class Preset(models.Model):
    """Settings that requests of one workspace can name. `designated_version` is the one in force.

    `latest_version` is the highest number given out. Raising it takes the row's lock, so no number
    is given twice. A slug stays taken while its preset is archived.
    """

    class Status(models.TextChoices):
        ACTIVE = "active", "Active"
        DISABLED = "disabled", "Disabled: requests do not find it"
        ARCHIVED = "archived", "Archived: and it takes no new version"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The indexes below begin with them.
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="presets", db_index=False, editable=False
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="presets", db_index=False, editable=False
    )
    slug = models.CharField(max_length=SLUG_CHARS_MAX, editable=False)
    name = models.CharField(max_length=100)
    description = models.CharField(max_length=500, null=True, blank=True, default=None)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)
    status_updated_at = models.DateTimeField(null=True, editable=False)
    creator = models.ForeignKey(
        User,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        db_index=False,
        editable=False,
    )
    # The two tables name each other, and go together when their workspace is deleted.
    designated_version = models.ForeignKey(
        "PresetVersion", on_delete=models.DO_NOTHING, related_name="+", db_index=False
    )
    latest_version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="routing_preset_slug_once_per_workspace", fields=["workspace", "slug"]
            ),
            models.CheckConstraint(
                name="routing_preset_status_known",
                condition=Q(status__in=["active", "disabled", "archived"]),
            ),
        ]
        indexes = [
            models.Index(
                F("workspace"), F("updated_at").desc(), F("id"), name="routing_preset_workspace"
            ),
            models.Index(
                F("account"), F("updated_at").desc(), F("id"), name="routing_preset_account"
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class PresetVersions(models.QuerySet["PresetVersion"]):
    """Reads, `create`, and `delete` for when the workspace goes."""

    def update(self, **changes: object) -> NoReturn:
        raise NeverChanged("versions of presets stay as they were made")


class PresetVersion(models.Model):
    """One state of a preset. `config` is JSON text: property order is part of what is sent on, and
    a database's own JSON would lose it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    preset = models.ForeignKey(
        Preset, on_delete=models.DO_NOTHING, related_name="versions", db_index=False
    )
    version = models.PositiveIntegerField()
    config = models.TextField(default="{}")
    system_prompt = models.TextField(blank=True, default="")
    creator = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    created_at = models.DateTimeField()

    objects = PresetVersions.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="routing_presetversion_number_once", fields=["preset", "version"]
            ),
            models.CheckConstraint(
                name="routing_presetversion_from_one", condition=Q(version__gte=1)
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.version}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise NeverChanged("versions of presets stay as they were made")
        super().save(*args, **options)

    @property
    def settings(self) -> JsonObject:
        """`config`, read."""
        config: JsonObject = loads(self.config.encode())
        return config
