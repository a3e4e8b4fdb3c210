"""Conversations with interns: sessions, runs, and what a run asks."""

import uuid

from django.db import models
from django.db.models import F, Q

from accounts.models import User
from interns.models.intern import Intern


class ChatSession(models.Model):
    """A conversation by the id its caller or the gateway gave it."""

    # The constraint's index begins with it.
    intern = models.ForeignKey(
        Intern, on_delete=models.CASCADE, related_name="sessions", db_index=False
    )
    session_id = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="interns_session_once_per_intern", fields=["intern", "session_id"]
            ),
        ]

    def __str__(self) -> str:
        return self.session_id


class ChatRun(models.Model):
    """One turn, from the prompt to its end. At most one of an intern is open.

    The stream renews the lease; a `waiting` one has none, its question has a deadline.
    `ended_because` is a reason of the API, such as `run_ended`, "" for a turn that ended well.
    """

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        WAITING = "waiting", "Waiting for an answer"
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    class ApprovalMode(models.TextChoices):
        SELF_DRIVE = "self-drive", "Self-drive"
        MANUAL = "manual", "Manual"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    intern = models.ForeignKey(Intern, on_delete=models.CASCADE, related_name="runs")
    session = models.ForeignKey(ChatSession, on_delete=models.CASCADE, related_name="runs")
    by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", null=True)
    approval_mode = models.CharField(
        max_length=16, choices=ApprovalMode.choices, default=ApprovalMode.SELF_DRIVE
    )
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    lease_id = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_because = models.CharField(max_length=40, blank=True, default="")
    usage = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="interns_run_one_open_per_intern",
                fields=["intern"],
                condition=Q(state__in=["running", "waiting"]),
            ),
            models.CheckConstraint(
                name="interns_run_ended_when_closed",
                condition=Q(state__in=["running", "waiting"], ended_at__isnull=True)
                | (~Q(state__in=["running", "waiting"]) & Q(ended_at__isnull=False)),
            ),
        ]
        indexes = [
            models.Index(F("intern"), F("started_at").desc(), name="interns_run_time"),
        ]

    def __str__(self) -> str:
        return f"turn of {self.started_at:%Y-%m-%d %H:%M:%S}"


class ChatInteraction(models.Model):
    """A question a run waits with. `arguments` is what the caller was shown; the answer itself is
    kept nowhere, `answered_with` only says which kind it was."""

    class Kind(models.TextChoices):
        PERMISSION = "permission", "Permission"
        ELICITATION = "elicitation", "Elicitation"

    class State(models.TextChoices):
        PENDING = "pending", "Pending"
        ANSWERED = "answered", "Answered"
        EXPIRED = "expired", "Expired"
        CANCELLED = "cancelled", "Cancelled"

    # The constraint's index begins with it.
    run = models.ForeignKey(
        ChatRun, on_delete=models.CASCADE, related_name="interactions", db_index=False
    )
    tool_call_id = models.CharField(max_length=128)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    arguments = models.JSONField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    answered_with = models.CharField(max_length=16, blank=True, default="")
    asked_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="interns_interaction_once_per_run", fields=["run", "tool_call_id"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.tool_call_id}"
