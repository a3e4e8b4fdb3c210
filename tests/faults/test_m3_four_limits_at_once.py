"""M3 with budgets: the balance, a key's limit, a workspace's budget and a guardrail's run out in
the same moment, and none is passed; also by requests that were under way when a limit was set."""

import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from accounts.models import Account, ApiKey, SpendCounter, User
from accounts.services.keys import set_limit
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import outdate_limits
from accounts.services.workspace_budgets import delete_budget, set_budget
from accounts.spending import SpendScope, guardrail_scope_id
from routing.metering.orders import OUTDATED, HoldOrder, Payer, Refusal
from routing.metering.session import Session
from tests.conformance.desk import HELLO
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.test_m2_over_http import HELD_NANO, MAX_TOKENS, MODEL, PROCESSES
from tests.routing.metering.books import (
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
    renewed,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.metering.sessions import UnguardedSession
from tests.routing.metering.spenders import spend_at_once, task_for
from tests.support.bed import Bed
from tests.support.callers import ask, at_a_time, new_key
from tests.support.gateways import seed_account
from tests.support.processes import eventually

pytestmark = pytest.mark.both
in_process = pytest.mark.django_db(transaction=True)
PRICE_NANO = 7_000_000
THREADS = 50
# How many calls each pays for: the balance, the first key's limit, the workspace's budget, the
# guardrail of both keys.
TIGHT = {
    "the balance": (20, 30, 30, 30),
    "the key": (60, 20, 60, 60),
    "the workspace": (30, 30, 20, 30),
    "the guardrail": (30, 30, 30, 20),
    "all four": (20, 10, 20, 20),
}


def set_monthly(payer: Payer, limit_nano: int, *, byok: bool = False) -> None:
    set_budget(
        account_id=payer.account_id,
        reference="default",
        interval="monthly",
        limit_nano=limit_nano,
        include_byok=byok,
        by=SYSTEM,
    )


def guardrail(payer: Payer, limit_nano: int, *, byok: bool = False) -> SpendScope:
    """One that limits whoever made the account's keys for each day, from now on."""
    user = User.objects.create_user(username=f"user-{uuid.uuid4()}")
    ApiKey.objects.filter(account=payer.account_id).update(creator=user)
    scope_id = guardrail_scope_id(uuid.uuid4(), user=user.pk)
    scope = SpendScope("guardrail", scope_id, "day", limit_nano, byok)
    with transaction.atomic():
        outdate_limits(payer.account_id)
    return scope


def under(payer: Payer, scope: SpendScope) -> Payer:
    payer = renewed(payer)
    return payer._replace(budgets=(scope, *payer.budgets))


def two_payers(what: str) -> tuple[list[Payer], SpendScope]:
    """Two new keys of a workspace, the second one without a limit of its own."""
    balance, limit, budget, guarded = (calls * PRICE_NANO for calls in TIGHT[what])
    first = new_payer(balance, limit_nano=limit)
    second = payer_with_new_key(Account.objects.get(pk=first.account_id))
    set_monthly(first, budget)
    scope = guardrail(first, guarded)
    return [under(first, scope), under(second, scope)], scope


def spend(payers: Sequence[Payer], session: type[Session] = Session) -> int:
    """Three hundred calls, the keys in turn, fifty from one moment on; the number served."""
    barrier = threading.Barrier(THREADS)

    def one(thread: int) -> int:
        served = 0
        barrier.wait()
        for number in range(thread, 300, THREADS):
            hold = hold_order(payers[number % len(payers)], PRICE_NANO)
            if carry_out(writer, hold) is True:
                assert carry_out(writer, settle_order(hold, PRICE_NANO)) is True
                served += 1
        return served

    with running_writer(session) as writer, ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(one, range(THREADS)))


def spent_of(payers: Sequence[Payer], scope: SpendScope) -> list[int]:
    """What the account, the first key, the workspace and the guardrail have spent."""
    assert not SpendCounter.objects.exclude(held_nano=0).exists()
    budget = SpendCounter.objects.get(scope="workspace", window="month")
    guarded = SpendCounter.objects.get(scope_id=scope.scope_id)
    key = key_counters(payers[0])["total"][0]
    return [totals(payers[0])[1], key, budget.spent_nano, guarded.spent_nano]


@in_process
@pytest.mark.parametrize("what", TIGHT)
def test_none_of_four_limits_is_passed_where_they_run_out_at_once(what: str) -> None:
    payers, scope = two_payers(what)

    served = spend(payers)

    balance, limit, budget, guarded = TIGHT[what]
    assert served == min(balance, budget, guarded, limit + 150)
    spent = spent_of(payers, scope)
    assert all(mine <= calls * PRICE_NANO for mine, calls in zip(spent, TIGHT[what], strict=True))
    assert spent[0] == spent[2] == spent[3] == served * PRICE_NANO
    assert open_holds(payers[0]) == []
    assert_books_agree()


