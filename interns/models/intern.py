"""Interns (settings, place in the status machine, the lease of what is done to them), their history
and the machines that run them."""

import uuid
from typing import Any, Final, NoReturn

from django.db import models
from django.db.models import F, Q

from accounts.models import Account, ApiKey, User, Workspace
from accounts.models.record import AppendOnly
from gateway.environment.interns import DEFAULT_HOST

NAME_CHARS_MAX: Final = 17
DESCRIPTION_CHARS_MAX: Final = 2_000
INSTRUCTIONS_CHARS_MAX: Final = 100_000
MODEL_CHARS_MAX: Final = 200
HOST_NAME_CHARS_MAX: Final = 253


class Status(models.TextChoices):
    """Where an intern stands. A destroyed one has no row."""

    AWAITING_SLACK_INSTALL = "awaiting_slack_install", "Never booted"
    QUEUED = "queued", "Queued"
    PROVISIONING = "provisioning", "Provisioning"
    RUNNING = "running", "Running"
    FAILED = "failed", "Failed"
    STOPPED = "stopped", "Stopped"
    DESTROYING = "destroying", "Destroying"
    DESTROY_FAILED = "destroy_failed", "Teardown failed"


class LeaseKind(models.TextChoices):
    """Which operation holds an intern."""

    PROVISION = "provision", "Provision"
    SUSPEND = "suspend", "Suspend"
    DELETE = "delete", "Delete"


class Intern(models.Model):
    """One intern. The row is the truth; messages and runtimes follow it.

    `lease_id` is the fencing token of the operation that holds the intern: each write for an
    operation names it. It changes when a worker picks the operation up and when the reaper hands it
    on. `operation_id` does not change: it names the operation, and the runtime which that boots. A
    settled intern has neither, but for `running` while it is being suspended. `progress_step`
    counts from 1. `booted_at` is when a runtime was first begun: from then on there may be files.
    `status_reason` says what led to the status, where a caller did not. `host` names the machine
    that carries out what is done to it, `disk_host` the one where its disk lies once it was booted.
    They differ while it moves. `is_disk_partial` says that an archive is being put onto that disk,
    or was by somebody who did not come to the end of it. `attached_vault_id` is borrowed, and kept
    when its vault is gone. `runtime` holds what the driver reported of the runtime that it started
    last. `budget_nano` becomes the limit of the key.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The constraint's index begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="interns", db_index=False
    )
    creator = models.ForeignKey(User, on_delete=models.PROTECT, related_name="interns")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    description = models.CharField(max_length=DESCRIPTION_CHARS_MAX, blank=True, default="")
    instructions = models.TextField(
        max_length=INSTRUCTIONS_CHARS_MAX, null=True, blank=True, default=None
    )
    model = models.CharField(max_length=MODEL_CHARS_MAX, null=True, blank=True, default=None)

    status = models.CharField(
        max_length=24, choices=Status.choices, default=Status.AWAITING_SLACK_INSTALL, editable=False
    )
    status_since = models.DateTimeField(editable=False)
    status_reason = models.CharField(max_length=500, blank=True, default="", editable=False)
    progress_step = models.PositiveSmallIntegerField(null=True, editable=False)
    last_failure_message = models.CharField(max_length=1000, null=True, editable=False)
    provision_requested = models.BooleanField(default=False, editable=False)
    slack_installed_at = models.DateTimeField(null=True, editable=False)
    hostname = models.CharField(max_length=253, null=True, unique=True, editable=False)
    attached_vault_id = models.UUIDField(null=True, blank=True, editable=False)
    api_key = models.OneToOneField(
        ApiKey, on_delete=models.PROTECT, related_name="+", null=True, editable=False
    )
    budget_nano = models.BigIntegerField(null=True, blank=True, default=None)
    budget_reset = models.CharField(
        max_length=8, choices=ApiKey.Reset.choices, null=True, blank=True, default=None
    )

    lease_id = models.UUIDField(null=True, editable=False)
    lease_kind = models.CharField(
        max_length=16, choices=LeaseKind.choices, blank=True, default="", editable=False
    )
    lease_expires_at = models.DateTimeField(null=True, editable=False)
    lease_attempt = models.PositiveSmallIntegerField(default=0, editable=False)
    operation_id = models.UUIDField(null=True, editable=False)
    operation_since = models.DateTimeField(null=True, editable=False)
    picked_at = models.DateTimeField(null=True, editable=False)
    acknowledge_workspace_loss = models.BooleanField(default=False, editable=False)

    host = models.CharField(
        max_length=HOST_NAME_CHARS_MAX,
        default=DEFAULT_HOST,
        db_default=DEFAULT_HOST,
        editable=False,
    )
    disk_host = models.CharField(
        max_length=HOST_NAME_CHARS_MAX,
        default=DEFAULT_HOST,
        db_default=DEFAULT_HOST,
        editable=False,
    )
    is_disk_partial = models.BooleanField(default=False, db_default=False, editable=False)
    booted_at = models.DateTimeField(null=True, editable=False)
    boot_id = models.UUIDField(null=True, editable=False)
    runtime = models.JSONField(null=True, editable=False)
    failed_probes = models.PositiveSmallIntegerField(default=0, editable=False)
    probed_at = models.DateTimeField(null=True, editable=False)

    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="interns_intern_name_once_per_creator",
                fields=["workspace", "creator", "name"],
            ),
            models.CheckConstraint(
                name="interns_intern_status_known", condition=Q(status__in=Status.values)
            ),
            models.CheckConstraint(
                name="interns_intern_lease_whole",
                condition=Q(
                    lease_id__isnull=True,
                    lease_kind="",
                    lease_expires_at__isnull=True,
                    operation_id__isnull=True,
                )
                | Q(
                    lease_id__isnull=False,
                    lease_kind__in=LeaseKind.values,
                    lease_expires_at__isnull=False,
                    operation_id__isnull=False,
                ),
            ),
            models.CheckConstraint(
                name="interns_intern_lease_fits_status",
                condition=Q(status__in=["queued", "provisioning"], lease_kind="provision")
                | Q(status="destroying", lease_kind="delete")
                | Q(status="running", lease_kind__in=["", "suspend"])
                | Q(
                    status__in=["awaiting_slack_install", "failed", "stopped", "destroy_failed"],
                    lease_kind="",
                ),
            ),
            models.CheckConstraint(
                name="interns_intern_progress_while_provisioning",
                condition=Q(status__in=["queued", "provisioning"], progress_step__gte=1)
                | (~Q(status__in=["queued", "provisioning"]) & Q(progress_step__isnull=True)),
            ),
            models.CheckConstraint(
                name="interns_intern_failure_while_failed",
                condition=Q(last_failure_message__isnull=True)
                | Q(status__in=["failed", "destroy_failed"]),
            ),
            models.CheckConstraint(
                name="interns_intern_budget_not_negative",
                condition=Q(budget_nano__isnull=True) | Q(budget_nano__gte=0),
            ),
        ]
        indexes = [
            models.Index(
                F("workspace"), F("created_at").desc(), F("id").desc(), name="interns_intern_list"
            ),
            models.Index(
                F("lease_expires_at"),
                name="interns_intern_lease_expiry",
                condition=Q(lease_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class InternCreation(models.Model):
    """A create request. `id` is made of workspace, creator and the `Idempotency-Key`, or what the
    server derived in its place. `wants_provision` is true until its provisioning is under way. It
    goes with its intern."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    intern = models.ForeignKey(Intern, on_delete=models.CASCADE, related_name="creations")
    body_hash = models.CharField(max_length=64)
    wants_provision = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(F("expires_at"), name="interns_creation_expiry")]

    def __str__(self) -> str:
        return f"creation of {self.intern_id}"


