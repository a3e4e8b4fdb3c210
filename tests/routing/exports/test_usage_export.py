"""Exports: their rows sum to the ledger's, in every form, and end up where they should."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import Sum
from django.test import Client

from accounts.authentication import forget_keys
from accounts.models import Account, LedgerEntry, SpendCounter
from accounts.models.ledger import USAGE_KINDS
from accounts.spending import list_windows
from gateway.end_users import hash_user
from gateway.environment.exports import build_s3_storage
from routing.exports.files import write_export
from routing.exports.rows import UsageExport, read_pages
from routing.exports.store import export_finished_days
from routing.metering.models import Generation
from routing.metering.reversals import reverse_usage
from tests.interns.archives.s3 import FakeS3, set_credentials
from tests.routing.history.records import Fact, Office, office, save
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
FIRST_DAY, LAST_DAY = MIDNIGHT.date() - timedelta(days=1), MIDNIGHT.date()
MINUTE = timedelta(minutes=1)


def book(mine: Office, fact: Fact, *, at: datetime, fee: int = 0, byok: int = 0) -> None:
    """A generation and its charge, `fee` of it for a team's own credentials."""
    save(mine, [fact])
    key = mine.keys[fact.key]
    owner = {"account": mine.account, "workspace": key.workspace, "api_key": key}
    parts = [("usage", "generation", fact.charge - fee, byok)]
    parts += [("byok_fee", "byok_fee", fee, 0)] if fee else []
    for kind, source, amount_nano, byok_nano in parts:
        LedgerEntry.objects.create(
            **owner,
            kind=kind,
            amount_nano=amount_nano,
            byok_nano=byok_nano,
            generation_id=fact.id,
            day=fact.at.date(),
            source=source,
            source_ref=fact.id,
            created_at=at,
        )


@pytest.fixture
def mine() -> Office:
    """Charges about midnight: plain ones, with a fee, given back, and one without its record."""
    made = office()
    number = 0
    for minutes in (-300, -1, 0, 1, 600):
        for key, model, user in ((0, "acme/one", "alice"), (1, "beta/two", None)):
            number += 1
            at = MIDNIGHT + minutes * MINUTE
            tags = (("team", "blue"), ("app", "é")) if number % 2 else ()
            fact = Fact(
                f"gen-{number}", at - MINUTE, key, model, user=user, charge=7 * number, tags=tags
            )
            fee, byok = (3, 1_000) if key else (0, 0)
            book(made, fact, at=at, fee=fee, byok=byok)
    Generation.objects.filter(pk="gen-5").delete()
    # At the time of another one, the same instant apart by id only.
    book(made, Fact("gen-twin", MIDNIGHT, 0, charge=1), at=MIDNIGHT)
    LedgerEntry.objects.create(
        account=made.account,
        workspace=made.keys[0].workspace,
        api_key=made.keys[0],
        kind="usage_reversal",
        amount_nano=-5,
        generation_id="gen-1",
        source="reversal",
        source_ref="r",
        created_at=MIDNIGHT + MINUTE,
    )
    book(office("other"), Fact("gen-other", MIDNIGHT, 0, charge=999), at=MIDNIGHT)
    return made


def as_dicts(export: UsageExport, size: int = 1_000) -> list[dict[str, Any]]:
    names = [column.name for column in export.list_columns()]
    pages = read_pages(export, rows_per_page=size)
    return [dict(zip(names, row, strict=True)) for page in pages for row in page]


def ledger_nano(account: Account, start: datetime, end: datetime) -> int:
    entries = LedgerEntry.objects.filter(
        account=account, kind__in=USAGE_KINDS, created_at__gte=start, created_at__lt=end
    )
    return int(entries.aggregate(total=Sum("amount_nano"))["total"] or 0)


@pytest.mark.parametrize("per", ["generation", "day"])
@pytest.mark.parametrize("page", [1, 2, 1_000])
def test_rows_of_any_page_size_sum_to_the_ledger(mine: Office, per: Any, page: int) -> None:
    for first, last in ((FIRST_DAY, FIRST_DAY), (LAST_DAY, LAST_DAY), (FIRST_DAY, LAST_DAY)):
        export = UsageExport(first, last, per, (mine.account.pk,))
        found = as_dicts(export, page)
        assert sum(row["charge_nano"] for row in found) == ledger_nano(
            mine.account, export.start, export.end
        )
        keys = [
            (row["entry_id"],)
            if per == "generation"
            else tuple(row[name] for name in ("day", "key_id", "model", "provider", "user", "tags"))
            for row in found
        ]
        assert len(keys) == len(set(keys)) > 0