@in_process
def test_without_the_guards_all_four_are_passed() -> None:
    payers, scope = two_payers("all four")

    assert spend(payers, UnguardedSession) == 300

    limits = [calls * PRICE_NANO for calls in TIGHT["all four"]]
    assert all(mine > limit for mine, limit in zip(spent_of(payers, scope), limits, strict=True))


@in_process
def test_two_processes_pass_none_of_them_either(stores: Bed) -> None:
    first = new_payer(25 * PRICE_NANO, limit_nano=22 * PRICE_NANO, limit_reset="weekly")
    set_monthly(first, 21 * PRICE_NANO)
    scope = guardrail(first, 20 * PRICE_NANO)
    task = task_for(first, requests=120, nano=PRICE_NANO, threads=25, guardrails=[scope])

    spent = spend_at_once(stores, task, task)

    assert (spent.served, spent.failed) == (20, 0)
    assert totals(first) == (25 * PRICE_NANO, 20 * PRICE_NANO, 0)
    assert_books_agree()


def put_on(kind: str, payer: Payer, limit_nano: int) -> Payer:
    """Put a limit on, and give the payer as it is known from then on."""
    if kind == "key":
        key = ApiKey.objects.get(pk=payer.key_id)
        set_limit(key=key, limit_nano=limit_nano, limit_reset="daily")
    elif kind == "workspace":
        set_monthly(payer, limit_nano)
    else:
        return under(payer, guardrail(payer, limit_nano))
    return renewed(payer)


@in_process
@pytest.mark.parametrize("kind", ["key", "workspace", "guardrail"])
def test_a_limit_that_is_set_while_requests_run_counts_them_too(kind: str) -> None:
    payer = new_payer(USD)
    spent, held, ends = (hold_order(payer, cents * CENT) for cents in (10, 30, 20))

    with running_writer() as writer:
        for hold in (spent, held, ends):
            assert carry_out(writer, hold) is True
        assert carry_out(writer, settle_order(spent, 10 * CENT)) is True
        # 10 are spent and 50 are held: 5 are left.
        now = put_on(kind, payer, 65 * CENT)
        assert isinstance(carry_out(writer, hold_order(now, 5 * CENT + 1)), Refusal)
        assert carry_out(writer, hold_order(payer, CENT)) is OUTDATED
        fits = hold_order(now, 5 * CENT)
        assert carry_out(writer, fits) is True
        # What ends for less leaves room, by the payer that it began with.
        told = settle_order(ends, 15 * CENT)._replace(held_nano=20 * CENT)
        assert carry_out(writer, told) is True
        assert isinstance(carry_out(writer, hold_order(now, 5 * CENT + 1)), Refusal)
        assert carry_out(writer, hold_order(now, 5 * CENT)) is True
        assert carry_out(writer, settle_order(held, 30 * CENT)) is True

    assert totals(payer) == (USD, 55 * CENT, 10 * CENT)
    limited = SpendCounter.objects.get(limit_nano=65 * CENT)
    assert (limited.spent_nano, limited.held_nano) == (55 * CENT, 10 * CENT)
    assert_books_agree()


@in_process
def test_a_budget_taken_away_and_set_again_has_missed_nothing() -> None:
    payer = new_payer(USD)
    set_monthly(payer, 50 * CENT)

    with running_writer() as writer:

        def charge(cents: int) -> None:
            hold = hold_order(renewed(payer), cents * CENT)
            assert carry_out(writer, hold) is True
            assert carry_out(writer, settle_order(hold, cents * CENT)) is True

        charge(10)
        assert delete_budget(
            account_id=payer.account_id, reference="default", interval="monthly", by=SYSTEM
        )
        charge(30)
        set_monthly(payer, 50 * CENT)
        assert isinstance(carry_out(writer, hold_order(renewed(payer), 11 * CENT)), Refusal)
        charge(10)

    assert SpendCounter.objects.get(scope="workspace").spent_nano == 50 * CENT
    assert_books_agree()


@in_process
def test_a_guardrail_counts_what_its_holder_spent_without_it() -> None:
    """Assigned, taken from its holder without a word to the ledger, and assigned again."""
    payer = new_payer(USD)
    scope = guardrail(payer, 50 * CENT)

    with running_writer() as writer:

        def charge(who: Payer, cents: int) -> None:
            hold = hold_order(who, cents * CENT)
            assert carry_out(writer, hold) is True
            assert carry_out(writer, settle_order(hold, cents * CENT)) is True

        charge(under(payer, scope), 10)
        charge(renewed(payer), 30)
        with transaction.atomic():
            outdate_limits(payer.account_id)
        again = under(payer, scope)
        assert isinstance(carry_out(writer, hold_order(again, 11 * CENT)), Refusal)
        charge(again, 10)

    assert_books_agree()


