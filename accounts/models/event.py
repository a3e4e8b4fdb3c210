"""What leads and operators hear of, the channels they hear it on, and what became of it there."""

import uuid

from django.db import models
from django.db.models import F, Q

from accounts.models.account import Account, Workspace


class Event(models.Model):
    """Something that happened once. `key` names the crossing, so that nobody records it twice.

    Without an account it is of the gateway as a whole. `channels_found_at` is null until its
    deliveries are made. `data` holds what programs read, without secrets.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=48)
    key = models.CharField(max_length=255, unique=True)
    # The index below begins with it.
    account = models.ForeignKey(
        Account, on_delete=models.CASCADE, related_name="+", null=True, db_index=False
    )
    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.CASCADE,
        related_name="+",
        null=True,
        db_index=False,
        db_constraint=False,
    )
    title = models.CharField(max_length=200)
    text = models.TextField()
    data = models.JSONField(default=dict)
    at = models.DateTimeField()
    channels_found_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(F("account"), F("at").desc(), name="accounts_event_account_time"),
            models.Index(
                F("at"), name="accounts_event_new", condition=Q(channels_found_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return self.title


class LivingChannels(models.Manager["Channel"]):
    """Channels that were not deleted. The rows of the others stay, because deliveries name them."""

    def get_queryset(self) -> models.QuerySet["Channel"]:
        return super().get_queryset().filter(deleted_at__isnull=True)


class Channel(models.Model):
    """Where events are sent to. Without an account it is the operator's and gets those of all
    accounts; with a workspace it gets those of that workspace only.

    `kinds` null wants every kind. `recipients` are addresses of e-mail. The URL of the other types
    is sealed, because it may be a secret; `label` shows its host. `sealed_secret` signs webhooks.
    """

    class Type(models.TextChoices):
        EMAIL = "email", "E-mail"
        WEBHOOK = "webhook", "Webhook"
        SLACK = "slack", "Slack"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(
        Account, on_delete=models.CASCADE, related_name="channels", null=True, blank=True
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="channels", null=True, blank=True
    )
    name = models.CharField(max_length=100)
    type = models.CharField(max_length=8, choices=Type.choices)
    kinds = models.JSONField(null=True, blank=True, default=None)
    recipients = models.JSONField(null=True, blank=True, default=None)
    label = models.CharField(max_length=300, editable=False)
    sealed_url = models.TextField(blank=True, default="", editable=False)
    sealed_secret = models.TextField(blank=True, default="", editable=False)
    disabled = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True, editable=False)
    deleted_at = models.DateTimeField(null=True, editable=False)

    objects = LivingChannels()
    everything = models.Manager["Channel"]()

    class Meta:
        verbose_name = "notification channel"
        constraints = [
            models.CheckConstraint(
                name="accounts_channel_type_known",
                condition=Q(type__in=["email", "webhook", "slack"]),
            ),
            models.CheckConstraint(
                name="accounts_channel_workspace_has_account",
                condition=Q(workspace__isnull=True) | Q(account__isnull=False),
            ),
            models.CheckConstraint(
                name="accounts_channel_deleted_is_wiped",
                condition=Q(deleted_at__isnull=True) | Q(sealed_url="", sealed_secret=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.label})"


class Delivery(models.Model):
    """One event for one channel. The row is the truth: its sender holds its lease meanwhile.

    It is tried from `next_try_at` on, until `retry_until`; then it stays as failed.
    """

    class State(models.TextChoices):
        PENDING = "pending", "Pending"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The constraint's index begins with it.
    event = models.ForeignKey(
        Event, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=9, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField()
    retry_until = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    # The HTTP status of the last answer, where there was one; and why the last try failed.
    answer_status = models.PositiveIntegerField(null=True)
    error = models.CharField(max_length=300, blank=True, default="")
    delivered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(
                name="accounts_delivery_once_per_channel", fields=["event", "channel"]
            ),
            models.CheckConstraint(
                name="accounts_delivery_state_known",
                condition=Q(state__in=["pending", "delivered", "failed"]),
            ),
        ]
        indexes = [
            models.Index(
                F("next_try_at"), name="accounts_delivery_due", condition=Q(state="pending")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.channel}"


class Alarm(models.Model):
    """Whether a state that has no window is bad, and how often it became so.

    The count makes the key of an event, so that each time counts and none counts twice.
    """

    subject = models.CharField(max_length=200, primary_key=True)
    is_raised = models.BooleanField(default=False)
    count = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.subject}: {'raised' if self.is_raised else 'clear'}"
