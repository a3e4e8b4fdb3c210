"""M4: one generation settled many times at once, and one that was given up before it settled."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.caller import read_caller
from accounts.models import ApiKey, Hold, LedgerEntry
from accounts.services.repeatable import AnswerNotKept, Claim, Wanted, claim
from routing.metering.orders import HoldOrder, Payer
from tests.routing.metering.books import (
    CENT,
    USD,
    assert_books_agree,
    carry_out,
    entries,
    hold_order,
    new_payer,
    release_order,
    running_writer,
    settle_order,
    totals,
)
from tests.support.callers import at_a_time

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]
NOW = datetime.now(UTC)
AFTER = NOW + timedelta(hours=1)


def test_fifty_settlements_of_one_generation_charge_it_once() -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, 30 * CENT)
    with running_writer() as first, running_writer() as second:
        carry_out(first, hold)
        tickets = at_a_time(
            50, 50, lambda n: (first, second)[n % 2].submit(settle_order(hold, 12 * CENT))
        )
        outcomes = [(first, second)[n % 2].wait(ticket, 20) for n, ticket in enumerate(tickets)]

    assert outcomes == [True] * 50
    assert entries(payer) == [12 * CENT]
    assert totals(payer) == (USD, 12 * CENT, 0)
    assert_books_agree()


def wanted(payer: Payer, generation_id: str) -> Wanted:
    caller = read_caller(ApiKey.objects.get(pk=payer.key_id).hash)
    assert caller is not None
    return Wanted(caller, "/api/v1/chat/completions", "k", "0" * 64, generation_id)


def given_up(payer: Payer) -> HoldOrder:
    """A request whose hold was swept, and whose key another one took over."""
    hold = hold_order(payer, 30 * CENT)
    with running_writer() as writer:
        carry_out(writer, hold)
        claim(wanted(payer, hold.generation_id), now=NOW)
        carry_out(writer, release_order(hold))
    return hold


def test_what_was_given_up_can_never_be_charged() -> None:
    payer = new_payer(USD)
    hold = given_up(payer)
    assert isinstance(claim(wanted(payer, "gen-second"), now=AFTER), Claim)

    with running_writer() as writer:
        assert carry_out(writer, settle_order(hold, 12 * CENT)) is True
        # Orders of others go on.
        other = hold_order(payer, CENT)
        carry_out(writer, other)
        carry_out(writer, settle_order(other, CENT))

    assert sorted(entries(payer)) == [0, CENT]
    assert totals(payer) == (USD, CENT, 0)
    assert_books_agree()


def test_what_was_charged_late_cannot_be_given_up() -> None:
    payer = new_payer(USD)
    hold = given_up(payer)
    with running_writer() as writer:
        carry_out(writer, settle_order(hold, 12 * CENT))

    with pytest.raises(AnswerNotKept):
        claim(wanted(payer, "gen-second"), now=AFTER)

    assert not Hold.objects.exists()
    assert LedgerEntry.objects.filter(kind="usage").count() == 1
    assert_books_agree()
