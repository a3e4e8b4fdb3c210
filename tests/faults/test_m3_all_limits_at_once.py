"""M3: balance, key limit and daily key limit run out in the same moment, and none is passed."""

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from accounts.models import Account
from routing.metering.orders import Payer, Refusal
from routing.metering.session import Session
from tests.conformance.desk import HELLO
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.test_m2_over_http import HELD_NANO, MAX_TOKENS, MODEL, PROCESSES
from tests.routing.metering.books import (
    USD,
    assert_books_agree,
    carry_out,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    payer_with_new_key,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.metering.sessions import UnguardedSession
from tests.routing.metering.spenders import spend_at_once, task_for
from tests.support.bed import Bed
from tests.support.callers import ask, at_a_time, new_key, seeded
from tests.support.gateways import seed_account

pytestmark = [pytest.mark.both, pytest.mark.thorough]
in_process = pytest.mark.django_db(transaction=True)
PRICE_NANO = 7_000_000
THREADS = 60
# How many calls the balance, the first key's limit and the second key's daily limit pay for.
TIGHT = {"all three": (45, 20, 25), "the balance": (44, 20, 25), "the keys": (60, 20, 25)}


def two_keys(balance_nano: int, total_nano: int, daily_nano: int) -> list[Payer]:
    """Nobody has spent anything yet; one key has a limit for ever, the other one for each day."""
    first = new_payer(balance_nano, limit_nano=total_nano)
    account = Account.objects.get(pk=first.account_id)
    return [first, payer_with_new_key(account, limit_nano=daily_nano, limit_reset="daily")]


def spent_nano(payers: Sequence[Payer]) -> list[int]:
    """What the account, the first key and the second key today have spent."""
    total, daily = (key_counters(payer) for payer in payers)
    assert [total["total"][1], daily["day"][1], totals(payers[0])[2]] == [0, 0, 0]
    return [totals(payers[0])[1], total["total"][0], daily["day"][0]]


def spend(
    payers: Sequence[Payer],
    amounts: Sequence[int],
    *,
    threads: int = THREADS,
    session: type[Session] = Session,
) -> int:
    """Hold and settle each amount, the keys in turn, all threads from one moment on; the number
    served. What was held is what is charged, so a limit that was passed once stays passed."""
    barrier = threading.Barrier(threads)

    def one(thread: int) -> int:
        served = 0
        barrier.wait()
        for number in range(thread, len(amounts), threads):
            hold = hold_order(payers[number % len(payers)], amounts[number])
            if not isinstance(carry_out(writer, hold), Refusal):
                assert carry_out(writer, settle_order(hold, amounts[number])) is True
                served += 1
        return served

    with running_writer(session) as writer, ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(one, range(threads)))


@in_process
@pytest.mark.parametrize("what", TIGHT)
def test_no_limit_is_passed_where_all_run_out_at_once(what: str) -> None:
    limits = [calls * PRICE_NANO for calls in TIGHT[what]]
    payers = two_keys(*limits)

    served = spend(payers, [PRICE_NANO] * 300)

    assert served == min(TIGHT[what][0], sum(TIGHT[what][1:]))
    spent = spent_nano(payers)
    assert spent[0] == served * PRICE_NANO
    assert all(mine <= limit for mine, limit in zip(spent, limits, strict=True))
    assert open_holds(payers[0]) == []
    assert_books_agree()


@in_process
def test_no_limit_is_passed_by_amounts_of_every_size() -> None:
    chance = seeded()
    limits = [chance.randint(30, 60) * PRICE_NANO + chance.randint(0, 999) for _ in range(3)]
    payers = two_keys(*limits)

    spend(payers, [chance.randint(1, 3 * PRICE_NANO) for _ in range(300)])

    spent = spent_nano(payers)
    assert all(0 < mine <= limit for mine, limit in zip(spent, limits, strict=True))
    assert_books_agree()


@in_process
def test_without_the_guards_every_limit_is_passed() -> None:
    limits = [calls * PRICE_NANO for calls in TIGHT["all three"]]
    payers = two_keys(*limits)

    assert spend(payers, [PRICE_NANO] * 300, session=UnguardedSession) == 300

    assert all(mine > limit for mine, limit in zip(spent_nano(payers), limits, strict=True))


@in_process
def test_two_processes_pass_no_limit_either(stores: Bed) -> None:
    limits = [calls * PRICE_NANO for calls in TIGHT["all three"]]
    payers = two_keys(*limits)
    task = task_for(*payers, requests=120, nano=PRICE_NANO, threads=50)

    spent = spend_at_once(stores, task, task)

    assert (spent.served, spent.failed) == (45, 0)
    assert spent_nano(payers) == limits
    assert_books_agree()


def test_over_http_the_first_fifty_requests_of_two_new_keys_pass_no_limit(desk_on: Open) -> None:
    """Four processes meet both keys for the first time at the same moment, and must agree."""
    desk = desk_on([MODEL], **PROCESSES)
    whole = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS, "total_tokens": 127}
    desk.upstream.script("first", {"usage": whole}, repeat=True)
    cost_nano = 27 * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
    assert cost_nano == HELD_NANO
    account = seed_account(desk.server, credits_usd=str(15 * cost_nano / USD))
    limit = 10 * cost_nano / USD
    keys = [new_key(desk.server, account, limit=limit, limit_reset=r) for r in (None, "daily")]

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

    assert {each.status for each in heard} == {200, 402}
    served = Counter(each.tag for each in heard if each.status == 200)
    assert served.total() == 15
    assert max(served.values()) <= 10
    assert {each.cost_nano for each in heard if each.status == 200} == {cost_nano}
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)
