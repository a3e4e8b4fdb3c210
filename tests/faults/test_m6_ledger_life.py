"""M6: whatever happens to an account in whatever order, the books agree after every step.

The model knows nothing of SQL: four numbers per key and one rule for what fits.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from django.db.models import F
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from accounts.models import Account, ApiKey, Hold, LedgerEntry, SpendCounter
from accounts.models.ledger import CREDIT_KINDS, USAGE_KINDS
from accounts.services.keys import change_key
from routing.ledger.orders import HoldOrder, Payer, TopUpOrder
from routing.ledger.session import LedgerSession
from routing.ledger.sweep import sweep_all_expired
from routing.ledger.writer import LedgerWriter
from routing.metering.models import Generation
from routing.metering.reversals import MoreThanCharged, NotCharged, reverse_usage
from tests.routing.ledger.books import (
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    new_payer,
    payer_with_new_key,
    release_order,
    renew_payer,
    running_writer,
    settle_order,
    top_up,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.thorough]
AMOUNTS = st.integers(0, 2 * USD)
RESETS = st.sampled_from([None, "daily", "weekly", "monthly"])
# The whole audit takes ten times as long as a step; the sums of entries and of holds are read after
# each.
AUDIT_EVERY = 5


@dataclass
class Model:
    """What the books should say. `held` is by generation; keys are 0 and 1."""

    credits: int = 0
    spent: list[int] = field(default_factory=lambda: [0, 0])
    limits: list[int | None] = field(default_factory=lambda: [None, None])
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    # What is left of each charge.
    settled: dict[str, int] = field(default_factory=dict)

    def held_by(self, *keys: int) -> int:
        return sum(amount for key, amount in self.held.values() if key in keys)

    def fits(self, key: int, amount: int) -> bool:
        balance = self.credits - sum(self.spent)
        if amount == 0:
            return balance >= 0
        limit = self.limits[key]
        room = limit is None or self.spent[key] + self.held_by(key) + amount <= limit
        return balance - self.held_by(0, 1) >= amount and room


class LedgerLife(RuleBasedStateMachine):
    """One account with two keys, from its first top-up on."""

    writer: ClassVar[LedgerWriter]
    session: ClassVar[LedgerSession]
    audit_every: ClassVar[int] = AUDIT_EVERY
    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.payers: list[Payer] = []
        self.steps = 0

    @initialize(credits=AMOUNTS)
    def open(self, credits: int) -> None:
        first = new_payer(credits)
        self.account = Account.objects.get(pk=first.account_id)
        self.payers = [first, payer_with_new_key(self.account)]
        self.model.credits = credits

    @rule(amount=st.integers(1, USD))
    def buy(self, amount: int) -> None:
        top_up(self.account, amount)
        self.model.credits += amount

    @rule(amount=st.integers(1, USD))
    def refund(self, amount: int) -> None:
        row = {"account": self.account, "kind": LedgerEntry.Kind.REFUND, "amount_nano": -amount}
        when, ref = datetime.now(UTC), str(uuid.uuid4())
        LedgerEntry.objects.create(**row, source="test", source_ref=ref, created_at=when)
        mine = Account.objects.filter(pk=self.account.pk)
        mine.update(total_credits_nano=F("total_credits_nano") - amount)
        self.model.credits -= amount

    @rule(key=st.integers(0, 1), limit=st.none() | AMOUNTS, reset=RESETS)
    def limit(self, key: int, limit: int | None, reset: str | None) -> None:
        changes = {"limit_nano": limit, "limit_reset": reset}
        change_key(keys=ApiKey.objects.filter(pk=self.payers[key].key_id), changes=changes)
        self.model.limits[key] = limit

    @rule(target=holds, key=st.integers(0, 1), amount=AMOUNTS)
    def hold(self, key: int, amount: int) -> object:
        fits = self.model.fits(key, amount)
        order = hold_order(renew_payer(self.payers[key]), amount)
        assert (carry_out(self.writer, order) is True) == fits
        if not fits:
            return multiple()
        self.model.held[order.generation_id] = (key, amount)
        return order

    @rule(hold=holds, amount=st.integers(1, USD))
    def raise_hold(self, hold: HoldOrder, amount: int) -> None:
        key = self._key(hold)
        open_amount = self.model.held.get(hold.generation_id)
        fits = open_amount is not None and self.model.fits(key, amount)
        # Who raises knows the limits of now, as whoever begins to hold.
        order = TopUpOrder(hold.generation_id, renew_payer(hold.payer), amount)
        assert (carry_out(self.writer, order) is True) == fits
        if fits and open_amount is not None:
            self.model.held[hold.generation_id] = (key, open_amount[1] + amount)

    @rule(hold=holds, percent=st.sampled_from([0, 1, 50, 99, 100, 101, 250]))
    def settle(self, hold: HoldOrder, percent: int) -> None:
        """In time, late, again: below, at and above the hold."""
        charge = hold.amount_nano * percent // 100
        assert carry_out(self.writer, settle_order(hold, charge)) is True
        if hold.generation_id not in self.model.settled:
            self.model.spent[self._key(hold)] += charge
            self.model.settled[hold.generation_id] = charge
        self.model.held.pop(hold.generation_id, None)

    @rule(hold=holds, percent=st.sampled_from([1, 50, 100, 101]))
    def reverse(self, hold: HoldOrder, percent: int) -> None:
        """Some of a charge, all of it, more than that, or of one that never was."""
        left = self.model.settled.get(hold.generation_id, 0)
        amount = max(1, left * percent // 100)
        try:
            reverse_usage(
                generation_id=hold.generation_id, amount_nano=amount, source_ref=str(uuid.uuid4())
            )
        except (NotCharged, MoreThanCharged):
            assert amount > left
            return
        self.model.spent[self._key(hold)] -= amount
        self.model.settled[hold.generation_id] = left - amount

    @rule(hold=holds)
    def release(self, hold: HoldOrder) -> None:
        assert carry_out(self.writer, release_order(hold)) is True
        self.model.held.pop(hold.generation_id, None)

    @rule(hold=holds)
    def expire_and_sweep(self, hold: HoldOrder) -> None:
        past = datetime.now(UTC) - timedelta(seconds=1)
        expired = Hold.objects.filter(pk=hold.generation_id).update(lease_expires_at=past)
        assert sweep_all_expired(self.session, datetime.now(UTC)) == expired
        self.model.held.pop(hold.generation_id, None)

    def _key(self, hold: HoldOrder) -> int:
        return [payer.key_id for payer in self.payers].index(hold.payer.key_id)

    @invariant()
    def books_agree(self) -> None:
        model = self.model
        if not self.payers:
            return
        held = model.held_by(0, 1)
        sums = model.credits, sum(model.spent), held
        assert self._account() == [sums]
        assert self._entries_and_holds() == sums
        keys = [str(payer.key_id) for payer in self.payers]
        figures = zip(model.spent, map(model.held_by, (0, 1)), strict=True)
        expected = dict(zip(keys, figures, strict=True))
        # A key that never held has no counters yet.
        told = self._counters(keys)
        assert all(spent == expected[key][0] for key, spent, *_ in told)
        # Requests are held where there is a limit, and until they end where there was one.
        for key, _, held, limit in told:
            assert held <= expected[key][1]
            assert limit is None or held == expected[key][1]
        assert len(told) in (0, 4, 8)
        self.steps += 1
        if self.steps % self.audit_every == 0:
            assert_books_agree()

    def _account(self) -> list[tuple[int, ...]]:
        """Read past the ORM: this runs after each of some thousand steps."""
        sql = "SELECT total_credits_nano, total_usage_nano, held_nano FROM accounts_account"
        return self._rows(f"{sql} WHERE id = %s", [self.session.uuid(self.account.pk)])

    def _entries_and_holds(self) -> tuple[int, int, int]:
        """What was bought, used and is held, from the rows themselves."""
        mine = [self.session.uuid(self.account.pk)]
        entries = "SELECT kind, SUM(amount_nano) FROM accounts_ledgerentry"
        sums = dict(self._rows(f"{entries} WHERE account_id = %s GROUP BY kind", mine))
        holds = "SELECT COALESCE(SUM(amount_nano), 0) FROM accounts_hold WHERE account_id = %s"
        ((held,),) = self._rows(holds, mine)
        bought, used = (sum(sums.get(k, 0) for k in kinds) for kinds in (CREDIT_KINDS, USAGE_KINDS))
        return bought, used, held

    def _counters(self, keys: list[str]) -> list[tuple[Any, ...]]:
        sql = "SELECT scope_id, spent_nano, held_nano, limit_nano FROM accounts_spendcounter"
        return self._rows(f"{sql} WHERE scope_id IN (%s, %s)", keys)

    def _rows(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.execute(sql, parameters).fetchall()]

    def teardown(self) -> None:
        """The account goes, so that the audit of the next life has little to read."""
        if self.payers:
            assert_books_agree()
            mine = {"account": self.account}
            for rows in (Hold, LedgerEntry, Generation, ApiKey):
                rows.objects.filter(**mine).delete()
            SpendCounter.objects.all().delete()
            self.account.workspaces.all().delete()
            self.account.delete()


@pytest.fixture
def life() -> Iterator[type[LedgerLife]]:
    session = LedgerSession()
    with running_writer() as writer:
        yield type("Life", (LedgerLife,), {"writer": writer, "session": session})
    session.close()


LIVES = settings(
    max_examples=10,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.mark.timeout(300)
def test_the_books_agree_after_every_step_of_ten_lives(life: type[LedgerLife]) -> None:
    run_state_machine_as_test(life, settings=LIVES)


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_the_books_agree_after_every_step_of_2000_long_lives(life: type[LedgerLife]) -> None:
    longer = settings(LIVES, max_examples=2000, stateful_step_count=50)
    life.audit_every = 1
    run_state_machine_as_test(life, settings=longer)
