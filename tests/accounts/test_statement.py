"""A statement's lines sum to its totals, to the nano-dollar, whatever is in the books."""

import csv
import io
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.models import Account, ApiKey, LedgerEntry
from accounts.models.ledger import CREDIT_KINDS
from accounts.services.accounts import open_account
from accounts.services.keys import create_key
from accounts.services.statement import Period
from accounts.services.statement_file import (
    FORMS,
    CsvForm,
    StatementFile,
    harmless,
    make_statement,
    plain_usd,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
DAY = datetime(2026, 3, 1, tzinfo=UTC)
JULY = Period(DAY + timedelta(days=3), DAY + timedelta(days=9))
LOWERING = {"refund", "expiry", "transfer_out", "usage_reversal"}
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


class Entry(NamedTuple):
    """An entry to be: `hour` counts from DAY, `key` is one of three, none for credits."""

    kind: str
    size: int
    hour: int
    key: int
    note: str

    @property
    def effect(self) -> int:
        """What it does to the balance."""
        if self.kind in CREDIT_KINDS:
            return -self.size if self.kind in LOWERING else self.size
        return self.size if self.kind in LOWERING else -self.size


ENTRIES = st.lists(
    st.builds(
        Entry,
        st.sampled_from(LedgerEntry.Kind.values),
        st.one_of(st.integers(0, 50), st.integers(0, 10**15)),
        st.integers(0, 12 * 24),
        st.integers(0, 2),
        WORDS,
    ),
    max_size=25,
)


def write(account: Account, keys: list[ApiKey], entries: list[Entry]) -> None:
    for number, entry in enumerate(entries):
        key = None if entry.kind in CREDIT_KINDS else keys[entry.key]
        LedgerEntry.objects.create(
            account=account,
            workspace_id=key.workspace_id if key else None,
            api_key=key,
            kind=entry.kind,
            amount_nano=-entry.size if entry.kind in LOWERING else entry.size,
            source="test",
            source_ref=f"{account.pk}-{number}",
            note=entry.note,
            created_at=DAY + timedelta(hours=entry.hour),
        )
    sums = Counter[bool]()
    for entry in entries:
        sums[entry.kind in CREDIT_KINDS] += entry.effect
    Account.objects.filter(pk=account.pk).update(
        total_credits_nano=sums[True], total_usage_nano=-sums[False]
    )


def content(made: StatementFile) -> bytes:
    size = made.size_bytes
    whole = b"".join(made.pieces())
    assert len(whole) == size
    return whole


def as_json(account: Account, period: Period = JULY) -> Any:
    text = content(make_statement(account.pk, period, FORMS["json"]))
    return json.loads(text, parse_float=Decimal, parse_int=int)["data"]


def as_csv(account: Account, period: Period = JULY) -> list[dict[str, str]]:
    text = content(make_statement(account.pk, period, FORMS["csv"])).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def keys_of(account: Account) -> list[ApiKey]:
    workspace = account.workspaces.get()
    names = ("first", "=second", 'third, "so called"')
    return [create_key(account=account, name=name, workspace=workspace)[0] for name in names]


def inside(entries: list[Entry], period: Period = JULY) -> list[Entry]:
    return [e for e in entries if period.start <= DAY + timedelta(hours=e.hour) < period.end]


def nano(usd: Any) -> int:
    amount = Decimal(usd) * 10**9
    assert amount == int(amount)
    return int(amount)


@settings(max_examples=40, deadline=None)
@given(entries=ENTRIES, others=ENTRIES)
def test_the_lines_sum_to_the_totals(entries: list[Entry], others: list[Entry]) -> None:
    with transaction.atomic():
        account, other = open_account(name="mine"), open_account(name="other")
        write(account, keys_of(account), entries)
        write(other, keys_of(other), others)

        _check_json(as_json(account), entries)
        _check_csv(as_csv(account), entries)
        transaction.set_rollback(True)


def _check_json(said: Any, entries: list[Entry]) -> None:
    lines, totals = said["lines"], said["totals"]
    before = [e for e in entries if DAY + timedelta(hours=e.hour) < JULY.start]
    within = inside(entries)
    assert said["opening_balance_nano"] == sum(e.effect for e in before)
    assert sum(line["amount_nano"] for line in lines) == totals["change_nano"]
    assert totals["change_nano"] == sum(e.effect for e in within)
    assert totals["credits_nano"] + totals["usage_nano"] == totals["change_nano"]
    assert totals["entries"] == sum(line["entries"] for line in lines) == len(within)
    assert totals["lines"] == len(lines)
    assert said["closing_balance_nano"] == said["opening_balance_nano"] + totals["change_nano"]
    assert [line["date"] for line in lines] == sorted(line["date"] for line in lines)
    for holder in (said, totals, *lines):
        for name in [name for name in holder if name.endswith("_nano")]:
            assert nano(holder[name.removesuffix("_nano")]) == holder[name]
    singles = [line for line in lines if line["at"]]
    assert sorted(line["note"] for line in singles) == sorted(
        e.note for e in within if e.kind not in {"usage", "byok_fee"}
    )
    groups = {(line["date"], line["key_hash"], line["kind"]) for line in lines if not line["at"]}
    assert len(groups) == len(lines) - len(singles)


def _check_csv(rows: list[dict[str, str]], entries: list[Entry]) -> None:
    amounts = [nano(row["amount_usd"]) for row in rows]
    kinds = [row["line"] for row in rows]
    body = amounts[1:-4]
    assert kinds[0] == "opening_balance"
    assert kinds[-4:] == ["total_credits", "total_usage", "total_change", "closing_balance"]
    assert sum(body) == amounts[-2] == sum(e.effect for e in inside(entries))
    assert amounts[-4] + amounts[-3] == amounts[-2]
    assert amounts[0] + amounts[-2] == amounts[-1]
    for row in rows:
        for name, cell in row.items():
            assert name == "amount_usd" or not cell.lstrip().startswith(("=", "+", "-", "@")), row


@given(text=WORDS)
def test_a_cell_of_words_is_no_formula(text: str) -> None:
    cell = harmless(text)

    assert cell.lstrip("'") == text.lstrip("'") or cell == f"'{text}"
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", "\r=1", "=1"])
def test_formulas_lead_with_an_apostrophe(text: str) -> None:
    assert harmless(text) == f"'{text}"


@given(st.integers(-(2**63), 2**63 - 1))
def test_amounts_have_nine_places_and_mean_the_same(amount: int) -> None:
    text = plain_usd(amount)

    assert nano(text) == amount
    assert len(text.split(".")[1]) == 9


def test_usage_is_summed_per_day_workspace_and_key(account: Account) -> None:
    keys = keys_of(account)
    write(
        account,
        keys,
        [
            Entry("usage", 5, 80, 0, ""),
            Entry("usage", 7, 81, 0, ""),
            Entry("usage", 11, 81, 1, ""),
            Entry("usage", 13, 120, 0, ""),
            Entry("purchase", 100, 82, 0, "card"),
        ],
    )

    lines = as_json(account)["lines"]

    told = [(line["date"], line["kind"], line["entries"], line["amount_nano"]) for line in lines]
    assert told[0] == ("2026-03-04", "purchase", 1, 100)
    assert sorted(told[1:3]) == [
        ("2026-03-04", "usage", 1, -11),
        ("2026-03-04", "usage", 2, -12),
    ]
    assert told[3:] == [("2026-03-06", "usage", 1, -13)]
    (second,) = [line for line in lines if line["amount_nano"] == -11]
    assert (second["key"], second["key_hash"]) == ("=second", keys[1].hash)
    assert second["workspace_id"] == str(account.workspaces.get().pk)


def test_an_account_without_a_line_has_a_statement(account: Account) -> None:
    said, rows = as_json(account), as_csv(account)

    assert (said["lines"], said["closing_balance_nano"]) == ([], 0)
    assert [row["line"] for row in rows] == [
        *("opening_balance", "total_credits", "total_usage", "total_change", "closing_balance"),
    ]
    assert tuple(rows[0]) == CsvForm.COLUMNS


def test_a_key_that_is_deleted_keeps_its_name(account: Account) -> None:
    keys = keys_of(account)
    write(account, keys, [Entry("usage", 5, 80, 0, "")])
    ApiKey.objects.update(deleted_at=DAY)

    assert as_json(account)["lines"][0]["key"] == "first"
