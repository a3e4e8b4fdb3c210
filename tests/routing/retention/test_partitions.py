"""Generations, figures and refusals by month on PostgreSQL: made ahead, dropped whole, and each
record once as before."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import IntegrityError, connection

from routing.history.models import GenerationFact, UsageDay
from routing.history.rollup import roll_up
from routing.metering.models import Generation
from routing.metering.popularity import CallsCounted
from routing.reports.models import FailedRequest
from routing.retention import (
    PARTITIONED,
    create_partitions,
    forget_expired,
    forget_facts,
    list_partitions,
)
from tests.routing.history.records import Fact, office, save
from tests.routing.ledger.books import (
    CENT,
    USD,
    entries,
    generation,
    new_payer,
    place_standing,
    settle,
    totals,
)
from tests.support.operations import failed_request

pytestmark = [pytest.mark.django_db(transaction=True)]
TABLE, FACTS, REFUSALS = (each.name for each in PARTITIONED)
MIGRATIONS: Any = [
    import_module(f"routing.migrations.{name}")
    for name in ("0019_generations_by_month", "0028_figures_and_refusals_by_month")
]


@pytest.fixture(autouse=True)
def partitions(transactional_db: None) -> Iterator[None]:
    """The partitions of the test alone: what it makes and drops is put right behind it."""
    if connection.vendor != "postgresql":
        pytest.skip("other stores have no partitions")
    yield
    for model in (Generation, GenerationFact, FailedRequest):
        model.objects.all().delete()
    convert_back()
    convert()


def convert() -> None:
    with connection.schema_editor(atomic=False) as editor:
        for migration in MIGRATIONS:
            migration.split_by_month(None, editor)


def convert_back() -> None:
    with connection.schema_editor(atomic=False) as editor:
        for migration in MIGRATIONS:
            migration.join_months(None, editor)


def indexes(table: str = TABLE) -> list[str]:
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table)
    return sorted(name for name, each in constraints.items() if each["index"])


def holder_of(pk: str | int, *, table: str = TABLE, key: str = "id") -> str:
    """The partition of a record."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT tableoid::regclass::text FROM {table} WHERE {key} = %s",  # noqa: S608 - Names of this file.
            [pk],
        )
        name: str = cursor.fetchone()[0]
    return name


def test_what_was_there_before_goes_on_and_comes_back(writer) -> None:
    convert_back()
    plain = indexes()
    payer = new_payer(USD)
    early, late = (place_standing(writer, payer, CENT) for _ in range(2))
    settle(writer, early, CENT)
    convert()

    assert [each for each in indexes() if each in plain] == plain
    settle(writer, early, CENT)
    settle(writer, late, CENT)
    assert entries(payer) == [CENT, CENT]
    assert totals(payer) == (USD, 2 * CENT, 0)
    assert {holder_of(hold.generation_id) for hold in (early, late)} == {f"{TABLE}_before"}

    convert_back()
    assert indexes() == plain
    assert generation(early) is not None
    assert Generation.objects.count() == 2


def test_figures_and_refusals_stand_in_their_month_and_leave_with_it(settings: Any) -> None:
    mine, end = office(), list_partitions(TABLE)[-1].end
    create_partitions(end)
    days = (end + timedelta(days=1), end + timedelta(days=40))
    save(mine, [Fact(f"gen-{n}", day, 0) for n, day in enumerate(days)])
    refused = [failed_request(day) for day in days]
    later = end + timedelta(days=70)
    roll_up(later, work_s=60)
    CallsCounted.objects.create(pk=1, until=later)
    month = f"{end:%Y_%m}"
    assert holder_of(refused[0].pk, table=REFUSALS) == f"{REFUSALS}_{month}"
    assert holder_of("gen-1", table=FACTS, key="generation_id") == f"{FACTS}_{days[1]:%Y_%m}"

    assert forget_facts(later) == 0
    assert [each.pk for each in GenerationFact.objects.all()] == ["gen-1"]
    settings.GENERATION_DAYS = 35
    assert forget_expired(later) == 0
    assert [each.pk for each in FailedRequest.objects.all()] == [refused[1].pk]


def test_a_record_is_written_once_in_a_partition_of_any_month() -> None:
    mine, end = office(), list_partitions(TABLE)[-1].end
    assert create_partitions(end) == 3 * 3
    assert create_partitions(end) == 0
    last = list_partitions(TABLE)[-1]
    for moment in (end, last.end + timedelta(days=40), end - timedelta(days=1)):
        fact = Fact(f"gen-{moment:%j}", moment, 0)
        save(mine, [fact])
        with pytest.raises(IntegrityError):
            save(mine, [fact])
    assert holder_of(f"gen-{end:%j}") == f"{TABLE}_{end:%Y_%m}"


def test_what_no_month_had_moves_into_its_month() -> None:
    mine, end = office(), list_partitions(TABLE)[-1].end
    moment = end + timedelta(days=3)
    save(mine, [Fact("gen-caught", moment, 0)])
    assert holder_of("gen-caught") == f"{TABLE}_default"
    create_partitions(end)
    assert holder_of("gen-caught") == f"{TABLE}_{end:%Y_%m}"


def test_months_are_dropped_whole_and_older_rows_deleted(settings: Any) -> None:
    mine, end = office(), list_partitions(TABLE)[-1].end
    create_partitions(end)
    first, second = list_partitions(TABLE)[1:3]
    assert second.start is not None
    today = datetime.now(UTC)
    days = (today - timedelta(days=2), today, end, second.start + timedelta(days=1))
    save(mine, [Fact(f"gen-{n}", day, 0, charge=5) for n, day in enumerate(days)])
    later = second.start + timedelta(days=20)
    roll_up(later, work_s=60)
    CallsCounted.objects.create(pk=1, until=later)
    summed = list(UsageDay.objects.order_by("start").values_list("start", "charge_nano"))

    settings.GENERATION_DAYS = 1
    assert forget_expired(today) > 0
    assert list_generations() == ["gen-1", "gen-2", "gen-3"]
    settings.GENERATION_DAYS = 25
    forget_expired(later)
    assert [each.name for each in list_partitions(TABLE)][:2] == [first.name, second.name]
    assert list_generations() == ["gen-2", "gen-3"]
    settings.GENERATION_DAYS = 20
    forget_expired(later)
    assert list_generations() == ["gen-3"]
    assert list(UsageDay.objects.order_by("start").values_list("start", "charge_nano")) == summed


def list_generations() -> list[str]:
    return list(Generation.objects.order_by("pk").values_list("pk", flat=True))
