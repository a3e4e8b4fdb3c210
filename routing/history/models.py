"""Rows of history in addition to generations, which stay the truth.

The schedule rolls sums up. Facts are one for each generation of the last weeks. Lines have a row
for each hour and for each day (UTC). A line is what its generations have in common. Nobody's
request writes any of it.
"""

import uuid
from typing import Final

from django.db import models
from django.db.models import F
from django.db.models.functions import Now


class UsageLine(models.Model):
    """What generations that are summed together have in common; "" where there is nothing.

    `key` is the MD5 of the rest, by which the database finds the line of a generation. `app_title`
    is the first that was seen.
    """

    key = models.CharField(max_length=32, unique=True)
    account_id = models.UUIDField(db_index=True)
    workspace_id = models.UUIDField()
    api_key_id = models.BigIntegerField()
    model = models.CharField(max_length=200)
    permaslug = models.CharField(max_length=200)
    variant = models.CharField(max_length=100)
    endpoint_tag = models.CharField(max_length=200)
    provider_name = models.CharField(max_length=100)
    app = models.CharField(max_length=200)
    app_title = models.CharField(max_length=500)
    origin = models.CharField(max_length=200)
    finish_reason = models.CharField(max_length=32)
    context_length_bucket = models.CharField(max_length=16)

    def __str__(self) -> str:
        return f"{self.model} over {self.endpoint_tag}"


class _Sums(models.Model):
    """The sums of one line's generations within a time. Money is nano-USD, `latency_ms` and
    `speed_dtps` (tenths of a token per second) are summed over as many as `_count` says."""

    line_id = models.BigIntegerField()
    account_id = models.UUIDField()
    start = models.DateTimeField()
    requests = models.BigIntegerField()
    tokens_prompt = models.BigIntegerField()
    tokens_completion = models.BigIntegerField()
    tokens_reasoning = models.BigIntegerField()
    tokens_cached = models.BigIntegerField()
    charge_nano = models.BigIntegerField()
    cost_nano = models.BigIntegerField()
    byok_requests = models.BigIntegerField()
    byok_fee_nano = models.BigIntegerField()
    byok_cost_nano = models.BigIntegerField()
    cache_saved_nano = models.BigIntegerField()
    data_saved_nano = models.BigIntegerField()
    web_nano = models.BigIntegerField()
    web_cost_nano = models.BigIntegerField()
    guarded = models.BigIntegerField()
    from_cache = models.BigIntegerField()
    # The tables' own default too: an older version still writes while a new one moves in.
    failed = models.BigIntegerField(default=0, db_default=0)
    latency_ms = models.BigIntegerField()
    latency_count = models.BigIntegerField()
    speed_dtps = models.BigIntegerField()
    speed_count = models.BigIntegerField()

    class Meta:
        abstract = True


class UsageHour(_Sums):
    """One line in one hour."""

    class Meta:
        indexes = [
            models.Index(fields=["account_id", "start"], name="routing_usagehour_account"),
            models.Index(fields=["start"], name="routing_usagehour_start"),
        ]

    def __str__(self) -> str:
        return f"{self.line_id} {self.start}"


class UsageDay(_Sums):
    """One line on one day."""

    class Meta:
        indexes = [
            models.Index(fields=["account_id", "start"], name="routing_usageday_account"),
            models.Index(fields=["start"], name="routing_usageday_start"),
        ]

    def __str__(self) -> str:
        return f"{self.line_id} {self.start}"


class UsageBrief(_Sums):
    """The lines of a day that have the columns of `routing.history.columns.BRIEF` in common, as
    one. `line_id` is some line with these columns; the line's others say nothing here."""

    class Meta:
        indexes = [
            models.Index(fields=["account_id", "start"], name="routing_usagebrief_account"),
            models.Index(fields=["start"], name="routing_usagebrief_start"),
        ]

    def __str__(self) -> str:
        return f"{self.line_id} {self.start}"


class GenerationFact(models.Model):
    """A generation's figures alone: a tenth of its record, so that many can be looked through."""

    generation_id = models.CharField(max_length=64, primary_key=True)
    line_id = models.BigIntegerField()
    account_id = models.UUIDField()
    at = models.DateTimeField()
    tokens_prompt = models.BigIntegerField()
    tokens_completion = models.BigIntegerField()
    tokens_reasoning = models.BigIntegerField()
    tokens_cached = models.BigIntegerField()
    charge_nano = models.BigIntegerField()
    cost_nano = models.BigIntegerField()
    is_byok = models.SmallIntegerField()
    # What of cost and charge is of a team's own credentials; null where that is all or nothing.
    own_cost_nano = models.BigIntegerField(null=True)
    own_fee_nano = models.BigIntegerField(null=True)
    cache_saved_nano = models.BigIntegerField()
    data_saved_nano = models.BigIntegerField()
    web_nano = models.BigIntegerField()
    web_cost_nano = models.BigIntegerField()
    guarded = models.SmallIntegerField()
    from_cache = models.SmallIntegerField()
    failed = models.SmallIntegerField(default=0, db_default=0)
    status = models.SmallIntegerField(null=True)
    error_type = models.CharField(max_length=40, default="", db_default="")
    latency_ms = models.IntegerField(null=True)
    speed_dtps = models.BigIntegerField(null=True)
    external_user = models.CharField(max_length=64)
    tags = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["account_id", "at"], name="routing_fact_account"),
            models.Index(fields=["at"], name="routing_fact_at"),
        ]

    def __str__(self) -> str:
        return self.generation_id


