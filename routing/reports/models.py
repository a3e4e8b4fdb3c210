"""Failed and refused requests. Those that an upstream was asked for are generations too."""

from django.db import models
from django.db.models import F


class FailedRequest(models.Model):
    """One failed or refused request. `reason` says which limit, budget or filter it was, `detail`
    the rest of what its caller got. `plan` is what became of each endpoint, in the form of
    `routing.selection.trace`. `generation_id` is there where an upstream was asked."""

    at = models.DateTimeField()
    request_id = models.CharField(max_length=128)
    generation_id = models.CharField(max_length=64, null=True)
    account_id = models.UUIDField()
    workspace_id = models.UUIDField(null=True)
    api_key_id = models.BigIntegerField()
    format = models.CharField(max_length=16)
    requested_model = models.CharField(max_length=300)
    streamed = models.BooleanField()
    status = models.PositiveSmallIntegerField()
    error_type = models.CharField(max_length=40)
    reason = models.CharField(max_length=64)
    text = models.CharField(max_length=500)
    duration_ms = models.IntegerField()
    detail = models.JSONField(default=dict)
    plan = models.TextField(default="")
    # Null where it had none, and where an older version wrote it.
    tags = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(F("account_id"), F("at").desc(), name="routing_failed_account_time"),
            models.Index(F("at"), name="routing_failed_time"),
            models.Index(F("request_id"), name="routing_failed_request"),
        ]

    def __str__(self) -> str:
        return f"{self.request_id}: {self.status} {self.reason}"


class FailedRequestCount(models.Model):
    """So many failed requests within a minute for which no row was written. They are those beyond
    what a key or address may have on record each second, and all of unknown keys.

    `key` is the MD5 of what they have in common, by which the row is found. `account_id` and
    `api_key_id` are null where nobody knows the key; then `address` and `key_prefix` say from
    where and with which beginning of a credential.
    """

    key = models.CharField(max_length=32, unique=True)
    minute = models.DateTimeField()
    account_id = models.UUIDField(null=True)
    workspace_id = models.UUIDField(null=True)
    api_key_id = models.BigIntegerField(null=True)
    address = models.CharField(max_length=64)
    key_prefix = models.CharField(max_length=16)
    status = models.PositiveSmallIntegerField()
    error_type = models.CharField(max_length=40)
    reason = models.CharField(max_length=64)
    # Whether no upstream was asked.
    is_refused = models.BooleanField()
    requests = models.BigIntegerField()

    class Meta:
        indexes = [
            models.Index(F("account_id"), F("minute"), name="routing_failcount_account"),
            models.Index(F("minute"), name="routing_failcount_minute"),
        ]

    def __str__(self) -> str:
        return f"{self.requests} of {self.status} {self.reason} at {self.minute:%H:%M}"
