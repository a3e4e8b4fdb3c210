"""The books: entries that only grow, holds of requests in flight, and running counters."""

from django.db import models
from django.db.models import F, Q

from accounts.models.account import Account, Workspace
from accounts.models.key import ApiKey

CREDIT_KINDS = ("purchase", "grant", "transfer_in", "refund", "expiry", "transfer_out")
USAGE_KINDS = ("usage", "byok_fee", "usage_reversal")


class LedgerEntry(models.Model):
    """One movement of money, in signed nano-USD. Never changed: a second entry puts it right.

    The sum over `CREDIT_KINDS` is the account's total credits, the sum over `USAGE_KINDS` its total
    usage: kinds that lower a total carry a negative amount.
    """

    class Kind(models.TextChoices):
        PURCHASE = "purchase", "Purchase"
        GRANT = "grant", "Grant"
        TRANSFER_IN = "transfer_in", "Transfer in"
        REFUND = "refund", "Refund"
        EXPIRY = "expiry", "Expiry"
        TRANSFER_OUT = "transfer_out", "Transfer out"
        USAGE = "usage", "Usage"
        BYOK_FEE = "byok_fee", "BYOK fee"
        USAGE_REVERSAL = "usage_reversal", "Usage reversal"

    # The index below begins with it.
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="entries", db_index=False
    )
    # The database checks the account, whose money it is. Each further check costs the hot path a
    # look-up and a row lock; Django protects workspaces and keys that have entries.
    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    api_key = models.ForeignKey(
        ApiKey,
        on_delete=models.PROTECT,
        null=True,
        related_name="entries",
        db_index=False,
        db_constraint=False,
    )
    kind = models.CharField(max_length=16, choices=Kind.choices)
    amount_nano = models.BigIntegerField()
    generation_id = models.CharField(max_length=64, null=True, db_index=False)
    source = models.CharField(max_length=32)
    source_ref = models.CharField(max_length=200)
    note = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "ledger entries"
        constraints = [
            models.UniqueConstraint(
                name="accounts_ledgerentry_once_per_source", fields=["source", "source_ref"]
            ),
            models.UniqueConstraint(
                name="accounts_ledgerentry_one_usage_per_generation",
                fields=["generation_id"],
                condition=Q(kind="usage"),
            ),
            models.CheckConstraint(
                name="accounts_ledgerentry_sign_fits_kind",
                condition=Q(
                    kind__in=["purchase", "grant", "transfer_in", "usage", "byok_fee"],
                    amount_nano__gte=0,
                )
                | Q(
                    kind__in=["refund", "expiry", "transfer_out", "usage_reversal"],
                    amount_nano__lte=0,
                ),
            ),
        ]
        indexes = [
            models.Index(F("account"), F("created_at").desc(), name="accounts_entry_account_time"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount_nano} ({self.source}:{self.source_ref})"


class Hold(models.Model):
    """What one request in flight may cost at most, reserved until it settles or its lease ends."""

    generation_id = models.CharField(max_length=64, primary_key=True)
    # The batch that writes it updates the account's row and the key's counters, so they exist.
    account = models.ForeignKey(
        Account,
        on_delete=models.PROTECT,
        related_name="holds",
        db_index=False,
        db_constraint=False,
    )
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    amount_nano = models.BigIntegerField()
    counter_ids = models.CharField(max_length=400)
    model = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_hold_amount_not_negative", condition=Q(amount_nano__gte=0)
            ),
        ]
        indexes = [models.Index(F("lease_expires_at"), name="accounts_hold_lease")]

    def __str__(self) -> str:
        return f"{self.generation_id}: {self.amount_nano}"


class SpendCounter(models.Model):
    """What a scope spent and holds in one window; `limit_nano` null means no limit there.

    A key has four: all time, day, week and month (UTC), so a changed reset interval counts what was
    already spent. The limit stands on the one that the key's `limit_reset` names. `window_start` is
    the window's first day (1970-01-01 for all time).
    """

    class Scope(models.TextChoices):
        KEY = "key", "API key"

    class Window(models.TextChoices):
        TOTAL = "total", "All time"
        DAY = "day", "Day"
        WEEK = "week", "Week"
        MONTH = "month", "Month"

    scope = models.CharField(max_length=16, choices=Scope.choices)
    scope_id = models.CharField(max_length=64)
    window = models.CharField(max_length=8, choices=Window.choices)
    window_start = models.DateField()
    spent_nano = models.BigIntegerField(default=0)
    held_nano = models.BigIntegerField(default=0)
    limit_nano = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_spendcounter_once_per_window",
                fields=["scope", "scope_id", "window", "window_start"],
            ),
            models.CheckConstraint(
                name="accounts_spendcounter_held_not_negative", condition=Q(held_nano__gte=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id} {self.window} {self.window_start}"
