"""Every movement of credits: what comes in, goes back, moves between accounts and expires.

A movement is named by a source and a reference, and counts once however often it is reported. Under
another account, kind or amount it raises `MovementConflict`. With `by` it leaves an audit record.

Money is spent oldest first. So what is left of credits up to a moment is what the balance has
beyond all that came in since. What running requests hold is about to be spent, and is left alone.
"""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, F, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from accounts.models import Account, LedgerEntry, PurchaseFee
from accounts.services.records import Actor, record_row
from gateway.http.jsonio import format_usd

# What the gateway itself books under. A payment reported from outside must not take the place of a
# charge, so it names none of these.
OWN_SOURCES: Final = frozenset(
    ("admin", "byok", "byok_fee", "credits_add", "expiry", "generation", "reversal", "seed")
) | {"transfer", "usage"}
_Kind = LedgerEntry.Kind
_RAISES: Final = frozenset((_Kind.PURCHASE, _Kind.GRANT, _Kind.TRANSFER_IN))


class MovementConflict(Exception):
    """Source and reference name a movement of another account, kind or amount."""


class InsufficientBalance(Exception):
    """More would be taken than is left."""


def calculate_fee_nano(paid_nano: int) -> int:
    """What is kept of a payment: the share `CREDIT_FEE_RATE`, rounded half-even."""
    share = Decimal(repr(settings.CREDIT_FEE_RATE)) * paid_nano
    return int(share.quantize(Decimal(1), ROUND_HALF_EVEN))


def take_payment(
    *,
    account: Account,
    paid_nano: int,
    source: str,
    source_ref: str,
    note: str = "",
    by: Actor | None = None,
) -> tuple[LedgerEntry, bool]:
    """Record a purchase of what was paid less the fee: the entry, and whether it is new."""
    assert paid_nano > 0
    kept_nano = calculate_fee_nano(paid_nano)
    with transaction.atomic():
        entry, new = _get_or_create_entry(
            account.pk, _Kind.PURCHASE, paid_nano - kept_nano, source, source_ref, note
        )
        if new:
            if kept_nano:
                PurchaseFee.objects.create(entry=entry, paid_nano=paid_nano, fee_nano=kept_nano)
            _apply_entry(entry, by, paid_nano=paid_nano, fee_nano=kept_nano)
        else:
            # The rate may have changed since the payment was first reported.
            fee = PurchaseFee.objects.filter(entry=entry).first()
            reported_nano = entry.amount_nano if fee is None else fee.paid_nano
            if not _matches(entry, account.pk, _Kind.PURCHASE) or reported_nano != paid_nano:
                raise MovementConflict
    return entry, new


def add_credits(
    *,
    account: Account,
    amount_nano: int,
    source: str,
    source_ref: str,
    kind: LedgerEntry.Kind = LedgerEntry.Kind.PURCHASE,
    note: str = "",
    by: Actor | None = None,
) -> tuple[LedgerEntry, bool]:
    """Record credits that came in, as they are: the entry, and whether it is new."""
    assert amount_nano > 0
    assert kind in _RAISES
    with transaction.atomic():
        return _book(account.pk, kind, amount_nano, source, source_ref, note, by)


def take_credits(
    *,
    account: Account,
    amount_nano: int,
    source: str,
    source_ref: str,
    kind: LedgerEntry.Kind = LedgerEntry.Kind.REFUND,
    note: str = "",
    below_zero: bool = False,
    by: Actor | None = None,
) -> tuple[LedgerEntry, bool]:
    """Record credits that go away: the entry (its amount is negative), and whether it is new.

    Raises `InsufficientBalance` where the balance less what is held is smaller. A chargeback may
    take money that was already spent: it goes `below_zero`.
    """
    assert amount_nano > 0
    assert kind not in _RAISES
    with transaction.atomic():
        row = _lock_account(account.pk)
        known = LedgerEntry.objects.filter(source=source, source_ref=source_ref).exists()
        if not known and not below_zero and amount_nano > row.balance_nano - row.held_nano:
            raise InsufficientBalance
        return _book(account.pk, kind, -amount_nano, source, source_ref, note, by)


def transfer_credits(
    *,
    giver: Account,
    taker: Account,
    amount_nano: int,
    source_ref: str,
    note: str = "",
    by: Actor | None = None,
) -> bool:
    """Move credits to another account; whether it is new. Raises `InsufficientBalance`."""
    assert giver.pk != taker.pk
    with transaction.atomic():
        # In this order wherever more than one account is locked.
        for account_id in sorted((giver.pk, taker.pk)):
            _lock_account(account_id)
        _, new = take_credits(
            account=giver,
            amount_nano=amount_nano,
            source="transfer",
            source_ref=f"{source_ref}:out",
            kind=_Kind.TRANSFER_OUT,
            note=note,
            by=by,
        )
        add_credits(
            account=taker,
            amount_nano=amount_nano,
            source="transfer",
            source_ref=f"{source_ref}:in",
            kind=_Kind.TRANSFER_IN,
            note=note,
            by=by,
        )
    return new


def _lock_account(account_id: UUID) -> Account:
    return Account.objects.select_for_update(no_key=True).get(pk=account_id)


