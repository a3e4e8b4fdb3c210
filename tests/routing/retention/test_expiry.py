"""Single requests leave after their days; sums, the books and reversals go on without them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import LedgerEntry
from routing.history.models import (
    GenerationContent,
    GenerationFact,
    GenerationFeedback,
    LateHour,
    UsageDay,
    UsageHour,
)
from routing.history.rollup import roll_up
from routing.metering.models import Generation
from routing.metering.popularity import count_calls
from routing.metering.reversals import RecordGone, reverse_usage
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.retention import forget_expired
from tests.routing.history.records import Fact, Office, office, save
from tests.routing.ledger.books import (
    CENT,
    USD,
    generation,
    new_payer,
    place_standing,
    settle,
    totals,
)
from tests.support.operations import failed_request

NOW = datetime.now(UTC)
NOON = NOW.replace(hour=12, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)


@pytest.fixture
def mine(db: None, settings: Any) -> Office:
    """A generation, its content and a refusal on each of the last seven days."""
    settings.GENERATION_DAYS = 3
    made = office()
    days = [NOON - days * DAY for days in range(7, 0, -1)]
    save(made, [Fact(f"gen-{n}", day, 0, charge=7, user="alice") for n, day in enumerate(days)])
    for n, day in enumerate(days):
        GenerationContent.objects.create(
            generation_id=f"gen-{n}", account_id=made.account.pk, created_at=day, sealed=b"x"
        )
        GenerationFeedback.objects.create(
            generation_id=f"gen-{n}",
            account_id=made.account.pk,
            api_key_id=made.keys[0].pk,
            category="other",
            created_at=NOW,
            generation_at=day,
        )
        failed_request(day, account_id=made.account.pk, api_key_id=made.keys[0].pk)
        FailedRequestCount.objects.create(
            key=f"{n:032}", minute=day, status=401, is_refused=True, requests=2
        )
    return made


def sums() -> list[Any]:
    columns = ("start", "requests", "charge_nano", "tokens_prompt")
    return [
        list(each.objects.order_by("start").values_list(*columns)) for each in (UsageHour, UsageDay)
    ]


def counts() -> set[int]:
    single = (Generation, GenerationFact, GenerationContent, GenerationFeedback)
    records = (*single, FailedRequest, FailedRequestCount)
    return {each.objects.count() for each in records}


@pytest.mark.django_db
@pytest.mark.both
def test_old_requests_leave_and_their_sums_stay(mine: Office, settings: Any) -> None:
    roll_up(NOW)
    count_calls(NOW)
    before = sums()
    settings.GENERATION_DAYS = 0
    assert forget_expired(NOW) == 0
    settings.GENERATION_DAYS = 3
    assert forget_expired(NOW) == 6 * 4
    assert counts() == {3}
    assert forget_expired(NOW) == 0

    # A mark that comes too late, and days that are asked for again.
    settings.GENERATION_DAYS = 0
    LateHour.objects.create(hour=NOON - 7 * DAY)
    LateHour.objects.create(hour=NOON - 2 * DAY)
    roll_up(NOW)
    assert sums() == before
    assert not LateHour.objects.exists()


@pytest.mark.django_db
@pytest.mark.both
def test_feedback_of_a_version_that_knew_no_moments_leaves_with_its_generation(
    mine: Office,
) -> None:
    roll_up(NOW)
    count_calls(NOW)
    GenerationFeedback.objects.all().delete()
    for name in ("gen-0", "gen-6", "gone"):
        GenerationFeedback.objects.create(
            generation_id=name,
            account_id=mine.account.pk,
            api_key_id=mine.keys[0].pk,
            category="other",
            created_at=datetime.now(UTC),
        )
    assert forget_expired(NOW) == 5 * 4 + 2
    left = GenerationFeedback.objects.get()
    assert (left.generation_id, left.generation_at) == ("gen-6", NOON - DAY)


@pytest.mark.django_db
@pytest.mark.both
def test_nothing_leaves_before_it_is_summed_up(mine: Office) -> None:
    assert forget_expired(NOW) == 0
    roll_up(NOW)
    assert forget_expired(NOW) == 0
    count_calls(NOW)
    LateHour.objects.create(hour=NOON - 6 * DAY)
    assert forget_expired(NOW) == 6
    assert counts() == {6}


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_the_charge_of_a_gone_request_is_still_given_back(writer) -> None:
    payer = new_payer(USD)
    holds = [place_standing(writer, payer, 10 * CENT) for _ in range(2)]
    for hold in holds:
        settle(writer, hold, 10 * CENT)
    Generation.objects.filter(account_id=payer.account_id).delete()
    LedgerEntry.objects.filter(generation_id=holds[1].generation_id).update(day=None)

    assert generation(holds[0]) is None
    entry, _ = reverse_usage(
        generation_id=holds[0].generation_id, amount_nano=4 * CENT, source_ref="one"
    )
    assert entry.day == holds[0].created_at.date()
    with pytest.raises(RecordGone):
        reverse_usage(generation_id=holds[1].generation_id, amount_nano=1, source_ref="two")
    assert totals(payer) == (USD, 16 * CENT, 0)
