"""What becomes of holds whose process died: freed on time, never twice, and the charge not lost.
And of a request that was given up: charged late or never (M4)."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F

from accounts.caller import read_caller
from accounts.models import Account, ApiKey
from accounts.services.repeatable import AnswerNotStored, Claim, RequestIdentity, claim_request
from routing.ledger.session import LedgerSession
from routing.ledger.sweep import SWEEP_BATCH, sweep_all_expired
from tests.routing.ledger.books import (
    CENT,
    USD,
    assert_books_agree,
    carry_out,
    entries,
    generation,
    hold_order,
    key_counters,
    new_payer,
    open_holds,
    place_standing,
    read_record,
    release_order,
    running_writer,
    settle,
    totals,
    wait_all,
)
from tests.support.processes import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def sweep_now() -> int:
    session = LedgerSession()
    try:
        return sweep_all_expired(session, datetime.now(UTC))
    finally:
        session.close()


def test_an_expired_hold_is_freed_once_and_its_generation_is_lost_without_an_entry(writer) -> None:
    payer = new_payer(USD, limit_nano=USD)
    alive = place_standing(writer, payer, 20 * CENT)
    dead = place_standing(writer, payer, 10 * CENT, lease_s=-1)

    assert [sweep_now(), sweep_now()] == [1, 0]

    assert totals(payer) == (USD, 0, 20 * CENT)
    assert key_counters(payer)["total"] == (0, 20 * CENT)
    assert entries(payer) == []
    names = ("lost", "charge_nano", "hold_nano", "attempts", "detail", "created_at", "trace")
    assert read_record(dead, *names) == (True, 0, 10 * CENT, [], {}, dead.created_at, "{}")
    assert generation(alive) is None


def test_a_late_settlement_books_the_charge_clears_lost_and_releases_nothing_again(writer) -> None:
    payer = new_payer(USD, limit_nano=USD)
    dead, _ = (
        place_standing(writer, payer, 10 * CENT, lease_s=-1),
        place_standing(writer, payer, 20 * CENT),
    )
    sweep_now()

    settle(writer, dead, 7 * CENT)
    settle(writer, dead, 7 * CENT)

    assert totals(payer) == (USD, 7 * CENT, 20 * CENT)
    assert {spent for spent, _ in key_counters(payer).values()} == {7 * CENT}
    assert key_counters(payer)["total"][1] == 20 * CENT
    assert entries(payer) == [7 * CENT]
    assert read_record(dead, "lost", "charge_nano") == (False, 7 * CENT)


def test_a_late_release_changes_nothing(writer, payer) -> None:
    dead = place_standing(writer, payer, 10 * CENT, lease_s=-1)
    sweep_now()
    assert carry_out(writer, release_order(dead)) is True
    assert totals(payer) == (USD, 0, 0)
    assert read_record(dead, "lost") == (True,)


def test_more_expired_holds_than_one_batch_are_all_freed(writer, payer) -> None:
    orders = [hold_order(payer, 1000, lease_s=-1) for _ in range(SWEEP_BATCH + 20)]
    assert set(wait_all(writer, map(writer.submit, orders))) == {True}
    assert sweep_now() == SWEEP_BATCH + 20
    assert totals(payer) == (USD, 0, 0)


def test_an_idle_writer_sweeps_by_itself(settings, payer) -> None:
    settings.HOLD_SWEEP_SECONDS = 0.05
    with running_writer() as writer:
        place_standing(writer, payer, 10 * CENT, lease_s=0.1)
        eventually(lambda: open_holds(payer) == [], within_s=10, what="the sweep", log=None)
    assert totals(payer) == (USD, 0, 0)
    assert_books_agree()


def test_a_sweep_that_the_books_refuse_does_not_end_the_writer(settings, caplog) -> None:
    settings.HOLD_SWEEP_SECONDS = 0.05
    broken, sound = new_payer(USD), new_payer(USD)
    with running_writer() as writer:
        place_standing(writer, broken, 10 * CENT, lease_s=0.2)
        # By hand: less is held than the hold says, so that freeing it would go below zero.
        Account.objects.filter(pk=broken.account_id).update(held_nano=F("held_nano") - 1)
        eventually(lambda: "sweep" in caplog.text, within_s=10, what="the sweep", log=None)
        place_standing(writer, sound, CENT)


def test_a_hold_is_pinned_to_its_windows_when_it_is_swept(writer) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    payer = new_payer(USD, limit_nano=USD, limit_reset="daily", at=yesterday)
    place_standing(writer, payer, 10 * CENT, lease_s=-1)
    assert key_counters(payer)["day"] == (0, 10 * CENT)
    sweep_now()
    assert key_counters(payer)["day"] == (0, 0)


@pytest.mark.parametrize("charged_first", [True, False])
def test_a_request_whose_key_another_took_over_is_charged_late_or_given_up(
    writer, charged_first: bool
) -> None:
    payer, now = new_payer(USD), datetime.now(UTC)

    def take(generation_id: str, at: datetime) -> object:
        caller = read_caller(ApiKey.objects.get(pk=payer.key_id).hash)
        assert caller is not None
        wanted = RequestIdentity(caller, "/api/v1/chat/completions", "k", "0" * 64, generation_id)
        return claim_request(wanted, now=at)

    first = place_standing(writer, payer, 30 * CENT)
    take(first.generation_id, now)
    carry_out(writer, release_order(first))
    if charged_first:
        settle(writer, first, 12 * CENT)
        with pytest.raises(AnswerNotStored):
            take("gen-second", now + timedelta(hours=1))
        assert (open_holds(payer), entries(payer)) == ([], [12 * CENT])
    else:
        assert isinstance(take("gen-second", now + timedelta(hours=1)), Claim)
        # It can never be charged; orders of others go on.
        settle(writer, first, 12 * CENT)
        settle(writer, place_standing(writer, payer, CENT), CENT)
        assert sorted(entries(payer)) == [0, CENT]
        assert totals(payer) == (USD, CENT, 0)
