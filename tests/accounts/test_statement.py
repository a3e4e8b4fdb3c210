"""A statement's lines sum to its totals, to the nano-dollar, whatever is in the books. Also who
gets it, for which periods, in how many queries."""

import csv
import io
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.authentication import forget_keys
from accounts.models import Account, ApiKey, LedgerEntry
from accounts.models.ledger import CREDIT_KINDS
from accounts.services.books.credits import add_credits
from accounts.services.books.statement import StatementPeriod
from accounts.services.books.statement_file import (
    FORMATS,
    CsvFormat,
    StatementFile,
    escape_formula,
    format_usd,
    write_statement,
)
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from accounts.views.statement import read_query
from gateway.http.errors import SchemaInvalid
from tests.accounts.office import charge
from tests.support.management import QUERIES_MAX, Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
DAY = datetime(2026, 3, 1, tzinfo=UTC)
JULY = StatementPeriod(DAY + timedelta(days=3), DAY + timedelta(days=9))
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
    totals = {"total_credits_nano": sums[True], "total_usage_nano": -sums[False]}
    Account.objects.filter(pk=account.pk).update(**totals)


def content(made: StatementFile) -> bytes:
    size = made.size_bytes
    whole = b"".join(made.pieces())
    assert len(whole) == size
    return whole


def as_json(account: Account, period: StatementPeriod = JULY) -> Any:
    text = content(write_statement(account.pk, period, FORMATS["json"]))
    return json.loads(text, parse_float=Decimal, parse_int=int)["data"]


def as_csv(account: Account, period: StatementPeriod = JULY) -> list[dict[str, str]]:
    text = content(write_statement(account.pk, period, FORMATS["csv"])).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def keys_of(account: Account) -> list[ApiKey]:
    workspace = account.workspaces.get()
    names = ("first", "=second", 'third, "so called"')
    return [create_key(account=account, name=name, workspace=workspace)[0] for name in names]


def inside(entries: list[Entry], period: StatementPeriod = JULY) -> list[Entry]:
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
    cell = escape_formula(text)
    assert cell.lstrip("'") == text.lstrip("'") or cell == f"'{text}"
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))


def test_formulas_lead_with_an_apostrophe() -> None:
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", "\r=1", "=1"):
        assert escape_formula(text) == f"'{text}"


@given(st.integers(-(2**63), 2**63 - 1))
def test_amounts_have_nine_places_and_mean_the_same(amount: int) -> None:
    text = format_usd(amount)
    assert nano(text) == amount
    assert len(text.split(".")[1]) == 9


def test_usage_is_summed_per_day_workspace_and_key(account: Account) -> None:
    said, rows = as_json(account), as_csv(account)
    assert (said["lines"], said["closing_balance_nano"]) == ([], 0)
    totals = ["total_credits", "total_usage", "total_change"]
    assert [row["line"] for row in rows] == ["opening_balance", *totals, "closing_balance"]
    assert tuple(rows[0]) == CsvFormat.COLUMNS
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
    # A key that is deleted keeps its name.
    ApiKey.objects.update(deleted_at=DAY)

    lines = as_json(account)["lines"]

    names = ("date", "kind", "entries", "amount_nano", "key")
    told = [tuple(line[name] for name in names) for line in lines]
    assert told[0] == ("2026-03-04", "purchase", 1, 100, None)
    assert sorted(told[1:3]) == [
        ("2026-03-04", "usage", 1, -11, "=second"),
        ("2026-03-04", "usage", 2, -12, "first"),
    ]
    assert told[3:] == [("2026-03-06", "usage", 1, -13, "first")]
    (second,) = [line for line in lines if line["amount_nano"] == -11]
    assert second["key_hash"] == keys[1].hash
    assert second["workspace_id"] == str(account.workspaces.get().pk)


PATH = "/api/v1/credits/statement"


@pytest.fixture
def mine(db: None) -> Manager:
    made = manager("mine")
    credit: dict[str, Any] = {"amount_nano": 7, "source": "test", "source_ref": "r"}
    add_credits(account=made.account, **credit, note='=HYPERLINK("x")')
    home = made.account.workspaces.get()
    key, _ = create_key(account=made.account, name="k", workspace=home)
    charge(key, 0, "g", datetime.now(UTC) - timedelta(seconds=1))
    return made


def get(mine: Manager, query: str = "") -> Any:
    forget_keys()
    with CaptureQueriesContext(connection) as captured:
        response: Any = Client().get(PATH + query, headers={"Authorization": f"Bearer {mine.key}"})
        body = response.getvalue()
    asked = [q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(asked) <= QUERIES_MAX, asked
    return response, body


def test_csv_is_an_attachment_without_formulas(mine: Manager) -> None:
    response, body = get(mine)
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    assert int(response["Content-Length"]) == len(body)
    data = json.loads(body)["data"]
    assert (data["closing_balance_nano"], data["totals"]["entries"]) == (7, 2)
    response, body = get(mine, "?format=csv&start=2020-01-01&end=2099-01-01")

    assert response["Content-Type"] == "text/csv; charset=utf-8"
    name = 'attachment; filename="statement-2020-01-01-2099-01-01.csv"'
    assert response["Content-Disposition"] == name
    assert b"\"'=HYPERLINK" in body
    assert b",=" not in body


def test_an_odd_query_is_400(mine: Manager) -> None:
    for query, path in (
        ("start=2026-13-01", "start"),
        ("end=2026-01-01T00:00:00", "end"),
        ("end=2026-01-01T00:00:00%2B02:00", "end"),
        ("start=2026-01-02&end=2026-01-01", "end"),
    ):
        status, said = mine.call("GET", f"/credits/statement?{query}")
        assert status == 400
        assert [issue["path"] for issue in said["error"]["metadata"]["issues"]] == [path]


def test_days_begin_at_midnight_utc() -> None:
    now = datetime(2026, 7, 15, 13, tzinfo=UTC)

    period, _ = read_query({"start": "2026-01-01", "end": "2026-02-01T12:30:00Z"}, now=now)
    usual, _ = read_query({}, now=now)

    assert period.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert period.end == datetime(2026, 2, 1, 12, 30, tzinfo=UTC)
    assert usual == (datetime(2026, 7, 1, tzinfo=UTC), now)
    with pytest.raises(SchemaInvalid):
        read_query({"start": "x", "end": "y", "format": "z"}, now=now)
