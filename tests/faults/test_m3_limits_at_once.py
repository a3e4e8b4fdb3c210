"""M3: the balance, a key's limit, a workspace's budget and a guardrail's run out in the same
moment, and none is passed. That holds for requests that were under way when a limit was set, too.
Without a crowd that is `test_budgets_over_time`'s."""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from accounts.models import Account, ApiKey, SpendCounter, User
from accounts.services.keys import change_key
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import end_budgets, outdate_limits
from accounts.services.workspace_budgets import set_budget
from accounts.spending import SpendScope, format_guardrail_scope_id
from routing.ledger.orders import OUTDATED, HoldRefusal, Payer, TopUpOrder
from routing.ledger.session import LedgerSession
from routing.ledger.writer import LedgerWriter
from tests.routing.ledger.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    carry_out,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    payer_with_new_key,
    renew_payer,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.ledger.sessions import UnguardedSession
from tests.routing.ledger.spenders import spend_at_once, task_for
from tests.support.bed import Bed
from tests.support.callers import seeded_random
from tests.support.processes import eventually

pytestmark = [pytest.mark.both, pytest.mark.django_db(transaction=True)]
PRICE_NANO = 7_000_000
THREADS, CALLS = 25, 100
# How many calls each pays for: the balance, the first key's limit, the workspace's budget, the
# guardrail of both keys.
TIGHT = {
    "the balance": (20, 30, 30, 30),
    "the key": (60, 20, 80, 80),
    "the workspace": (30, 30, 20, 30),
    "the guardrail": (30, 30, 30, 20),
    "all four": (20, 10, 20, 20),
}


def set_monthly(payer: Payer, limit_nano: int) -> None:
    where: Any = {"account_id": payer.account_id, "reference": "default", "interval": "monthly"}
    set_budget(**where, limit_nano=limit_nano, include_byok=False, by=SYSTEM)


def guardrail(payer: Payer, limit_nano: int) -> SpendScope:
    """One that limits whoever made the account's keys for each day, from now on."""
    user = User.objects.create_user(username=f"user-{uuid.uuid4()}")
    ApiKey.objects.filter(account=payer.account_id).update(creator=user)
    scope_id = format_guardrail_scope_id(uuid.uuid4(), user=user.pk)
    with transaction.atomic():
        outdate_limits(payer.account_id)
    return SpendScope("guardrail", scope_id, "day", limit_nano, counts_byok=False)


def add_budget(payer: Payer, scope: SpendScope) -> Payer:
    payer = renew_payer(payer)
    return payer._replace(budgets=(scope, *payer.budgets))


def two_payers(limits: Sequence[int]) -> tuple[list[Payer], SpendScope]:
    """Two new keys of a workspace, the second one without a limit of its own."""
    balance, limit, budget, guarded = limits
    first = new_payer(balance, limit_nano=limit)
    second = payer_with_new_key(Account.objects.get(pk=first.account_id))
    set_monthly(first, budget)
    scope = guardrail(first, guarded)
    return [add_budget(first, scope), add_budget(second, scope)], scope


def spend(
    payers: Sequence[Payer], amounts: Sequence[int], session: type[LedgerSession] = LedgerSession
) -> int:
    """Hold and settle each amount, the keys in turn, all threads from one moment on; the number
    served. What was held is what is charged, so a limit that was passed once stays passed."""
    barrier = threading.Barrier(THREADS)

    def one(thread: int) -> int:
        served = 0
        barrier.wait()
        for number in range(thread, len(amounts), THREADS):
            hold = hold_order(payers[number % len(payers)], amounts[number])
            if carry_out(shared, hold) is True:
                assert carry_out(shared, settle_order(hold, amounts[number])) is True
                served += 1
        return served

    with running_writer(session) as shared, ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(one, range(THREADS)))


