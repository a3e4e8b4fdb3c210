"""Key limits, workspace budgets and guardrails' budgets together, through days, weeks and months,
against a model of a few lines. What is spent and held of each is what the requests add up to, and
none is passed."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

import orjson
import pytest
from django.db import transaction
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from accounts.caller import read_caller
from accounts.models import Account, ApiKey, Hold, Membership, SpendCounter
from accounts.rates import read_free_requests
from accounts.services.books.audit import compare_books
from accounts.services.budgets import read_spending
from accounts.services.keys import change_key, create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import end_budgets, outdate_limits
from accounts.services.workspace_budgets import LimitsNotDecreasing, delete_budget, set_budget
from accounts.spending import (
    WINDOW_WORDS,
    SpendScope,
    WindowName,
    find_window_starts,
    format_guardrail_scope_id,
)
from accounts.views.schemas.key import load_current_key
from routing.ledger.orders import OUTDATED, HoldOrder, HoldRefusal, Payer, TopUpOrder
from routing.ledger.session import LedgerSession
from routing.ledger.sweep import sweep_all_expired
from routing.ledger.writer import LedgerWriter
from tests.routing.ledger.books import (
    USD,
    carry_out,
    hold_order,
    payer_of,
    release_order,
    running_writer,
    settle_order,
    top_up,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.thorough]
AMOUNTS = st.integers(0, USD)
LIMITS = st.integers(1, 4 * USD)
WINDOWS: st.SearchStrategy[WindowName] = st.sampled_from(["total", "month", "week", "day"])
RESETS: dict[WindowName, str | None]
RESETS = {"total": None, "month": "monthly", "week": "weekly", "day": "daily"}
INTERVALS = {"lifetime": "total", "monthly": "month", "weekly": "week", "daily": "day"}
USAGES = {f"usage_{reset}" if reset else "usage": window for window, reset in RESETS.items()}
KEYS = st.integers(0, 2)
# Of the first key; of the member everywhere; of the member in the first workspace.
GUARDRAILS = st.sampled_from(["key", "member", "member here"])
STEPS = st.sampled_from([timedelta(hours=1), timedelta(days=1), timedelta(days=9)])
BEGINNINGS = st.datetimes(datetime(2026, 1, 1), datetime(2028, 12, 31), timezones=st.just(UTC))


@dataclass
class Request:
    """What it holds or cost, and on a credential of the caller's own."""

    key: int
    at: datetime
    nano: int
    byok: int
    is_open: bool = True


class Limit(NamedTuple):
    """Which keys together, in which window, how much, and whether BYOK counts."""

    keys: tuple[int, ...]
    window: WindowName
    nano: int
    byok: bool


@dataclass
class Model:
    requests: dict[str, Request] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)

    def sum_counted_nano(self, limit: Limit, at: datetime, *, is_open: bool | None = None) -> int:
        here = find_window_starts(at)[limit.window]
        return sum(
            each.nano + (each.byok if limit.byok else 0)
            for each in self.requests.values()
            if each.key in limit.keys and find_window_starts(each.at)[limit.window] == here
            if is_open in (None, each.is_open)
        )

    def fits(self, key: int, at: datetime, nano: int, byok: int) -> bool:
        for limit in (each for each in self.limits.values() if key in each.keys):
            asked = nano + (byok if limit.byok else 0)
            if asked and self.sum_counted_nano(limit, at) + asked > limit.nano:
                return False
        return True


def has_begun(life: "BudgetLife") -> bool:
    return hasattr(life, "account")


