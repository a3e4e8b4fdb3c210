"""Fresh accounts, orders and writers for tests of the ledger. Amounts are in nano-USD."""

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from accounts.caller import read_caller
from accounts.models import Account, ApiKey, Hold, LedgerEntry, SpendCounter
from accounts.services.books.audit import compare_books
from accounts.services.books.credits import add_credits
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from accounts.spending import list_windows
from routing.ledger.orders import HoldOrder, HoldRefusal, Payer, ReleaseOrder, SettleOrder
from routing.ledger.records import RECORD_COLUMNS
from routing.ledger.session import LedgerSession
from routing.ledger.tickets import Ticket
from routing.ledger.writer import LedgerWriter
from routing.metering.models import Generation

USD = 1_000_000_000
CENT = USD // 100
WAIT_S = 20.0
_numbers = itertools.count(1)


def new_payer(
    credits_nano: int = USD,
    *,
    limit_nano: int | None = None,
    limit_reset: str | None = None,
    at: datetime | None = None,
) -> Payer:
    """A fresh account with that much credit and one inference key."""
    account = open_account(name=f"payer-{uuid.uuid4()}")
    if credits_nano:
        top_up(account, credits_nano)
    return payer_with_new_key(account, limit_nano=limit_nano, limit_reset=limit_reset, at=at)


def payer_with_new_key(
    account: Account,
    *,
    limit_nano: int | None = None,
    limit_reset: str | None = None,
    at: datetime | None = None,
) -> Payer:
    limit: Any = {"limit_nano": limit_nano, "limit_reset": limit_reset}
    key, _ = create_key(account=account, name="test", workspace=account.workspaces.get(), **limit)
    return payer_of(key, at=at)


def payer_of(key: ApiKey, *, at: datetime | None = None) -> Payer:
    assert key.workspace_id is not None
    windows = list_windows((at or datetime.now(UTC)).date())
    caller = read_caller(key.hash)
    assert caller is not None
    scopes = caller.budgets, caller.limits_version, caller.limited
    return Payer(key.account_id, key.workspace_id, key.pk, windows, *scopes)


def renew_payer(payer: Payer) -> Payer:
    """The payer as its limits are now, in the windows it was pinned to."""
    fresh = payer_of(ApiKey.objects.get(pk=payer.key_id))
    return fresh._replace(windows=payer.windows)


def top_up(account: Account, amount_nano: int) -> None:
    add_credits(
        account=account, amount_nano=amount_nano, source="test", source_ref=str(uuid.uuid4())
    )


def hold_order(
    payer: Payer,
    amount_nano: int,
    *,
    lease_s: float = 900,
    at: datetime | None = None,
    byok_nano: int = 0,
) -> HoldOrder:
    now = datetime.now(UTC)
    return HoldOrder(
        generation_id=f"gen-test-{next(_numbers)}-{uuid.uuid4().hex[:8]}",
        payer=payer,
        amount_nano=amount_nano,
        model="acme/small",
        created_at=at or now,
        lease_expires_at=now + timedelta(seconds=lease_s),
        byok_nano=byok_nano,
    )


def settle_order(hold: HoldOrder, charge_nano: int, *, byok_nano: int = 0) -> SettleOrder:
    return SettleOrder(
        generation_id=hold.generation_id,
        payer=hold.payer,
        charge_nano=charge_nano,
        settled_at=datetime.now(UTC),
        record=record_of(hold, charge_nano),
        byok_nano=byok_nano,
    )


def release_order(hold: HoldOrder) -> ReleaseOrder:
    return ReleaseOrder(hold.generation_id, hold.payer)


def record_of(hold: HoldOrder, charge_nano: int) -> dict[str, Any]:
    """A generation's columns, as little as the table asks for."""
    record: dict[str, Any] = dict.fromkeys(RECORD_COLUMNS)
    counts = ("tokens_prompt", "tokens_completion", "tokens_reasoning", "tokens_cached")
    flags = ("streamed", "cancelled", "lost", "is_byok")
    record |= dict.fromkeys(counts, 0) | dict.fromkeys(flags, False)
    return record | {
        "created_at": hold.created_at,
        "api_type": "completions",
        "model": hold.model,
        "requested_model": hold.model,
        "status": 200,
        "overrun": charge_nano > hold.amount_nano,
        "charge_nano": charge_nano,
        "hold_nano": hold.amount_nano,
        "upstream_cost_nano": charge_nano,
        "attempts": "[]",
        "detail": "{}",
        "trace": "{}",
    }


@contextmanager
def running_writer(
    open_session: Callable[[], LedgerSession] = LedgerSession,
) -> Iterator[LedgerWriter]:
    """A writer of the test's own; it has carried out everything when the block ends."""
    writer = LedgerWriter(open_session=open_session)
    try:
        yield writer
    finally:
        writer.stop(WAIT_S)


def carry_out(writer: LedgerWriter, order: Any) -> Any:
    """Submit and wait: True, False or the refusal."""
    return writer.wait(writer.submit(order), WAIT_S)


def place_standing(writer: LedgerWriter, payer: Payer, amount_nano: int, **more: Any) -> HoldOrder:
    """A hold that stands."""
    order = hold_order(payer, amount_nano, **more)
    assert carry_out(writer, order) is True
    return order


def settle(writer: LedgerWriter, hold: HoldOrder, charge_nano: int) -> None:
    assert carry_out(writer, settle_order(hold, charge_nano)) is True


def is_refused(writer: LedgerWriter, payer: Payer, amount_nano: int) -> bool:
    return isinstance(carry_out(writer, hold_order(payer, amount_nano)), HoldRefusal)


def wait_all(writer: LedgerWriter, tickets: Iterable[Ticket]) -> list[Any]:
    return [writer.wait(ticket, WAIT_S) for ticket in tickets]


def totals(payer: Payer) -> tuple[int, int, int]:
    """Credits, usage and what is held, as the account's row says."""
    row = Account.objects.get(pk=payer.account_id)
    return row.total_credits_nano, row.total_usage_nano, row.held_nano


def key_counters(payer: Payer) -> dict[str, tuple[int, int]]:
    """Spent and held of the payer's pinned windows, by window."""
    starts = dict(payer.windows)
    rows = SpendCounter.objects.filter(scope="key", scope_id=str(payer.key_id))
    return {
        row.window: (row.spent_nano, row.held_nano)
        for row in rows
        if row.window_start == starts[row.window]
    }


def entries(payer: Payer, kind: str = "usage") -> list[int]:
    rows = LedgerEntry.objects.filter(account_id=payer.account_id, kind=kind).order_by("pk")
    return list(rows.values_list("amount_nano", flat=True))


def open_holds(payer: Payer) -> list[int]:
    rows = Hold.objects.filter(account_id=payer.account_id)
    return sorted(rows.values_list("amount_nano", flat=True))


def generation(hold: HoldOrder) -> Generation | None:
    return Generation.objects.filter(pk=hold.generation_id).first()


def read_record(hold: HoldOrder, *names: str) -> tuple[Any, ...]:
    """These columns of a generation's record."""
    return tuple(Generation.objects.values_list(*names).get(pk=hold.generation_id))


def assert_books_agree() -> None:
    found = compare_books(now=datetime.now(UTC))
    assert found.mismatches == []
