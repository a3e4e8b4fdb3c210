"""Pools of the gateway's own credentials: who is drawn and kept, what parks it and for whom."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from gateway.limits.rules import build_rules
from routing.entities.entries import EndpointEntry, HouseCredential
from routing.serving.admission.endpoint_limits import Full, settle_attempt
from routing.serving.attempts.house_credentials import (
    AllParked,
    ChosenCredential,
    note_credential_failure,
    take_credential,
)
from routing.serving.request import process
from routing.serving.request.context import RequestProgress
from routing.serving.request.stickiness import ConversationKey
from routing.statistics.parked_credentials import Doubt, parked_credentials
from routing.upstreams.failures import from_status
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import attempt_at, call_to


def credential(pk: int, **more: Any) -> HouseCredential:
    return HouseCredential(
        pk=pk, provider="acme", label=f"c{pk}", secret=f"secret-{pk}", seal_mark="s" * 24, **more
    )


def pooled(*pool: HouseCredential) -> EndpointEntry:
    return endpoint("acme", provider=provider("acme", credentials=pool))


@pytest.fixture(autouse=True)
def nothing_parked() -> Iterator[None]:
    parked_credentials.cache_clear()
    yield
    parked_credentials.cache_clear()


def draw(call: RequestProgress, at: EndpointEntry, **more: Any) -> Any:
    options: dict[str, Any] = {"even_throttled": False} | more
    found = take_credential(call, at, set(), **options)
    return found.credential.pk if isinstance(found, ChosenCredential) else found


def test_each_is_drawn_by_its_weight() -> None:
    at = pooled(credential(1, weight=3), credential(2))
    drawn = Counter(draw(call_to(at), at) for _ in range(4000))
    assert 2800 < drawn[1] < 3200


def test_a_conversation_keeps_its_credential() -> None:
    at = pooled(*[credential(pk) for pk in range(1, 6)])
    kept = set()
    for number in range(40):
        call = call_to(at)
        key = ConversationKey(b"conversation %d" % number, by_session=True)
        call.context = call.context._replace(conversation_key=key)
        first = draw(call, at)
        assert {draw(call, at) for _ in range(5)} == {first}
        kept.add(first)
    assert len(kept) > 1


def test_one_that_nobody_knows_is_parked_at_every_endpoint_until_it_changes() -> None:
    first, other = credential(1), credential(2)
    at = pooled(first)
    elsewhere = endpoint("acme/fast", provider=at.provider)
    attempt, now = attempt_at(at, house=first), process.now()

    refusal = from_status(401, {"retry-after": "60"}, b"{}")
    assert note_credential_failure(attempt, refusal, uuid4(), now)

    for place in (at, elsewhere):
        parked = draw(call_to(place), place, even_throttled=True)
        assert isinstance(parked, AllParked)
        assert 0 < parked.until - now <= 60
    rotated = pooled(replace(first, seal_mark="t" * 24))
    assert draw(call_to(rotated), rotated) == 1
    both = pooled(first, other)
    assert {draw(call_to(both), both) for _ in range(20)} == {2}


ALICE, BOB = uuid4(), uuid4()


def call_of(account_id: UUID, at: EndpointEntry) -> RequestProgress:
    call = call_to(at)
    payer = call.context.payer._replace(account_id=account_id)
    call.context = call.context._replace(payer=payer)
    return call


@pytest.mark.parametrize("status", [402, 403])
def test_what_may_be_of_the_request_parks_for_its_account_alone_at_that_endpoint(
    status: int,
) -> None:
    first, other = credential(1), credential(2)
    at = pooled(first)
    both = replace(pooled(first, other), pk=at.pk)
    elsewhere = endpoint("acme/fast", provider=at.provider)
    failure, now = from_status(status, {"retry-after": "86400"}, b"{}"), process.now()

    for _ in range(20):
        assert note_credential_failure(attempt_at(at, house=first), failure, ALICE, now)

    parked = draw(call_of(ALICE, at), at, even_throttled=True)
    assert isinstance(parked, AllParked)
    assert parked.until <= now + 600
    assert {draw(call_of(ALICE, both), both) for _ in range(20)} == {2}
    # The request was to blame, or it was not: whoever has nothing else left tries it.
    for _ in range(2):
        assert draw(call_of(ALICE, at), at, even_throttled=True, is_last_resort=True) == 1
    assert draw(call_of(BOB, at), at) == 1
    assert draw(call_of(ALICE, elsewhere), elsewhere) == 1


@pytest.mark.parametrize("status", [402, 403])
def test_what_two_accounts_meet_in_a_row_parks_for_all_a_minute_at_most(status: int) -> None:
    first = credential(1)
    at = pooled(first)
    elsewhere = endpoint("acme/fast", provider=at.provider)
    failure, now = from_status(status, {"retry-after": "86400"}, b"{}"), process.now()

    def refuse(account_id: UUID, place: EndpointEntry, moment: float) -> None:
        attempt = attempt_at(place, house=first)
        assert note_credential_failure(attempt, failure, account_id, moment)

    # Somebody was answered in between, or just before: the credential is in order.
    refuse(ALICE, at, now - 20)
    parked_credentials().clear(first, at.pk, now - 15)
    refuse(BOB, at, now - 10)
    assert draw(call_to(at), at) == 1
    refuse(ALICE, at, now - 5)
    assert draw(call_to(at), at) == 1
    # Long after one another each may be of its request.
    refuse(ALICE, elsewhere, now - 61)
    refuse(BOB, elsewhere, now)
    assert draw(call_to(elsewhere), elsewhere) == 1

    later = now + 20
    refuse(BOB, at, later)

    parked = draw(call_to(at), at, even_throttled=True)
    assert isinstance(parked, AllParked)
    assert 0 < parked.until - later <= 60
    assert draw(call_to(elsewhere), elsewhere) == 1
    # Where nothing else is left it is tried all the same, now and then.
    assert draw(call_to(at), at, even_throttled=True, is_last_resort=True) == 1
    again = draw(call_to(at), at, even_throttled=True, is_last_resort=True)
    assert isinstance(again, AllParked)
    parked_credentials().clear(first, at.pk, now)
    assert draw(call_to(at), at) == 1


def test_an_account_that_ran_dry_by_its_provider_s_own_words_is_parked_for_all() -> None:
    first = credential(1)
    elsewhere = endpoint("acme/fast", provider=pooled(first).provider)
    body = b'{"error": {"message": "Your credit balance is too low to access the API."}}'
    attempt = attempt_at(pooled(first), house=first)

    assert note_credential_failure(attempt, from_status(400, {}, body), ALICE, process.now())

    assert isinstance(draw(call_to(elsewhere), elsewhere), AllParked)


def test_one_that_is_throttled_is_parked_there_and_may_be_tried_again_if_all_else_failed() -> None:
    first = credential(1)
    at = pooled(first)
    elsewhere = endpoint("acme/fast", provider=at.provider)
    failure, now = from_status(429, {"retry-after": "86400"}, b"{}"), process.now()
    parked_credentials().clear(first, at.pk, now)

    assert note_credential_failure(attempt_at(at, house=first), failure, ALICE, now)

    # It may be that this one request was too large.
    alice = call_of(ALICE, at)
    assert isinstance(draw(alice, at), AllParked)
    assert draw(alice, at, even_throttled=True) == 1
    assert draw(call_of(BOB, at), at) == 1

    assert note_credential_failure(attempt_at(at, house=first), failure, BOB, now)

    parked = draw(call_to(at), at)
    assert isinstance(parked, AllParked)
    assert 0 < parked.until - now <= 60
    assert draw(call_to(at), at, even_throttled=True) == 1
    assert draw(call_to(elsewhere), elsewhere) == 1
    parked_credentials().clear(first, at.pk, now)
    assert draw(alice, at) == 1


def test_other_failures_are_the_endpoint_s() -> None:
    first = credential(1)
    attempt = attempt_at(pooled(first), house=first)
    for status in (400, 404, 408, 500, 503):
        failure = from_status(status, {}, b"{}")
        assert not note_credential_failure(attempt, failure, uuid4(), process.now())


def test_one_without_room_gives_way_to_another() -> None:
    narrow = credential(1, rate_rules=build_rules("credential:901", [{"concurrent": 1}]))
    at = pooled(narrow, credential(2))
    alone = pooled(narrow)
    call = call_to(alone)
    taken = take_credential(call, alone, set(), even_throttled=False)
    assert isinstance(taken, ChosenCredential)

    assert isinstance(draw(call_to(alone), alone), Full)
    assert {draw(call_to(at), at) for _ in range(20)} == {2}

    settle_attempt(attempt_at(alone, limits=taken.limits), 0)
    assert draw(call_to(alone), alone) == 1


def test_a_parking_is_known_to_other_processes(start: Any, clock: Any) -> None:
    first, second = start(), start()
    first.sync(), second.sync()
    key = credential(1)
    first.sharing._parked.park(key, 0, clock.now + 60, kind="refused")

    first.sync(), second.sync()

    end = second.sharing._parked.find_end(key, 8, clock.now, even_throttled=True)
    assert end is not None
    assert 55 < end - clock.now <= 61


def test_what_two_accounts_meet_in_two_processes_parks_in_both(start: Any, clock: Any) -> None:
    first, second = start(), start()
    first.sync(), second.sync()
    key, processes = credential(1), [first.sharing._parked, second.sharing._parked]

    def meet(process: int, account_id: UUID, endpoint_key: int) -> None:
        doubt = Doubt("refused", account_id, clock.now, clock.now + 600)
        assert not processes[process].doubt(key, endpoint_key, doubt)

    def find_ends(endpoint_key: int) -> list[float | None]:
        return [
            each.find_end(key, endpoint_key, clock.now, even_throttled=True) for each in processes
        ]

    meet(0, ALICE, 8)
    meet(0, ALICE, 9)
    # Since then the other process was answered there.
    processes[1].clear(key, 9, clock.now + 1)
    first.sync(), second.sync()
    assert find_ends(8) == [None, None]
    ends = [
        processes[1].find_doubt_end(key, place, ALICE, clock.now, even_throttled=True)
        for place in (8, 9)
    ]
    assert ends[0] is not None
    assert ends[1] is None

    doubt = Doubt("refused", BOB, clock.now, clock.now + 600)
    assert processes[1].doubt(key, 8, doubt)
    meet(1, BOB, 9)
    first.sync(), second.sync(), first.sync()
    assert find_ends(8) == [pytest.approx(clock.now + 60, abs=1), None]
    assert find_ends(9)[0] is not None