def test_a_charge_stands_on_the_day_it_was_booked_with_its_fee_and_its_user(mine: Office) -> None:
    found = as_dicts(UsageExport(LAST_DAY, LAST_DAY, "generation", (mine.account.pk,)))
    by_id = {(row["generation_id"], row["kind"]): row for row in found}
    assert ("gen-4", "usage") not in by_id

    begun_before = by_id["gen-6", "usage"]
    assert begun_before["started_at"] < MIDNIGHT == begun_before["booked_at"]
    assert (begun_before["charge_nano"], begun_before["byok_nano"]) == (42, 1_000)
    assert (begun_before["model"], begun_before["tokens_prompt"]) == ("beta/two", 10)
    assert by_id["gen-7", "usage"]["user"] == hash_user(mine.account.pk, "alice")
    assert by_id["gen-7", "usage"]["tags"] == '{"app":"é","team":"blue"}'
    assert by_id["gen-6", "usage"]["tags"] is None

    unrecorded, reversal = by_id["gen-5", "usage"], by_id["gen-1", "usage_reversal"]
    assert (unrecorded["charge_nano"], unrecorded["model"]) == (35, None)
    assert unrecorded["key_hash"] == mine.keys[0].hash
    assert (reversal["charge_nano"], reversal["tokens_prompt"]) == (-5, None)


def test_a_day_sums_what_has_key_model_provider_and_user_in_common(mine: Office) -> None:
    found = as_dicts(UsageExport(LAST_DAY, LAST_DAY, "day", (mine.account.pk,)))
    beta = [row for row in found if row["model"] == "beta/two"]
    assert [(row["requests"], row["charge_nano"], row["byok_nano"]) for row in beta] == [
        (3, 6 * 7 + 8 * 7 + 10 * 7, 3_000)
    ]
    alice = [row for row in found if row["user"] == hash_user(mine.account.pk, "alice")]
    assert [(row["requests"], row["tokens_prompt"], row["charge_nano"]) for row in alice] == [
        (2, 20, 7 * 7 + 9 * 7 - 5)
    ]


def test_csv_and_parquet_say_the_same(mine: Office, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    mine.account.name = "=sum(A1)"
    mine.account.save()
    export = UsageExport(FIRST_DAY, LAST_DAY, "generation", (mine.account.pk,))
    sums = [
        write_export(export, "csv", tmp_path / "a.csv"),
        write_export(export, "parquet", tmp_path / "a.parquet"),
    ]
    assert sums[0] == sums[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]

    lines = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text(), newline="")))
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [line["generation_id"] for line in lines] == [row["generation_id"] for row in table]
    assert sum(Decimal(line["charge_usd"]) for line in lines) == sum(
        row["charge_usd"] for row in table
    )
    assert [int(line["charge_nano"]) for line in lines] == [row["charge_nano"] for row in table]
    assert lines[0]["account"] == "'=sum(A1)"
    assert table[0]["account"] == "=sum(A1)"
    assert table[0]["booked_at"] == MIDNIGHT - 300 * MINUTE


def test_a_manager_gets_the_own_account_only(mine: Office) -> None:
    forget_keys()
    days = f"from={FIRST_DAY}&to={LAST_DAY}"
    headers = {"Authorization": f"Bearer {mine.management}"}
    response = Client().get(f"/api/v1/activity/export?{days}&per=generation", headers=headers)
    assert response["Content-Disposition"].endswith(
        'usage-generation-2026-03-01-to-2026-03-02.csv"'
    )
    lines = list(csv.DictReader(io.StringIO(response.getvalue().decode(), newline="")))
    expected = ledger_nano(mine.account, MIDNIGHT - timedelta(days=1), MIDNIGHT + timedelta(days=1))
    assert sum(int(line["charge_nano"]) for line in lines) == expected
    boss = Manager(mine.account, mine.users[0], mine.management)
    boss.expect_refusal(400, "GET", "/activity/export?from=2026-03-02&to=2026-03-01")
    for odd in ("yesterday", "2026-W01-1", "20260302"):
        boss.expect_refusal(400, "GET", f"/activity/export?from={odd}")
    boss.expect_refusal(400, "GET", "/activity/export?per=hour")


