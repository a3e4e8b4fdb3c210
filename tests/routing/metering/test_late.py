"""Records that come after their hour may have been rolled up."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.history.models import LateHour, UsageHour, UsageRolled
from routing.history.rolling import roll_up
from routing.history.spans import HOUR, hour_of
from routing.metering.late import MARKED_AFTER, ROLLED_AFTER, is_late
from routing.metering.orders import HoldOrder, SettleOrder
from tests.routing.metering.books import (
    CENT,
    USD,
    carry_out,
    hold_order,
    new_payer,
    running_writer,
    settle_order,
)

AGO = st.integers(0, 3 * 3600).map(lambda seconds: timedelta(seconds=seconds))


def settled(hold: HoldOrder, began: datetime) -> SettleOrder:
    order = settle_order(hold, CENT)
    return order._replace(record=order.record | {"created_at": began}, held_nano=hold.amount_nano)


@given(began=st.datetimes(datetime(2026, 1, 1), datetime(2026, 2, 1)), waited=AGO)
def test_whatever_was_written_before_the_mark_is_there_when_its_hour_is_rolled_up(
    began: datetime, waited: timedelta
) -> None:
    began = began.replace(tzinfo=UTC)
    order = SettleOrder("gen-1", None, 0, began, {"created_at": began})  # type: ignore[arg-type]  # Its payer is not looked at.
    written = began + waited
    # The first moment at which the schedule may roll this hour up.
    rolled = hour_of(began) + HOUR + ROLLED_AFTER

    assert is_late(order, written) or written + (ROLLED_AFTER - MARKED_AFTER) < rolled
    assert not (is_late(order, written) and written < hour_of(began) + HOUR)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
@pytest.mark.parametrize("together", [1, 3])
def test_a_late_record_marks_its_hour_in_the_transaction_that_writes_it(together: int) -> None:
    payer = new_payer(USD)
    holds = [hold_order(payer, CENT) for _ in range(2 * together)]
    now = datetime.now(UTC)
    late, timely = now - 3 * HOUR, hour_of(now)

    with running_writer() as writer:
        for hold in holds:
            assert carry_out(writer, hold) is True
        for hold in holds[:together]:
            writer.submit(settled(hold, timely))
        writer.stop()
        assert not LateHour.objects.exists()
        tickets = [writer.submit(settled(hold, late)) for hold in holds[together:]]
        assert all(writer.wait(ticket, 10) is True for ticket in tickets)

    assert {row.hour for row in LateHour.objects.all()} == {hour_of(late)}


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_an_hour_with_a_late_record_is_rolled_up_anew() -> None:
    payer = new_payer(USD)
    first, second = (hold_order(payer, CENT) for _ in range(2))
    began = datetime.now(UTC) - 3 * HOUR

    with running_writer() as writer:
        for hold in (first, second):
            assert carry_out(writer, hold) is True
            assert carry_out(writer, settled(hold, began)) is True
            roll_up(datetime.now(UTC))
            assert not LateHour.objects.exists()

    (row,) = UsageHour.objects.all()
    assert (row.start, row.requests, row.charge_nano) == (hour_of(began), 2, 2 * CENT)
    assert UsageRolled.objects.get().until <= datetime.now(UTC) - ROLLED_AFTER
    assert roll_up(datetime.now(UTC)) == 0
