"""M4: one `Idempotency-Key`, one upstream call, one charge, one answer, whatever the format."""

import itertools
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from tests.conformance.asking import BODIES, MESSAGES
from tests.faults.twice import AT_ONCE, Twice, check_not_kept, reason, same
from tests.support.callers import at_a_time
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer

pytest_plugins = ["tests.faults.twice_fixtures"]
pytestmark = pytest.mark.both
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


@pytest.mark.parametrize("path", BODIES)
def test_fifty_at_once_are_one_call_and_one_charge(twice: Twice, path: str) -> None:
    twice.desk.upstream.script("first", {"gate": "held"}, {})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(twice.ask, "same", path) for _ in range(AT_ONCE)]
        twice.desk.upstream.wait_gate("held")
        twice.desk.server.wait_until(lambda: sum(each.done() for each in asked) == AT_ONCE - 1)
        refused = [each.result() for each in asked if each.done()]
        twice.desk.upstream.open_gate("held")
        answers = [each.result() for each in asked]

    assert {reason(each) for each in refused} == {"idempotency_key_in_use"}
    assert {each.headers["Retry-After"] for each in refused} == {"1"}
    (first,) = [each for each in answers if each.status_code == 200]
    call = twice.check_once(path)
    assert first.headers["X-Generation-Id"] == call.id
    for again in at_a_time(AT_ONCE, AT_ONCE, lambda _: twice.ask("same", path)):
        same(first, again)
    twice.check_once(path)


def test_whoever_waits_for_an_upstream_keeps_no_connection(twice: Twice) -> None:
    """There are two for each process, and eight wait."""
    twice.desk.upstream.script("first", *[{"gate": f"each-{n}"} for n in range(8)], {})
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(twice.ask, f"k{n}") for n in range(8)]
        for number in range(8):
            twice.desk.upstream.wait_gate(f"each-{number}")
        assert [twice.desk.total_usage_nano() for _ in range(10)] == [0] * 10
        for number in range(8):
            twice.desk.upstream.open_gate(f"each-{number}")
        assert {each.result().status_code for each in asked} == {200}
    assert len(twice.calls()) == 8


def test_another_body_another_path_another_key(twice: Twice) -> None:
    """A body counts to its last byte; Messages take their own header for the credential."""
    text = "x" * 700_000
    long = [{"role": "user", "content": text}]
    first, again = (twice.ask("k", messages=long) for _ in range(2))
    other = [{"role": "user", "content": text[:-1] + "y"}]

    same(first, again)
    assert reason(twice.ask("k", messages=other)) == "idempotency_key_reused"
    twice.check_once()
    header = {"x-api-key": twice.desk.account.api_key}
    same(*(twice.ask("k", MESSAGES, headers=header) for _ in range(2)))
    assert twice.ask("k2").status_code == 200
    assert twice.upstream_calls() == 3


def test_an_odd_key_is_400_before_anything_is_sent(twice: Twice) -> None:
    for path, key in itertools.product(BODIES, ("", "k" * 256)):
        assert twice.ask(key, path).status_code == 400
    assert twice.upstream_calls() == 0


# --- What is not kept -----------------------------------------------------------------------------


def test_nothing_is_kept_under_zero_data_retention(twice: Twice, orm_of: OrmOf) -> None:
    mark = uuid.uuid4().hex
    twice.desk.upstream.script("first", {"text": mark})
    first, again = (twice.ask("zdr", provider={"zdr": True}) for _ in range(2))

    assert mark in first.text
    check_not_kept(twice, first, again)
    with orm_of(twice.desk.server):
        from accounts.models import RepeatableRequest

        row = RepeatableRequest.objects.get(generation_id=first.headers["X-Generation-Id"])
        assert row.sealed_answer is None


# --- What begins anew -----------------------------------------------------------------------------


def test_what_was_refused_or_failed_without_a_charge_begins_anew(twice: Twice) -> None:
    assert twice.ask("again", model="nope/none").status_code in {400, 404}
    twice.desk.upstream.script("first", {"status": 500, "json": {"error": {"message": "no"}}}, {})

    failed, good, again = (twice.ask("again") for _ in range(3))

    assert failed.status_code >= 500
    assert good.status_code == 200
    same(good, again)
    assert twice.upstream_calls() == 2
    assert [call.charge_nano > 0 for call in twice.calls()].count(True) == 1


def test_who_could_not_pay_may_try_again(twice: Twice) -> None:
    twice.desk.account = poor = seed_account(twice.desk.server, credits_usd="0.000001")
    assert twice.ask("pay").status_code == 402
    add = ("credits_add", "--account", poor.name, "--usd", "5", "--ref", poor.name)
    twice.desk.server.manage(*add)

    same(*(twice.ask("pay") for _ in range(2)))
    twice.check_once()