class InternTransitionQuerySet(models.QuerySet["InternTransition"]):
    """Reads, and `create`."""

    def update(self, **changes: object) -> NoReturn:
        raise AppendOnly("the history of interns is kept as it was written")

    def delete(self) -> NoReturn:
        raise AppendOnly("the history of interns is kept as it was written")


class InternTransition(models.Model):
    """One move of one intern, or something of note that moved nothing (then both are the same).

    `rule` is the row of the table of moves, such as `T13`, "" for a note. No `from_status` is the
    beginning, no `to_status` the end. `by` names who: a user and a key's label, a worker, the
    reaper, an operator, a command. It outlives the intern, so it names it and its account by value.
    """

    intern_id = models.UUIDField()
    intern_name = models.CharField(max_length=17)
    # The index below begins with the intern; a record outlives its subject.
    account = models.ForeignKey(
        Account,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    at = models.DateTimeField()
    rule = models.CharField(max_length=4, blank=True, default="")
    from_status = models.CharField(max_length=24, blank=True, default="")
    to_status = models.CharField(max_length=24, blank=True, default="")
    why = models.CharField(max_length=1000, blank=True, default="")
    by = models.CharField(max_length=200)
    operation_id = models.UUIDField(null=True)

    objects = InternTransitionQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(F("intern_id"), F("id").desc(), name="interns_transition_intern"),
        ]

    def __str__(self) -> str:
        return f"{self.intern_name}: {self.from_status or '-'} to {self.to_status or '-'}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("the history of interns is kept as it was written")
        super().save(*args, **options)

    def delete(self, *args: object, **options: object) -> NoReturn:
        raise AppendOnly("the history of interns is kept as it was written")


class InternHost(models.Model):
    """A machine that runs interns, as its worker of `intern-control` wrote it down at
    `last_seen_at`.

    `home_id` tells two machines of one name apart. `interns` counts those that were placed there
    when the memory was measured. One that is `draining` gets no more. Since `alive_since` no two
    life signs were so far apart that it counted as gone.
    """

    name = models.CharField(primary_key=True, max_length=HOST_NAME_CHARS_MAX)
    home_id = models.UUIDField()
    memory_bytes = models.BigIntegerField()
    free_memory_bytes = models.BigIntegerField()
    interns = models.PositiveIntegerField(default=0)
    draining = models.BooleanField(default=False)
    # Where web processes of other machines reach one of it; "" where they do not.
    url = models.CharField(max_length=512, blank=True, default="", db_default="")
    alive_since = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="interns_host_memory_not_negative",
                condition=Q(memory_bytes__gte=0, free_memory_bytes__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return self.name