class BudgetLife(RuleBasedStateMachine):
    """A rich account: two keys in one workspace and a third in another, all of one member."""

    writer: ClassVar[LedgerWriter]
    session: ClassVar[LedgerSession]
    audit_every: ClassVar[int] = 5  # It takes longer than a step and what is compared after each.
    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.guardrails: dict[str, SpendScope] = {}
        self.steps = 0
        self.ids = {name: uuid.uuid4() for name in ("key", "member", "member here")}

    @initialize(now=BEGINNINGS)
    def begin(self, now: datetime) -> None:
        self.now = now
        self.account = open_account(name=f"payer-{uuid.uuid4()}")
        top_up(self.account, 100_000 * USD)
        member: Any = {"username": f"user-{uuid.uuid4()}", "role": Membership.Role.MEMBER}
        self.user = admit_member(account=self.account, **member)
        self.here = self.account.workspaces.get()
        there = open_workspace(account=self.account, slug="there")
        self.keys = [
            create_key(account=self.account, name="k", workspace=place, creator=self.user)[0]
            for place in (self.here, self.here, there)
        ]

    @rule(step=STEPS)
    def wait(self, step: timedelta) -> None:
        self.now += step

    @rule()
    def wait_for_midnight(self) -> None:
        midnight = (self.now + timedelta(days=1)).replace(hour=0, minute=0, second=0)
        self.now = midnight.replace(microsecond=0)

    # --- Limits ---------------------------------------------------------------------------------

    @rule(key=KEYS, limit=st.none() | LIMITS, window=WINDOWS, byok=st.booleans())
    def limit_key(self, key: int, limit: int | None, window: WindowName, byok: bool) -> None:
        row, reset = ApiKey.objects.filter(pk=self.keys[key].pk), RESETS[window]
        changes = {"limit_nano": limit, "limit_reset": reset, "include_byok_in_limit": byok}
        change_key(keys=row, changes=changes, at=self.now)
        self._say(f"key {key}", limit and Limit((key,), window, limit, byok))

    @rule(interval=st.sampled_from(list(INTERVALS)), limit=LIMITS, byok=st.none() | st.booleans())
    def set_budget(self, interval: str, limit: int, byok: bool | None) -> None:
        wanted: Any = {"limit_nano": limit, "include_byok": byok, "at": self.now}
        try:
            found, _ = set_budget(**self._budget(interval), **wanted)
        except LimitsNotDecreasing:
            return
        for row in found.rows:
            window: Any = INTERVALS[row.interval]
            counts = found.workspace.include_byok_in_budgets
            self._say(row.interval, Limit((0, 1), window, row.limit_nano, counts))

    @rule(interval=st.sampled_from(list(INTERVALS)))
    def delete_budget(self, interval: str) -> None:
        there_was = delete_budget(**self._budget(interval))
        assert there_was is (interval in self.model.limits)
        self._say(interval, None)

    def _budget(self, interval: str) -> dict[str, Any]:
        account = self.account.pk
        return {"account_id": account, "reference": "default", "interval": interval, "by": SYSTEM}

    @rule(name=GUARDRAILS, limit=st.none() | LIMITS, window=WINDOWS, byok=st.booleans())
    def limit_guardrail(self, name: str, limit: int | None, window: WindowName, byok: bool) -> None:
        before = self.guardrails.pop(name, None)
        with transaction.atomic():
            if before is not None:
                end_budgets(self.account.pk, [before])
            if limit is not None:
                self.guardrails[name] = self._scope(name, window, limit, byok)
                outdate_limits(self.account.pk)
        keys = {"key": (0,), "member": (0, 1, 2), "member here": (0, 1)}[name]
        self._say(name, limit and Limit(keys, window, limit, byok))

    def _scope(self, name: str, window: WindowName, limit: int, byok: bool) -> SpendScope:
        holder = {"key": self.keys[0].pk} if name == "key" else {"user": self.user.pk}
        confined = self.here.pk.hex if name == "member here" else ""
        scope_id = format_guardrail_scope_id(self.ids[name], **holder)
        return SpendScope("guardrail", scope_id, window, limit, byok, confined)

    def _say(self, name: str, limit: Any) -> None:
        self.model.limits.pop(name, None)
        if limit:
            self.model.limits[name] = limit

    # --- Requests -------------------------------------------------------------------------------

    def _payer(self, key: int) -> Payer:
        payer = payer_of(self.keys[key], at=self.now)
        names = ["member"] if key == 2 else ["member here", "member"]
        names += ["key"] if key == 0 else []
        mine = [self.guardrails[name] for name in names if name in self.guardrails]
        return payer._replace(budgets=(*mine, *payer.budgets))

    @rule(target=holds, key=KEYS, nano=AMOUNTS, byok=st.just(0) | AMOUNTS)
    def hold(self, key: int, nano: int, byok: int) -> object:
        order = hold_order(self._payer(key), nano, at=self.now, byok_nano=byok)
        fits = self.model.fits(key, self.now, nano, byok)
        outcome = carry_out(self.writer, order)
        assert (outcome is True) == fits
        if not fits:
            self._check_refusal(outcome, key, nano, byok)
            return multiple()
        self.model.requests[order.generation_id] = Request(key, self.now, nano, byok)
        return order

    @rule(target=holds, key=KEYS)
    def hold_all_that_is_left(self, key: int) -> object:
        mine = [limit for limit in self.model.limits.values() if key in limit.keys]
        left = min(
            (each.nano - self.model.sum_counted_nano(each, self.now) for each in mine), default=0
        )
        return self.hold(key, left, 0) if left > 0 else multiple()

    @rule(key=KEYS, nano=st.integers(1, USD))
    def hold_by_who_knows_older_limits(self, key: int, nano: int) -> None:
        payer = self._payer(key)
        assume(payer.limits_version)
        older = payer._replace(limits_version=payer.limits_version - 1, budgets=())
        assert carry_out(self.writer, hold_order(older, nano, at=self.now)) is OUTDATED

    def _check_refusal(self, outcome: object, key: int, nano: int, byok: int) -> None:
        assert isinstance(outcome, HoldRefusal)
        mine = {name: each for name, each in self.model.limits.items() if key in each.keys}
        budgets = [each for name, each in mine.items() if not name.startswith("key ")]
        assert sorted((state.left_nano, state.held_nano) for state in outcome.budgets) == sorted(
            (each.nano - self._count(each, is_open=False), self._count(each, is_open=True))
            for each in budgets
        )
        assert (outcome.asked_nano, outcome.byok_nano) == (nano, byok)

    def _key_of(self, hold: HoldOrder) -> int:
        return [each.pk for each in self.keys].index(hold.payer.key_id)

    def _open(self, hold: HoldOrder) -> Request | None:
        request = self.model.requests.get(hold.generation_id)
        return request if request and request.is_open else None

    @rule(hold=holds, nano=AMOUNTS, byok=st.just(0) | AMOUNTS)
    def raise_hold(self, hold: HoldOrder, nano: int, byok: int) -> None:
        request = self._open(hold)
        fits = request is not None and self.model.fits(request.key, request.at, nano, byok)
        payer = self._payer(self._key_of(hold))._replace(windows=hold.payer.windows)
        order = TopUpOrder(hold.generation_id, payer, nano, byok)
        assert (carry_out(self.writer, order) is True) == fits
        if request and fits:
            request.nano, request.byok = request.nano + nano, request.byok + byok

    @rule(hold=holds, nano=AMOUNTS)
    def raise_hold_by_who_knows_older_limits(self, hold: HoldOrder, nano: int) -> None:
        version = Account.objects.get(pk=self.account.pk).limits_version
        assume(hold.payer.limits_version != version)
        order = TopUpOrder(hold.generation_id, hold.payer, nano, 0)
        assert carry_out(self.writer, order) is OUTDATED

    @rule(hold=consumes(holds), percent=st.sampled_from([0, 10, 99, 100, 130]))
    def settle(self, hold: HoldOrder, percent: int) -> None:
        """In time, or after its hold was swept."""
        nano, byok = (each * percent // 100 for each in (hold.amount_nano, hold.byok_nano))
        order = settle_order(hold, nano, byok_nano=byok)._replace(settled_at=self.now)
        order = order._replace(held_nano=hold.amount_nano, held_byok_nano=hold.byok_nano)
        assert carry_out(self.writer, order) is True
        key, began = self._key_of(hold), hold.created_at
        self.model.requests[hold.generation_id] = Request(key, began, nano, byok, is_open=False)

    @rule(hold=consumes(holds))
    def release(self, hold: HoldOrder) -> None:
        assert carry_out(self.writer, release_order(hold)) is True
        self.model.requests.pop(hold.generation_id, None)

    @rule(hold=holds)
    def expire_and_sweep(self, hold: HoldOrder) -> None:
        past = datetime.now(UTC) - timedelta(seconds=1)
        holds = Hold.objects.filter(pk=hold.generation_id).update(lease_expires_at=past)
        assert sweep_all_expired(self.session, datetime.now(UTC)) == holds
        if self._open(hold):
            del self.model.requests[hold.generation_id]

    # --- What is always so ----------------------------------------------------------------------

    def _count(self, limit: Limit, *, is_open: bool) -> int:
        return self.model.sum_counted_nano(limit, self.now, is_open=is_open)

    @precondition(has_begun)
    @invariant()
    def every_counter_with_a_limit_says_what_the_requests_add_up_to(self) -> None:
        for name, limit in self.model.limits.items():
            rows = SpendCounter.objects.filter(
                limit_nano__isnull=False,
                window=limit.window,
                window_start=find_window_starts(self.now)[limit.window],
                **self._place(name),
            )
            for row in rows:
                held = row.held_nano + (row.byok_held_nano if row.counts_byok else 0)
                if (row.counts_byok, row.limit_nano) != (limit.byok, limit.nano):
                    continue  # Nobody has met it yet since its guardrail changed.
                assert row.counted_nano == self._count(limit, is_open=False)
                assert held == self._count(limit, is_open=True)

    def _place(self, name: str) -> dict[str, Any]:
        if name.startswith("key "):
            return {"scope": "key", "scope_id": str(self.keys[int(name[4:])].pk)}
        if name in INTERVALS:
            return {"scope": "workspace", "scope_id": self.here.pk.hex}
        return {"scope": "guardrail", "scope_id": self.guardrails[name].scope_id}

    @precondition(has_begun)
    @invariant()
    def whoever_asks_is_told_what_was_spent_of_each(self) -> None:
        """Also where nobody has met the budget since it was set."""
        scopes = dict(self.guardrails)
        for scope in payer_of(self.keys[0], at=self.now).budgets:
            scopes[WINDOW_WORDS[scope.window]] = scope
        spent = read_spending(self.account.pk, list(scopes.values()), at=self.now)
        for name, scope in scopes.items():
            assert spent[scope] == self._count(self.model.limits[name], is_open=False), name

    @precondition(has_begun)
    @invariant()
    def books_agree_and_a_key_says_what_it_spent_and_what_is_left(self) -> None:
        self.steps += 1
        if self.steps % self.audit_every == 0:
            self._check_what_a_key_says()
            assert compare_books(now=self.now).mismatches == []

    def _check_what_a_key_says(self) -> None:
        caller = read_caller(self.keys[0].hash)
        assert caller is not None
        answer = load_current_key(caller, read_free_requests(caller), self.now)
        key = orjson.loads(orjson.dumps(answer))
        for name, window in USAGES.items():
            spent = self._count(Limit((0,), window, 0, byok=False), is_open=False)
            assert key[name] == spent / USD, name
        limit = self.model.limits.get("key 0")
        left = limit and max(0, limit.nano - self._count(limit, is_open=False)) / USD
        assert key["limit_remaining"] == left

    def teardown(self) -> None:
        """Nothing of this life is left for the audit of the next one to read."""
        if has_begun(self):
            assert compare_books(now=self.now).mismatches == []
        Hold.objects.all().delete()
        Account.objects.update(held_nano=0)
        SpendCounter.objects.update(held_nano=0, byok_held_nano=0)


@pytest.fixture
def life() -> Iterator[type[BudgetLife]]:
    session = LedgerSession()
    with running_writer() as writer:
        yield type("Life", (BudgetLife,), {"writer": writer, "session": session})
    session.close()


UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
LIVES = settings(UNHURRIED, max_examples=12, stateful_step_count=30)


@pytest.mark.timeout(300)
def test_no_limit_is_passed_and_no_counter_is_wrong_in_twelve_lives(life, stores) -> None:
    lives = LIVES if stores.is_postgres else settings(LIVES, max_examples=8)
    run_state_machine_as_test(life, settings=lives)


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_no_limit_is_passed_and_no_counter_is_wrong_in_2000_lives(life) -> None:
    longer = settings(LIVES, max_examples=2000, stateful_step_count=50)
    life.audit_every = 1
    run_state_machine_as_test(life, settings=longer)
