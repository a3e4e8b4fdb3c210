"""The books: entries that only grow, holds of requests in flight, and running counters."""

from django.db import models
from django.db.models import F, Q

from accounts.models.account import Account, Workspace
from accounts.models.key import ApiKey

CREDIT_KINDS = ("purchase", "grant", "transfer_in", "refund", "expiry", "transfer_out")
USAGE_KINDS = ("usage", "byok_fee", "usage_reversal")
# Few and far between, unlike a request's own entries: statements tell them one by one.
SINGLE_KINDS = (*CREDIT_KINDS, "usage_reversal")


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
    # On credentials of the account's own, at list price; the account pays the amount.
    byok_nano = models.BigIntegerField(default=0, db_default=0)
    generation_id = models.CharField(max_length=64, null=True, db_index=False)
    # The UTC day the request began, whose windows it counts in; null in entries that are no usage.
    day = models.DateField(null=True, default=None, db_default=None)
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
            models.Index(
                F("account"),
                F("created_at"),
                name="accounts_entry_singles",
                condition=Q(kind__in=SINGLE_KINDS),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount_nano} ({self.source}:{self.source_ref})"


class Hold(models.Model):
    """What one request in flight may cost at most, reserved until it settles or its lease ends."""

    generation_id = models.CharField(max_length=64, primary_key=True)
    # The batch that writes it updates the account's row and the key's counters, so they exist. No
    # index: every request would write it, 86 of 580 bytes of WAL for a hold that comes and goes.
    # Only those who change limits or first meet one would use it. They read 1,000 holds in 0.05 ms,
    # 10,000 in 0.4 and 100,000 in 11 (measured on PostgreSQL 18).
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
    byok_nano = models.BigIntegerField(default=0, db_default=0)
    # Of the counters it is held on, those with a limit, with commas between; "0" for none.
    # Limits that are set while it is open add theirs, so there is no telling how many.
    counter_ids = models.TextField()
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
    already spent. The limit stands on the one that the key's `limit_reset` names. A budget has one
    for each of its windows, as `accounts.spending` names it. It has the `account` whose it is and
    the `workspace` that it is confined to. `window_start` is the window's first day (1970-01-01 for
    all time). Requests are held on counters with a limit only. What was spent on credentials of the
    account's own stands in the two `byok` columns, and is limited where the counter `counts_byok`.
    """

    class Scope(models.TextChoices):
        KEY = "key", "API key"
        WORKSPACE = "workspace", "Workspace"
        GUARDRAIL = "guardrail", "Guardrail"
        END_USER = "end_user", "End user"
        TAG = "tag", "Tag"

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
    byok_spent_nano = models.BigIntegerField(default=0, db_default=0)
    byok_held_nano = models.BigIntegerField(default=0, db_default=0)
    counts_byok = models.BooleanField(default=False, db_default=False)
    account = models.ForeignKey(
        Account,
        on_delete=models.DO_NOTHING,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    workspace = models.ForeignKey(
        Workspace,
        on_delete=models.DO_NOTHING,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_spendcounter_once_per_window",
                fields=["scope", "scope_id", "window", "window_start"],
            ),
            models.CheckConstraint(
                name="accounts_spendcounter_held_not_negative", condition=Q(held_nano__gte=0)
            ),
            models.CheckConstraint(
                name="accounts_spendcounter_byok_held_not_negative",
                condition=Q(byok_held_nano__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id} {self.window} {self.window_start}"

    @property
    def counted_nano(self) -> int:
        """What counts against the limit, apart from what is held."""
        return self.spent_nano + (self.byok_spent_nano if self.counts_byok else 0)


class PurchaseFee(models.Model):
    """The fee of one purchase: `paid_nano` came in, `fee_nano` was kept, the entry has the rest.

    Purchases without a fee have no row.
    """

    entry = models.OneToOneField(
        LedgerEntry, on_delete=models.PROTECT, primary_key=True, related_name="purchase_fee"
    )
    paid_nano = models.BigIntegerField()
    fee_nano = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_purchasefee_below_the_payment",
                condition=Q(fee_nano__gt=0, paid_nano__gt=F("fee_nano")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.fee_nano} of {self.paid_nano}"


class LastAudit(models.Model):
    """When the books were last audited by the schedule, and how many totals were wrong. One row,
    in the database, so that whoever is asked for metrics reads it, wherever the worker runs."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    at = models.DateTimeField()
    mismatches = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="accounts_lastaudit_one_row", condition=Q(id=1)),
        ]

    def __str__(self) -> str:
        return f"{self.mismatches} mismatches at {self.at}"