def spent_of(payers: Sequence[Payer], scope: SpendScope) -> list[int]:
    """What the account, the first key, the workspace and the guardrail have spent."""
    assert not SpendCounter.objects.exclude(held_nano=0).exists()
    budget = SpendCounter.objects.get(scope="workspace", window="month")
    guarded = SpendCounter.objects.get(scope_id=scope.scope_id)
    key = key_counters(payers[0])["total"][0]
    return [totals(payers[0])[1], key, budget.spent_nano, guarded.spent_nano]


@pytest.mark.parametrize("what", TIGHT)
def test_none_of_four_limits_is_passed_where_they_run_out_at_once(what: str) -> None:
    limits = [calls * PRICE_NANO for calls in TIGHT[what]]
    payers, scope = two_payers(limits)

    served = spend(payers, [PRICE_NANO] * CALLS)

    balance, limit, budget, guarded = TIGHT[what]
    assert served == min(balance, budget, guarded, limit + CALLS // 2)
    spent = spent_of(payers, scope)
    assert all(mine <= limit for mine, limit in zip(spent, limits, strict=True))
    assert spent[0] == spent[2] == spent[3] == served * PRICE_NANO
    assert open_holds(payers[0]) == []
    assert_books_agree()


def test_no_limit_is_passed_by_amounts_of_every_size() -> None:
    chance = seeded_random()
    limits = [chance.randint(20, 40) * PRICE_NANO + chance.randint(0, 999) for _ in range(4)]
    payers, scope = two_payers(limits)

    spend(payers, [chance.randint(1, 3 * PRICE_NANO) for _ in range(CALLS)])

    spent = spent_of(payers, scope)
    assert all(0 < mine <= limit for mine, limit in zip(spent, limits, strict=True))
    assert_books_agree()


def test_without_the_guards_all_four_are_passed() -> None:
    limits = [calls * PRICE_NANO for calls in TIGHT["all four"]]
    payers, scope = two_payers(limits)

    assert spend(payers, [PRICE_NANO] * CALLS, UnguardedSession) == CALLS

    assert all(mine > limit for mine, limit in zip(spent_of(payers, scope), limits, strict=True))


def test_two_processes_pass_none_of_them_either(stores: Bed) -> None:
    first = new_payer(25 * PRICE_NANO, limit_nano=22 * PRICE_NANO, limit_reset="weekly")
    set_monthly(first, 21 * PRICE_NANO)
    scope = guardrail(first, 20 * PRICE_NANO)
    task = task_for(first, requests=60, nano=PRICE_NANO, threads=25, guardrails=[scope])

    spent = spend_at_once(stores, task, task)

    assert (spent.served, spent.failed) == (20, 0)
    assert totals(first) == (25 * PRICE_NANO, 20 * PRICE_NANO, 0)
    assert_books_agree()


# --- Limits that change ---------------------------------------------------------------------------


@pytest.fixture
def writer() -> Iterator[LedgerWriter]:
    with running_writer() as writer:
        yield writer


@pytest.fixture
def charge(writer: LedgerWriter) -> Callable[[Payer, int], None]:
    def charge(payer: Payer, cents: int) -> None:
        hold = hold_order(payer, cents * CENT)
        assert carry_out(writer, hold) is True
        assert carry_out(writer, settle_order(hold, cents * CENT)) is True

    return charge


def put_on(kind: str, payer: Payer, limit_nano: int) -> Payer:
    """Put a limit on, and give the payer as it is known from then on."""
    if kind == "key":
        key = ApiKey.objects.filter(pk=payer.key_id)
        change_key(keys=key, changes={"limit_nano": limit_nano, "limit_reset": "daily"})
    elif kind == "workspace":
        set_monthly(payer, limit_nano)
    else:
        return add_budget(payer, guardrail(payer, limit_nano))
    return renew_payer(payer)


def is_refused(writer: LedgerWriter, order: Any) -> bool:
    return isinstance(carry_out(writer, order), HoldRefusal)


@pytest.mark.parametrize("kind", ["key", "workspace", "guardrail"])
def test_a_limit_that_is_set_while_requests_run_counts_them_too(
    writer: LedgerWriter, charge: Callable[[Payer, int], None], kind: str
) -> None:
    payer = new_payer(USD)
    held, ends = (hold_order(payer, cents * CENT) for cents in (30, 20))
    for hold in (held, ends):
        assert carry_out(writer, hold) is True
    charge(payer, 10)
    # 10 are spent and 50 are held: 5 are left.
    now = put_on(kind, payer, 65 * CENT)
    assert is_refused(writer, hold_order(now, 5 * CENT + 1))
    assert carry_out(writer, hold_order(payer, CENT)) is OUTDATED
    assert carry_out(writer, hold_order(now, 5 * CENT)) is True
    # What ends for less leaves room, by the payer that it began with.
    told = settle_order(ends, 15 * CENT)._replace(held_nano=20 * CENT)
    assert carry_out(writer, told) is True
    assert is_refused(writer, hold_order(now, 5 * CENT + 1))
    # What runs asks for more by the limits of now.
    more = TopUpOrder(held.generation_id, payer, 5 * CENT + 1)
    assert carry_out(writer, more) is OUTDATED
    assert is_refused(writer, more._replace(payer=now))
    assert carry_out(writer, more._replace(payer=now, amount_nano=5 * CENT)) is True
    assert is_refused(writer, hold_order(now, 1))
    assert carry_out(writer, settle_order(held._replace(payer=now), 35 * CENT)) is True

    assert totals(payer) == (USD, 60 * CENT, 5 * CENT)
    limited = SpendCounter.objects.get(limit_nano=65 * CENT)
    assert (limited.spent_nano, limited.held_nano) == (60 * CENT, 5 * CENT)
    assert_books_agree()


def test_a_request_under_way_holds_on_as_many_limits_as_are_set(
    writer: LedgerWriter, charge: Callable[[Payer, int], None]
) -> None:
    """None is refused because another one has met too many of them."""
    payer = new_payer(USD)
    scopes: list[SpendScope] = []
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence('accounts_spendcounter', 'id'), 100000000)"
            )
    assert carry_out(writer, hold_order(payer, CENT)) is True

    for _ in range(45):
        with transaction.atomic():
            end_budgets(payer.account_id, scopes)
        scope_id = format_guardrail_scope_id(uuid.uuid4(), key=payer.key_id)
        scopes = [SpendScope("guardrail", scope_id, "day", USD, counts_byok=False)]
        charge(renew_payer(payer)._replace(budgets=tuple(scopes)), 1)

    assert_books_agree()


def test_limits_that_change_all_the_while_are_never_passed(writer: LedgerWriter) -> None:
    """Eight spenders and one who sets another budget each time; each call knows those of the
    moment before it at best."""
    payer = new_payer(100 * USD)
    limits = [(50 + step) * PRICE_NANO for step in range(20)]
    set_monthly(payer, limits[0])
    known, ended = [renew_payer(payer)], threading.Event()

    def one() -> int:
        served = 0
        while not ended.is_set():
            hold = hold_order(known[0], PRICE_NANO)
            if carry_out(writer, hold) is True:
                assert carry_out(writer, settle_order(hold, PRICE_NANO)) is True
                served += 1
        return served

    with ThreadPoolExecutor(8) as pool:
        spenders = [pool.submit(one) for _ in range(8)]
        for limit_nano in limits[1:]:
            set_monthly(payer, limit_nano)
            known[0] = renew_payer(payer)
        what = "the last cent"
        eventually(lambda: totals(payer)[1] == limits[-1], within_s=WAIT_S, what=what, log=None)
        ended.set()
        served = sum(each.result() for each in spenders)

    assert (served * PRICE_NANO, totals(payer)[1:]) == (limits[-1], (limits[-1], 0))
    assert_books_agree()