def _book(
    account_id: UUID,
    kind: LedgerEntry.Kind,
    signed_nano: int,
    source: str,
    source_ref: str,
    note: str,
    by: Actor | None,
) -> tuple[LedgerEntry, bool]:
    entry, new = _get_or_create_entry(account_id, kind, signed_nano, source, source_ref, note)
    if new:
        _apply_entry(entry, by)
    elif not _matches(entry, account_id, kind) or entry.amount_nano != signed_nano:
        raise MovementConflict
    return entry, new


def _get_or_create_entry(
    account_id: UUID, kind: str, signed_nano: int, source: str, source_ref: str, note: str
) -> tuple[LedgerEntry, bool]:
    return LedgerEntry.objects.get_or_create(
        source=source,
        source_ref=source_ref,
        defaults={
            "account_id": account_id,
            "kind": kind,
            "amount_nano": signed_nano,
            "created_at": datetime.now(UTC),
            "note": note,
        },
    )


def _matches(entry: LedgerEntry, account_id: UUID, kind: str) -> bool:
    return entry.account_id == account_id and entry.kind == kind


def _apply_entry(entry: LedgerEntry, by: Actor | None, **facts: int) -> None:
    """Move the account's total by a new entry, and say who did it."""
    Account.objects.filter(pk=entry.account_id).update(
        total_credits_nano=F("total_credits_nano") + entry.amount_nano
    )
    if by is None:
        return
    after = {"kind": str(entry.kind), "amount_usd": format_usd(entry.amount_nano)}
    after |= {"source": entry.source, "source_ref": entry.source_ref, "note": entry.note}
    after |= {
        name.replace("_nano", "_usd"): format_usd(nano) for name, nano in facts.items() if nano
    }
    record_row("ledger_entry", by, "booked", entry, None, after)


log = logging.getLogger("gateway.ledger")
_INFLOWS: Final = ("purchase", "grant", "transfer_in")
_BATCH: Final = 500


def expire_old_credits(*, now: datetime, days: int) -> int:
    """Book what is left of credits older than `days`. Returns how many accounts it was booked for.

    Each account's is a transaction of its own, distinct by its moment: nothing counts twice.
    """
    assert days > 0
    before = now - timedelta(days=days)
    booked, last = 0, None
    while accounts := _list_accounts_to_expire(before, last):
        booked += sum(_expire_account(account_id, before) for account_id in accounts)
        last = accounts[-1]
    return booked


class ExpiringCredit(NamedTuple):
    """What would be left of an account's credits up to a moment, and the last of these that came
    in: its entry and when."""

    account_id: UUID
    amount_nano: int
    entry_id: int
    came_at: datetime


def find_expiring_credit(before: datetime) -> Iterator[ExpiringCredit]:
    """What `expire_old_credits` would book if credits up to `before` were old, were it now."""
    last = None
    while accounts := _list_accounts_to_expire(before, last):
        for account in Account.objects.filter(pk__in=accounts):
            if (found := find_expiring_credit_of(account, before)) is not None:
                yield found
        last = accounts[-1]


def find_expiring_credit_of(account: Account, before: datetime) -> ExpiringCredit | None:
    """What of one account would expire; None where nothing would."""
    old = LedgerEntry.objects.filter(account=account, kind__in=_INFLOWS, created_at__lte=before)
    newest = old.order_by("-created_at").first()
    young = _select_inflows(before).filter(account=account).aggregate(total=Sum("amount_nano"))
    left_nano = account.balance_nano - account.held_nano - int(young["total"] or 0)
    if newest is None or left_nano <= 0:
        return None
    return ExpiringCredit(account.pk, left_nano, newest.pk, newest.created_at)


def _list_accounts_to_expire(before: datetime, after: UUID | None) -> list[UUID]:
    """A batch of accounts that have something to expire, in primary-key order."""
    accounts = Account.objects.filter(total_credits_nano__gt=F("total_usage_nano"))
    if after is not None:
        accounts = accounts.filter(pk__gt=after)
    left_nano = F("total_credits_nano") - F("total_usage_nano") - F("held_nano")
    came_in = _select_inflows(before).filter(account=OuterRef("pk")).order_by().values("account")
    young = Subquery(
        came_in.annotate(total=Sum("amount_nano")).values("total"), output_field=BigIntegerField()
    )
    found = (
        accounts.annotate(young_nano=Coalesce(young, Value(0)))
        .filter(young_nano__lt=left_nano)
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    return list(found[:_BATCH])


def _select_inflows(before: datetime) -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(kind__in=_INFLOWS, created_at__gt=before)


def _expire_account(account_id: UUID, before: datetime) -> bool:
    with transaction.atomic():
        # The ledger writer and every door for credits take this row first as well.
        account = _lock_account(account_id)
        young = (
            _select_inflows(before).filter(account=account_id).aggregate(total=Sum("amount_nano"))
        )
        old_nano = account.balance_nano - account.held_nano - int(young["total"] or 0)
        if old_nano <= 0:
            return False
        source_ref = f"{account_id}:{before.isoformat()}"
        if LedgerEntry.objects.filter(source="expiry", source_ref=source_ref).exists():
            return False
        take_credits(
            account=account,
            amount_nano=old_nano,
            source="expiry",
            source_ref=source_ref,
            kind=LedgerEntry.Kind.EXPIRY,
            note=f"What was left of credits up to {before:%Y-%m-%d %H:%M:%S} UTC",
        )
    log.info("Expired %s nano-USD of account %s", old_nano, account_id)
    return True
