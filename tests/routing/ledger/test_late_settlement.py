"""What is written beside a charge: records that come after their hour may have been rolled up, and
what credentials of a pool spent."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.history.models import LateHour, UsageHour, UsageRolled
from routing.history.rollup import roll_up
from routing.history.spans import HOUR, hour_of
from routing.ledger.orders import CredentialSpending, HoldOrder, SettleOrder
from routing.ledger.records import MARKED_AFTER, ROLLED_AFTER, is_late
from routing.metering.models import CredentialSpend
from tests.routing.ledger.books import (
    CENT,
    USD,
    carry_out,
    new_payer,
    place_standing,
    settle_order,
    wait_all,
)
from tests.routing.ledger.sessions import held_up

AGO = st.integers(0, 3 * 3600).map(lambda seconds: timedelta(seconds=seconds))
BEGINNINGS = st.datetimes(datetime(2026, 1, 1), datetime(2026, 2, 1), timezones=st.just(UTC))


def late_order(hold: HoldOrder, began: datetime) -> SettleOrder:
    order = settle_order(hold, CENT)
    return order._replace(record=order.record | {"created_at": began}, held_nano=hold.amount_nano)


@given(began=BEGINNINGS, waited=AGO)
@example(began=datetime(2026, 1, 1, 7, tzinfo=UTC), waited=HOUR + MARKED_AFTER)
@example(began=datetime(2026, 1, 1, 7, tzinfo=UTC), waited=HOUR - timedelta(seconds=1))
def test_whatever_was_written_before_the_mark_is_there_when_its_hour_is_rolled_up(
    began: datetime, waited: timedelta
) -> None:
    order = SettleOrder("gen-1", None, 0, began, {"created_at": began})  # type: ignore[arg-type]  # Its payer is not looked at.
    written = began + waited
    # The first moment at which the schedule may roll this hour up.
    rolled = hour_of(began) + HOUR + ROLLED_AFTER
    assert is_late(order, written) or written + (ROLLED_AFTER - MARKED_AFTER) < rolled
    assert not (is_late(order, written) and written < hour_of(began) + HOUR)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
@pytest.mark.parametrize("together", [1, 3])
def test_a_late_record_marks_its_hour_in_the_transaction_that_writes_it(
    writer, commits, together: int
) -> None:
    payer, now = new_payer(USD), datetime.now(UTC)
    late = now - 3 * HOUR
    for began, marked in ((hour_of(now), set()), (late, {hour_of(late)})):
        holds = [place_standing(writer, payer, CENT) for _ in range(together)]
        held_up(writer, commits)
        tickets = [writer.submit(late_order(hold, began)) for hold in holds]
        commits.go_on.set()
        assert wait_all(writer, tickets) == [True] * together
        assert {row.hour for row in LateHour.objects.all()} == marked


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_an_hour_with_a_late_record_is_rolled_up_anew(writer) -> None:
    payer, began = new_payer(USD), datetime.now(UTC) - 3 * HOUR

    for hold in [place_standing(writer, payer, CENT) for _ in range(2)]:
        assert carry_out(writer, late_order(hold, began)) is True
        roll_up(datetime.now(UTC))
        assert not LateHour.objects.exists()

    (row,) = UsageHour.objects.all()
    assert (row.start, row.requests, row.charge_nano) == (hour_of(began), 2, 2 * CENT)
    assert UsageRolled.objects.get().until <= datetime.now(UTC) - ROLLED_AFTER
    assert roll_up(datetime.now(UTC)) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_what_credentials_of_a_pool_spent_is_summed_by_label(writer) -> None:
    payer = new_payer(USD)
    one, two = (CredentialSpending("acme", label, CENT) for label in ("one", "two"))
    for spend in ((one, two), (one._replace(cost_nano=2 * CENT),)):
        order = settle_order(place_standing(writer, payer, CENT), CENT)
        assert carry_out(writer, order._replace(credential_spend=spend)) is True
    rows = CredentialSpend.objects.order_by("label").values_list("label", "requests", "cost_nano")
    assert list(rows) == [("one", 2, 3 * CENT), ("two", 1, CENT)]
