"""What giving a charge back promises."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from accounts.models import LedgerEntry
from routing.ledger.orders import HoldOrder, Payer
from routing.ledger.writer import LedgerWriter
from routing.metering.models import Generation
from routing.metering.reversals import MoreThanCharged, NotCharged, reverse_usage
from tests.routing.ledger.books import (
    CENT,
    USD,
    entries,
    key_counters,
    new_payer,
    place_standing,
    settle,
    totals,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def charge_ten_cents(writer: LedgerWriter, payer: Payer) -> HoldOrder:
    hold = place_standing(writer, payer, 10 * CENT)
    settle(writer, hold, 10 * CENT)
    return hold


def give_back(hold: HoldOrder, nano: int, ref: str) -> bool:
    _, new = reverse_usage(generation_id=hold.generation_id, amount_nano=nano, source_ref=ref)
    return new


def test_a_charge_given_back_in_parts_is_never_given_back_twice(writer, payer) -> None:
    other = new_payer(USD)
    charge_ten_cents(writer, other)
    hold = charge_ten_cents(writer, payer)

    assert give_back(hold, 4 * CENT, "one")
    assert not give_back(hold, 4 * CENT, "one")
    assert give_back(hold, 6 * CENT, "two")
    with pytest.raises(MoreThanCharged):
        give_back(hold, 1, "three")

    assert (totals(payer), totals(other)) == ((USD, 0, 0), (USD, 10 * CENT, 0))
    assert set(key_counters(other).values()) == {(10 * CENT, 0)}
    assert entries(payer) == [10 * CENT]
    assert entries(payer, "usage_reversal") == [-4 * CENT, -6 * CENT]
    reversal = LedgerEntry.objects.filter(account_id=payer.account_id, kind="usage_reversal").last()
    assert reversal is not None
    assert (reversal.workspace_id, reversal.api_key_id) == (payer.workspace_id, payer.key_id)
    assert set(key_counters(payer).values()) == {(0, 0)}
    with pytest.raises(NotCharged):
        reverse_usage(generation_id="gen-none", amount_nano=1, source_ref="ref")


def test_it_counts_in_the_windows_in_which_the_charge_had_counted(writer) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    payer = new_payer(USD, at=yesterday)
    hold = charge_ten_cents(writer, payer)
    Generation.objects.filter(pk=hold.generation_id).update(created_at=yesterday)
    give_back(hold, 10 * CENT, str(payer.account_id))
    assert key_counters(payer)["day"] == (0, 0)


def test_given_back_by_ten_at_once_beside_a_busy_writer_it_counts_once(writer, payer) -> None:
    hold = charge_ten_cents(writer, payer)

    def try_reversal(number: int) -> bool:
        try:
            return give_back(hold, 10 * CENT, f"{payer.account_id}-{number % 2}")
        except MoreThanCharged:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        told_all = pool.map(try_reversal, range(10))
        for _ in range(20):
            place_standing(writer, payer, CENT)
        assert sum(told_all) == 1

    assert totals(payer) == (USD, 0, 20 * CENT)


def test_an_operator_gives_back_by_command(writer, capsys, payer) -> None:
    charge = charge_ten_cents(writer, payer).generation_id

    def reverse(usd: str, ref: str = "a", generation: str = charge) -> None:
        call_command("usage_reverse", f"--generation={generation}", f"--usd={usd}", f"--ref={ref}")

    reverse("0.04")
    assert "total_usage: 0.06" in capsys.readouterr().out
    for odd in ({"usd": "0.05"}, {"usd": "0.07", "ref": "b"}, {"usd": "1", "generation": "no"}):
        with pytest.raises((CommandError, SystemExit)):
            reverse(**odd)
    assert totals(payer) == (USD, 6 * CENT, 0)