class UsageSpread(models.Model):
    """How one figure (`measure`) spreads over the generations of a day that share the columns of a
    cut. A row is one bucket, with every value in it in no order.

    `cut` is a place in `routing.history.columns.CUTS`. `line_id` is some line with these columns;
    the line's others say nothing here. `bucket` is what `routing.history.columns.bucket` says.
    """

    cut = models.SmallIntegerField()
    measure = models.CharField(max_length=16)
    line_id = models.BigIntegerField()
    account_id = models.UUIDField()
    start = models.DateTimeField()
    bucket = models.BigIntegerField()
    many = models.BigIntegerField()
    figures = models.JSONField()

    class Meta:
        indexes = [
            models.Index(
                fields=["account_id", "cut", "measure", "start"], name="routing_spread_account"
            ),
            models.Index(fields=["start"], name="routing_spread_start"),
        ]

    def __str__(self) -> str:
        return f"{self.measure} of {self.line_id} {self.start}"


class UsageRolled(models.Model):
    """Up to when generations are rolled up: one row. Before `forgotten_before` they may be gone,
    and what was summed up stays as it is. Days from `brief_days_from` to `brief_days_until` are
    summed up in brief too: an older version, which may roll up in between, moves neither."""

    until = models.DateTimeField()
    forgotten_before = models.DateTimeField(null=True)
    # What the version before `brief_days_from` goes by.
    briefs_from = models.DateTimeField(null=True)
    briefs_until = models.DateTimeField(null=True)
    brief_days_from = models.DateTimeField(null=True)
    brief_days_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "usage rolled up"

    def __str__(self) -> str:
        return f"until {self.until}"


class LateHour(models.Model):
    """An hour that got a generation after it may have been rolled up; written with that one."""

    hour = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.hour)


class GenerationContent(models.Model):
    """Prompt and answer of a generation whose workspace logs content, compressed and sealed."""

    generation_id = models.CharField(max_length=64, primary_key=True)
    account_id = models.UUIDField()
    created_at = models.DateTimeField()
    sealed = models.BinaryField()

    class Meta:
        indexes = [models.Index(F("created_at"), name="routing_content_time")]

    def __str__(self) -> str:
        return self.generation_id


class GenerationFeedback(models.Model):
    """What somebody says of a generation. It only grows: a second word does not take the first
    back. `api_key_id` is the management key that gave it. `generation_at` is when the generation
    began: its feedback leaves no later, so that whoever erases a user still finds it."""

    class Category(models.TextChoices):
        LATENCY = "latency", "Latency"
        INCOHERENCE = "incoherence", "Incoherence"
        INCORRECT_RESPONSE = "incorrect_response", "Incorrect response"
        FORMATTING = "formatting", "Formatting"
        BILLING = "billing", "Billing"
        API_ERROR = "api_error", "API error"
        OTHER = "other", "Other"

    COMMENT_CHARS_MAX: Final = 1000

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account_id = models.UUIDField()
    generation_id = models.CharField(max_length=64)
    api_key_id = models.BigIntegerField()
    category = models.CharField(max_length=32, choices=Category.choices)
    comment = models.CharField(max_length=COMMENT_CHARS_MAX, blank=True, default="")
    created_at = models.DateTimeField()
    # The table's own default too: an older version still writes while a new one moves in.
    generation_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "generation feedback"
        indexes = [
            models.Index(F("generation_at"), name="routing_feedback_generation"),
            models.Index(
                F("account_id"), F("created_at").desc(), name="routing_feedback_account_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.category}: {self.generation_id}"


class DecisionCalibration(models.Model):
    """How far a model's decisions could be trusted when `calibrate_decisions` asked it.

    `before` and `after` are the reports without and with the temperature, as the command prints
    them. `questions` has one for each question's name, with its number of `answers`. Text and no
    key of another table: a model may go, and what was measured stays. `account_id` asked and paid.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account_id = models.UUIDField()
    model = models.CharField(max_length=200)
    measured_at = models.DateTimeField()
    temperature = models.FloatField()
    is_applied = models.BooleanField()
    answers = models.PositiveIntegerField()
    before = models.JSONField()
    after = models.JSONField()
    questions = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(
                F("account_id"),
                F("measured_at").desc(),
                name="routing_calibration_acct_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model}, {self.measured_at:%Y-%m-%d %H:%M}"