def test_an_operator_downloads_every_account(mine: Office, admin_client: Client) -> None:
    page = "/admin/routing/generation/export/"
    assert "All accounts" in admin_client.get(page).text
    query: dict[str, Any] = {"first_day": FIRST_DAY, "last_day": LAST_DAY, "per": "day"}
    assert ",999," in admin_client.get(page, query).getvalue().decode()
    query["account"] = mine.account.pk
    assert ",999," not in admin_client.get(page, query).getvalue().decode()
    query["last_day"] = FIRST_DAY - timedelta(days=1)
    assert "before the first day" in admin_client.get(page, query).text


def export_usage(capsys: Any, *arguments: str) -> Any:
    call_command("export_usage", "--json", *arguments)
    return json.loads(capsys.readouterr().out)


def test_the_command_writes_a_file_and_says_its_sum(
    mine: Office, tmp_path: Path, capsys: Any
) -> None:
    days = [f"--from={FIRST_DAY}", f"--to={LAST_DAY}"]
    path = tmp_path / "usage.csv"
    result = export_usage(
        capsys, *days, f"--output={path}", f"--account={mine.account.pk}", "--per=generation"
    )
    expected = ledger_nano(mine.account, MIDNIGHT - timedelta(days=1), MIDNIGHT + timedelta(days=1))
    assert (result["file"], result["charge_nano"]) == (str(path), expected)
    assert result["rows"] == path.read_text().count("\n") - 1
    for odd in (["--to-s3"], ["--account=x"], [f"--to={FIRST_DAY - timedelta(days=1)}"]):
        with pytest.raises(CommandError):
            call_command("export_usage", *days, *odd)


def test_the_schedule_writes_each_finished_day_once(
    mine: Office, tmp_path: Path, settings: Any
) -> None:
    settings.GATEWAY_HOME, settings.USAGE_EXPORT_FORMAT = tmp_path, ""
    night = MIDNIGHT + timedelta(days=1)
    assert export_finished_days(night + timedelta(hours=2)) == 0

    settings.USAGE_EXPORT_FORMAT = "csv"
    assert export_finished_days(night) == 1
    assert export_finished_days(night + timedelta(hours=2)) == 1
    assert export_finished_days(night + timedelta(hours=3)) == 0
    names = sorted(path.name for path in (tmp_path / "exports").iterdir())
    assert names == [f"usage-day-{day}.csv" for day in (FIRST_DAY, LAST_DAY)]


def test_a_bucket_gets_the_files_of_the_command_and_of_the_schedule(
    mine: Office, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    set_credentials(monkeypatch)
    settings.GATEWAY_HOME, settings.USAGE_EXPORT_FORMAT = tmp_path, "csv"
    settings.USAGE_EXPORT_STORE = "s3://bucket/usage"
    with FakeS3() as s3:
        kept = build_s3_storage("s3://bucket/usage", s3.url, silence_s=10)
        settings.STORAGES = {**settings.STORAGES, "usage-exports": kept}
        days = [f"--from={FIRST_DAY}", f"--to={FIRST_DAY}"]
        result = export_usage(capsys, *days, "--to-s3")
        assert result["file"] == f"s3://bucket/usage/usage-day-{FIRST_DAY}.csv"
        assert export_finished_days(MIDNIGHT + timedelta(hours=26)) == 1
        names = sorted(name.rpartition("/")[2] for name in s3.objects)
        assert names == [f"usage-day-{day}.csv" for day in (FIRST_DAY, LAST_DAY)]
    assert list((tmp_path / "exports").iterdir()) == []


def test_what_is_given_back_by_the_service_lowers_the_sum_of_its_own_day(mine: Office) -> None:
    began = MIDNIGHT - 301 * MINUTE
    for window, start in list_windows(began.date()):
        SpendCounter.objects.create(
            scope="key", scope_id=str(mine.keys[0].pk), window=window, window_start=start
        )
    before = ledger_nano(mine.account, MIDNIGHT - timedelta(days=1), MIDNIGHT)
    reverse_usage(generation_id="gen-1", amount_nano=1, source_ref="another")
    today = datetime.now(UTC).date()
    reversed_today = as_dicts(UsageExport(today, today, "day", (mine.account.pk,)))
    assert [row["charge_nano"] for row in reversed_today] == [-1]
    found = as_dicts(UsageExport(FIRST_DAY, FIRST_DAY, "day", (mine.account.pk,)))
    assert sum(row["charge_nano"] for row in found) == before