@in_process
def test_limits_that_change_all_the_while_are_never_passed() -> None:
    """Eight spenders and one who sets another budget each time; each call knows those of the
    moment before it at best."""
    payer = new_payer(100 * USD)
    limits = [(100 + step) * PRICE_NANO for step in range(40)]
    set_monthly(payer, limits[0])
    known, ended = [renewed(payer)], threading.Event()

    def one() -> int:
        served = 0
        while not ended.is_set():
            hold = hold_order(known[0], PRICE_NANO)
            if carry_out(writer, hold) is True:
                assert carry_out(writer, settle_order(hold, PRICE_NANO)) is True
                served += 1
        return served

    with running_writer() as writer, ThreadPoolExecutor(8) as pool:
        spenders = [pool.submit(one) for _ in range(8)]
        for limit_nano in limits[1:]:
            set_monthly(payer, limit_nano)
            known[0] = renewed(payer)
        eventually(
            lambda: totals(payer)[1] == limits[-1], within_s=WAIT_S, what="the last cent", log=None
        )
        ended.set()
        served = sum(each.result() for each in spenders)

    assert served * PRICE_NANO == limits[-1] == totals(payer)[1]
    assert totals(payer)[2] == 0
    assert_books_agree()


def test_over_http_the_first_fifty_requests_pass_no_limit(desk_on: Open) -> None:
    """Four processes meet a new key of a workspace with budgets for the first time, all at once:
    its limit, the budget and the balance are all near."""
    desk = desk_on([MODEL], **PROCESSES)
    whole = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS, "total_tokens": 127}
    desk.upstream.script("first", {"usage": whole}, repeat=True)
    cost_nano = 27 * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
    assert cost_nano == HELD_NANO
    account = seed_account(desk.server, credits_usd=str(15 * cost_nano / USD))
    path = "/api/v1/workspaces/default/budgets"
    for interval, calls in (("monthly", 13), ("weekly", 12)):
        answer = desk.server.request(
            "PUT",
            f"{path}/{interval}",
            key=account.management_key,
            json={"limit_usd": calls * cost_nano / USD},
        )
        assert answer.status_code == 200, answer.text
    limited = new_key(desk.server, account, limit=8 * cost_nano / USD, limit_reset="daily")
    keys = [limited, new_key(desk.server, account)]

    heard = at_a_time(
        50,
        50,
        lambda number: ask(
            int(desk.server.env["PORT"]),
            keys[number % 2],
            tag=str(number % 2),
            model="plain/first",
            messages=HELLO,
            max_tokens=MAX_TOKENS,
        ),
    )

    assert {each.status for each in heard} <= {200, 402, 403}
    served = Counter(each.tag for each in heard if each.status == 200)
    assert served.total() == 12
    assert served["0"] <= 8
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def hold_of(payer: Payer, nano: int, byok: int) -> HoldOrder:
    return hold_order(payer, nano, byok_nano=byok)


@in_process
def test_byok_counts_where_it_is_said_to_and_is_shown_everywhere() -> None:
    """The account is broke and pays nothing; its own credentials are charged."""
    payer = new_payer(0)
    set_monthly(payer, 50 * CENT, byok=True)
    scope = guardrail(payer, 10 * CENT)
    payer = under(payer, scope)

    with running_writer() as writer:
        first = hold_of(payer, 0, 40 * CENT)
        assert carry_out(writer, first) is True
        refused = carry_out(writer, hold_of(payer, 0, 11 * CENT))
        assert isinstance(refused, Refusal)
        assert [state.asked_nano for state in refused.budgets] == [0, 11 * CENT]
        settled = settle_order(first, 0, byok_nano=35 * CENT)
        told = settled._replace(held_nano=0, held_byok_nano=40 * CENT)
        assert carry_out(writer, told) is True
        assert carry_out(writer, hold_of(payer, 0, 15 * CENT)) is True
        # A free call asks nothing of a budget.
        assert carry_out(writer, hold_of(payer, 0, 0)) is True

    assert totals(payer) == (0, 0, 0)
    key = SpendCounter.objects.filter(scope="key")
    assert {(row.spent_nano, row.byok_spent_nano) for row in key} == {(0, 35 * CENT)}
    monthly = SpendCounter.objects.get(scope="workspace")
    assert (monthly.byok_spent_nano, monthly.byok_held_nano) == (35 * CENT, 15 * CENT)
    assert_books_agree()


@in_process
def test_a_fee_is_an_entry_of_its_own() -> None:
    payer = new_payer(USD, limit_nano=USD)

    with running_writer() as writer:
        hold = hold_of(payer, 5 * CENT, 90 * CENT)
        assert carry_out(writer, hold) is True
        settled = settle_order(hold, 4 * CENT, byok_nano=80 * CENT)
        told = settled._replace(held_nano=5 * CENT, held_byok_nano=90 * CENT)
        assert carry_out(writer, told) is True

    rows = Account.objects.get(pk=payer.account_id).entries.exclude(kind="purchase")
    assert sorted(rows.values_list("kind", "amount_nano", "byok_nano")) == [
        ("byok_fee", 4 * CENT, 0),
        ("usage", 0, 80 * CENT),
    ]
    assert totals(payer) == (USD, 4 * CENT, 0)
    assert_books_agree()
