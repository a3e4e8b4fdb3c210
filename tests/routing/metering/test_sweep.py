"""What becomes of holds whose process died: freed on time, never twice, and the charge not lost."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F
from pytest_django import Settings

from accounts.models import Account
from routing.metering.session import Session
from routing.metering.sweeping import SWEEP_BATCH, sweep_all
from tests.routing.metering.books import (
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
    release_order,
    running_writer,
    settle_order,
    totals,
)
from tests.support.processes import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def sweep_now() -> int:
    session = Session()
    try:
        return sweep_all(session, datetime.now(UTC))
    finally:
        session.close()


def test_an_expired_hold_is_freed_and_its_generation_is_lost_without_an_entry() -> None:
    payer = new_payer(USD, limit_nano=USD)
    dead, alive = hold_order(payer, 10 * CENT, lease_s=-1), hold_order(payer, 20 * CENT)
    with running_writer() as writer:
        carry_out(writer, alive)
        carry_out(writer, dead)

    assert sweep_now() == 1

    assert totals(payer) == (USD, 0, 20 * CENT)
    assert key_counters(payer)["total"] == (0, 20 * CENT)
    assert entries(payer) == []
    lost = generation(dead)
    assert lost is not None
    assert (lost.lost, lost.charge_nano, lost.hold_nano) == (True, 0, 10 * CENT)
    assert (lost.attempts, lost.detail, lost.created_at) == ([], {}, dead.created_at)
    assert lost.trace == "{}"
    assert generation(alive) is None
    assert_books_agree()


def test_a_sweep_told_twice_frees_once() -> None:
    payer = new_payer(USD)
    with running_writer() as writer:
        carry_out(writer, hold_order(payer, 10 * CENT, lease_s=-1))
        carry_out(writer, hold_order(payer, 20 * CENT))

    assert [sweep_now(), sweep_now()] == [1, 0]

    assert totals(payer) == (USD, 0, 20 * CENT)


def test_a_late_settlement_books_the_charge_clears_lost_and_releases_nothing_again() -> None:
    payer = new_payer(USD, limit_nano=USD)
    dead, other = hold_order(payer, 10 * CENT, lease_s=-1), hold_order(payer, 20 * CENT)
    with running_writer() as writer:
        carry_out(writer, dead)
        carry_out(writer, other)
        sweep_now()
        assert carry_out(writer, settle_order(dead, 7 * CENT)) is True
        assert carry_out(writer, settle_order(dead, 7 * CENT)) is True

    assert totals(payer) == (USD, 7 * CENT, 20 * CENT)
    assert {spent for spent, _ in key_counters(payer).values()} == {7 * CENT}
    assert key_counters(payer)["total"][1] == 20 * CENT
    assert entries(payer) == [7 * CENT]
    found = generation(dead)
    assert found is not None
    assert (found.lost, found.charge_nano) == (False, 7 * CENT)
    assert_books_agree()


def test_a_late_release_changes_nothing() -> None:
    payer = new_payer(USD)
    dead = hold_order(payer, 10 * CENT, lease_s=-1)
    with running_writer() as writer:
        carry_out(writer, dead)
        sweep_now()
        assert carry_out(writer, release_order(dead)) is True

    assert totals(payer) == (USD, 0, 0)
    found = generation(dead)
    assert found is not None
    assert found.lost
    assert_books_agree()


def test_more_expired_holds_than_one_batch_are_all_freed() -> None:
    payer = new_payer(USD)
    with running_writer() as writer:
        tickets = [
            writer.submit(hold_order(payer, 1000, lease_s=-1)) for _ in range(SWEEP_BATCH + 20)
        ]
        assert all(writer.wait(ticket, 20) is True for ticket in tickets)

    assert sweep_now() == SWEEP_BATCH + 20

    assert totals(payer) == (USD, 0, 0)
    assert_books_agree()


def test_an_idle_writer_sweeps_by_itself(settings: Settings) -> None:
    settings.HOLD_SWEEP_SECONDS = 0.05
    payer = new_payer(USD)
    with running_writer() as writer:
        carry_out(writer, hold_order(payer, 10 * CENT, lease_s=0.1))

        eventually(lambda: open_holds(payer) == [], within_s=10, what="the sweep", log=None)

    assert totals(payer) == (USD, 0, 0)
    assert_books_agree()


def test_a_sweep_that_the_books_refuse_does_not_end_the_writer(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.HOLD_SWEEP_SECONDS = 0.05
    broken, sound = new_payer(USD), new_payer(USD)
    with running_writer() as writer:
        carry_out(writer, hold_order(broken, 10 * CENT, lease_s=0.2))
        # By hand: less is held than the hold says, so that freeing it would go below zero.
        Account.objects.filter(pk=broken.account_id).update(held_nano=F("held_nano") - 1)

        eventually(lambda: "sweep" in caplog.text, within_s=10, what="the sweep", log=None)

        assert carry_out(writer, hold_order(sound, CENT)) is True


def test_a_hold_is_pinned_to_its_windows_when_it_is_swept() -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    payer = new_payer(USD, limit_nano=USD, limit_reset="daily", at=yesterday)
    with running_writer() as writer:
        carry_out(writer, hold_order(payer, 10 * CENT, lease_s=-1))
        assert key_counters(payer)["day"] == (0, 10 * CENT)

    sweep_now()

    assert key_counters(payer)["day"] == (0, 0)
    assert_books_agree()
