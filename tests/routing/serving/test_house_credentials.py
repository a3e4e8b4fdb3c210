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


def endpoint_with_pool(*pool: HouseCredential) -> EndpointEntry:
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


def draw_for(account_id: UUID, at: EndpointEntry, **more: Any) -> Any:
    call = call_to(at)
    payer = call.context.payer._replace(account_id=account_id)
    call.context = call.context._replace(payer=payer)
    return draw(call, at, **more)


def draw_many(at: EndpointEntry, account_id: UUID | None = None) -> set[Any]:
    return {draw_for(account_id or uuid4(), at) for _ in range(20)}


def parked_until(at: EndpointEntry, account_id: UUID | None = None, **more: Any) -> float:
    """The end of the parking of all that there are, throttled or not."""
    parked = draw_for(account_id or uuid4(), at, **{"even_throttled": True} | more)
    assert isinstance(parked, AllParked)
    return parked.until


def refuse(
    house: HouseCredential,
    at: EndpointEntry,
    account_id: UUID,
    now: float,
    *,
    status: int,
    retry_after_s: int = 86_400,
    body: bytes = b"{}",
) -> bool:
    """Whether the refusal was the credential's."""
    failure = from_status(status, {"retry-after": str(retry_after_s)}, body)
    return note_credential_failure(attempt_at(at, house=house), failure, account_id, now)


def test_each_is_drawn_by_its_weight() -> None:
    at = endpoint_with_pool(credential(1, weight=3), credential(2))
    drawn = Counter(draw(call_to(at), at) for _ in range(4000))
    assert 2800 < drawn[1] < 3200


def test_a_conversation_keeps_its_credential() -> None:
    at = endpoint_with_pool(*[credential(pk) for pk in range(1, 6)])
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
    first = credential(1)
    at, now = endpoint_with_pool(first), process.now()

    assert refuse(first, at, uuid4(), now, status=401, retry_after_s=60)

    for place in (at, endpoint("acme/fast", provider=at.provider)):
        assert 0 < parked_until(place) - now <= 60
    assert draw_many(endpoint_with_pool(replace(first, seal_mark="t" * 24))) == {1}
    assert draw_many(endpoint_with_pool(first, credential(2))) == {2}


ALICE, BOB = uuid4(), uuid4()


@pytest.mark.parametrize("status", [402, 403])
def test_what_may_be_of_the_request_parks_for_its_account_alone_at_that_endpoint(
    status: int,
) -> None:
    first = credential(1)
    at, now = endpoint_with_pool(first), process.now()
    both = replace(endpoint_with_pool(first, credential(2)), pk=at.pk)

    for _ in range(20):
        assert refuse(first, at, ALICE, now, status=status)

    assert parked_until(at, ALICE) <= now + 600
    assert draw_many(both, ALICE) == {2}
    # The request was to blame, or it was not: whoever has nothing else left tries it.
    for _ in range(2):
        assert draw_for(ALICE, at, even_throttled=True, is_last_resort=True) == 1
    assert draw_for(BOB, at) == 1
    assert draw_for(ALICE, endpoint("acme/fast", provider=at.provider)) == 1


@pytest.mark.parametrize("status", [402, 403])
def test_what_two_accounts_meet_in_a_row_parks_for_all_a_minute_at_most(status: int) -> None:
    first = credential(1)
    at, now = endpoint_with_pool(first), process.now()
    elsewhere = endpoint("acme/fast", provider=at.provider)

    def meet(account_id: UUID, place: EndpointEntry, moment: float) -> None:
        assert refuse(first, place, account_id, moment, status=status)

    # Somebody was answered in between, or just before: the credential is in order.
    meet(ALICE, at, now - 20)
    parked_credentials().clear(first, at.pk, now - 15)
    for account_id, ago_s in ((BOB, 10), (ALICE, 5)):
        meet(account_id, at, now - ago_s)
        assert draw_many(at) == {1}
    # Long after one another each may be of its request.
    meet(ALICE, elsewhere, now - 61)
    meet(BOB, elsewhere, now)
    assert draw_many(elsewhere) == {1}

    later = now + 20
    meet(BOB, at, later)

    assert 0 < parked_until(at) - later <= 60
    assert draw_many(elsewhere) == {1}
    # Where nothing else is left it is tried all the same, now and then.
    assert draw(call_to(at), at, even_throttled=True, is_last_resort=True) == 1
    assert parked_until(at, is_last_resort=True)
    parked_credentials().clear(first, at.pk, now)
    assert draw_many(at) == {1}


def test_an_account_that_ran_dry_by_its_provider_s_own_words_is_parked_for_all() -> None:
    first = credential(1)
    at = endpoint_with_pool(first)
    body = b'{"error": {"message": "Your credit balance is too low to access the API."}}'

    assert refuse(first, at, ALICE, process.now(), status=400, body=body)

    assert parked_until(endpoint("acme/fast", provider=at.provider), even_throttled=False)


def test_one_that_is_throttled_is_parked_there_and_may_be_tried_again_if_all_else_failed() -> None:
    first = credential(1)
    at, now = endpoint_with_pool(first), process.now()
    parked_credentials().clear(first, at.pk, now)

    assert refuse(first, at, ALICE, now, status=429)

    # It may be that this one request was too large.
    assert parked_until(at, ALICE, even_throttled=False)
    assert draw_for(ALICE, at, even_throttled=True) == 1
    assert draw_for(BOB, at) == 1

    assert refuse(first, at, BOB, now, status=429)

    assert 0 < parked_until(at, even_throttled=False) - now <= 60
    assert draw(call_to(at), at, even_throttled=True) == 1
    assert draw_many(endpoint("acme/fast", provider=at.provider)) == {1}
    parked_credentials().clear(first, at.pk, now)
    assert draw_for(ALICE, at) == 1


def test_other_failures_are_the_endpoint_s() -> None:
    first = credential(1)
    for status in (400, 404, 408, 500, 503):
        assert not refuse(first, endpoint_with_pool(first), uuid4(), process.now(), status=status)


def test_one_without_room_gives_way_to_another() -> None:
    narrow = credential(1, rate_rules=build_rules("credential:901", [{"concurrent": 1}]))
    at = endpoint_with_pool(narrow, credential(2))
    alone = endpoint_with_pool(narrow)
    call = call_to(alone)
    taken = take_credential(call, alone, set(), even_throttled=False)
    assert isinstance(taken, ChosenCredential)

    assert isinstance(draw(call_to(alone), alone), Full)
    assert {draw(call_to(at), at) for _ in range(20)} == {2}

    settle_attempt(attempt_at(alone, limits=taken.limits), 0)
    assert draw(call_to(alone), alone) == 1


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
