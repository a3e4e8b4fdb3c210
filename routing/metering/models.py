"""Generation records: one row per answered request, written in the transaction that charges it."""

from django.db import models
from django.db.models import F, Q

from accounts.models import Account, ApiKey, Workspace


class Generation(models.Model):
    """What was asked, who answered, what it cost. Tokens are the serving model's own.

    `charge_nano` equals the amount of the ledger's usage entry; `upstream_cost_nano` is what the
    provider is expected to bill, also where the caller is charged nothing. `overrun` marks a charge
    above the hold: the upstream reported more than it was allowed to produce. `lost` marks a
    request whose process died before it could settle. `attempts` is a list of
    `{status, provider_name, endpoint_id, model_permaslug, id, latency, is_byok}` in order. `trace`
    is the JSON text of `routing.selection.trace`: why it went where it went.
    """

    id = models.CharField(max_length=64, primary_key=True)
    # The ledger entry written beside this row carries the constraints; here they cost the hot path.
    account = models.ForeignKey(
        Account,
        on_delete=models.PROTECT,
        related_name="generations",
        db_constraint=False,
        db_index=False,
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
    created_at = models.DateTimeField()
    api_type = models.CharField(max_length=16, default="completions")
    model = models.CharField(max_length=200)
    requested_model = models.CharField(max_length=300)
    provider_name = models.CharField(max_length=100, null=True)
    endpoint_tag = models.CharField(max_length=200, null=True)
    status = models.PositiveSmallIntegerField()
    error_type = models.CharField(max_length=40, null=True)
    streamed = models.BooleanField()
    cancelled = models.BooleanField(default=False)
    lost = models.BooleanField(default=False)
    overrun = models.BooleanField(default=False)
    finish_reason = models.CharField(max_length=32, null=True)
    native_finish_reason = models.CharField(max_length=64, null=True)
    tokens_prompt = models.BigIntegerField(default=0)
    tokens_completion = models.BigIntegerField(default=0)
    tokens_reasoning = models.BigIntegerField(default=0)
    tokens_cached = models.BigIntegerField(default=0)
    charge_nano = models.BigIntegerField(default=0)
    hold_nano = models.BigIntegerField(default=0)
    upstream_cost_nano = models.BigIntegerField(default=0)
    is_byok = models.BooleanField(default=False)
    latency_ms = models.IntegerField(null=True)
    generation_time_ms = models.IntegerField(null=True)
    upstream_id = models.CharField(max_length=200, null=True)
    session_id = models.CharField(max_length=256, null=True)
    external_user = models.TextField(null=True)
    service_tier = models.CharField(max_length=32, null=True)
    # Text and no key of another table: a preset may go, and records stay.
    preset_id = models.CharField(max_length=36, null=True)
    attempts = models.JSONField(default=list)
    detail = models.JSONField(default=dict)
    # Text, because nobody filters by it and reading it as JSON costs the database at every insert.
    # The default is the table's own too: an older version still writes while a new one moves in.
    trace = models.TextField(default="{}", db_default="{}")

    class Meta:
        indexes = [
            models.Index(F("account"), F("created_at").desc(), name="routing_generation_acct_time"),
            models.Index(F("created_at").desc(), name="routing_generation_time"),
            models.Index(
                F("preset_id"),
                F("created_at").desc(),
                name="routing_generation_preset",
                condition=Q(preset_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.id


class CredentialSpend(models.Model):
    """What was asked with one credential on one day (UTC): how many requests it answered, and what
    the provider is expected to bill for them. Names instead of keys: it outlives the credential."""

    provider = models.CharField(max_length=64)
    label = models.CharField(max_length=64)
    day = models.DateField()
    requests = models.BigIntegerField(default=0)
    cost_nano = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-day", "provider", "label"]
        verbose_name_plural = "credential spend"
        constraints = [
            models.UniqueConstraint(
                name="routing_credentialspend_once_per_day", fields=["provider", "label", "day"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.label} on {self.day}"
