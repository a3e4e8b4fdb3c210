"""States that become events: each crossing once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from accounts.events.outbox import clear_alarm, raise_alarm, record_event
from accounts.models import (
    Account,
    ApiKey,
    Event,
    LedgerEntry,
    SpendCounter,
    Workspace,
    WorkspaceBudget,
)
from accounts.services.books.audit import compare_books
from accounts.services.books.credits import add_credits, take_credits
from accounts.services.books.spent_limits import record_spending
from accounts.services.books.watching import (
    EVENTS_A_DAY,
    record_end_user_spending,
    record_expiries,
    record_low_credit,
    record_mismatches,
)
from accounts.services.guardrails import create_guardrail
from accounts.services.keys import create_key, rotate_key
from accounts.services.records import SYSTEM
from accounts.services.spend_scopes import erase_end_user_budget
from accounts.services.workspace_budgets import set_budget
from accounts.spending import (
    UNREACHABLE_NANO,
    find_window_end,
    find_window_starts,
    read_tag_budgets,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000
NOW = datetime.now(UTC)


def set_monthly(workspace: Workspace, usd: int, enforcement: str = "block") -> None:
    set_budget(
        account_id=workspace.account_id,
        reference=workspace.slug,
        interval="monthly",
        limit_nano=usd * USD,
        include_byok=None,
        enforcement=enforcement,
        by=SYSTEM,
    )


def spend(scope: str, scope_id: str, usd: float, **columns: Any) -> None:
    """What the ledger writer would say on the month's counter."""
    start = find_window_starts(NOW)["month"]
    where: Any = {"scope": scope, "scope_id": scope_id, "window": "month", "window_start": start}
    SpendCounter.objects.update_or_create(
        **where, defaults={"spent_nano": int(usd * USD), **columns}
    )


def list_levels(kind: str) -> list[int]:
    """The levels that events tell of."""
    events = Event.objects.filter(kind=kind).order_by("at")
    return sorted(event.data["level_percent"] for event in events)


@pytest.mark.parametrize("enforcement", ["block", "warn"])
def test_each_level_of_a_budget_is_told_once(workspace: Workspace, enforcement: str) -> None:
    set_monthly(workspace, 10, enforcement)
    told = []
    for usd in (4.9, 5, 7, 8.1, 9, 10, 12):
        spend("workspace", workspace.pk.hex, usd)
        told.append(record_spending(now=NOW))

    assert told == [0, 1, 0, 1, 0, 1, 0]
    assert list_levels("budget.threshold") == [50, 80, 100]
    last = Event.objects.get(kind="budget.threshold", data__level_percent=100)
    assert last.workspace_id == workspace.pk
    assert "$10.00 of its monthly budget of $10.00" in last.text
    assert ("refused" in last.text) == (enforcement == "block")
    assert f"PUT /api/v1/workspaces/{workspace.pk}/budgets/monthly" in last.text


def test_a_raised_budget_and_a_new_window_begin_anew(workspace: Workspace) -> None:
    set_monthly(workspace, 10)
    spend("workspace", workspace.pk.hex, 6)
    record_spending(now=NOW)
    set_monthly(workspace, 11)
    spend("workspace", workspace.pk.hex, 6)

    assert record_spending(now=NOW) == 1
    assert record_spending(now=NOW + timedelta(days=32)) == 0


def test_what_a_window_s_last_seconds_spent_is_told_after_its_end(workspace: Workspace) -> None:
    set_monthly(workspace, 10)
    spend("workspace", workspace.pk.hex, 9)
    end = find_window_end("month", find_window_starts(NOW)["month"])
    assert end is not None
    midnight = datetime(end.year, end.month, end.day, tzinfo=UTC)

    assert record_spending(now=midnight + timedelta(seconds=5)) == 2
    assert record_spending(now=midnight + timedelta(seconds=20)) == 0
    told = Event.objects.filter(kind="budget.threshold")
    assert all(f"It began anew on {end}" in each.text for each in told)
    # What was set since is not held against a window that is over.
    WorkspaceBudget.objects.update(limit_nano=5 * USD, updated_at=midnight)
    assert record_spending(now=midnight + timedelta(seconds=30)) == 0


@pytest.mark.parametrize("enforcement", ["block", "warn"])
def test_each_level_of_a_key_s_limit_is_told_once(
    account: Account, workspace: Workspace, enforcement: str
) -> None:
    key, _ = create_key(
        account=account,
        name="ci",
        workspace=workspace,
        limit_nano=10 * USD,
        limit_reset="monthly",
        limit_enforcement=enforcement,
    )
    limit_nano = key.enforced_limit_nano
    for usd in (4, 9, 9.5):
        spend("key", str(key.pk), usd, limit_nano=limit_nano)
        record_spending(now=NOW)

    assert list_levels("key.limit_threshold") == [50, 80]


@pytest.mark.parametrize("enforcement", ["block", "warn"])
def test_a_guardrail_s_budget_is_its_holder_s(
    account: Account, key: ApiKey, enforcement: str
) -> None:
    workspace = account.workspaces.get()
    guardrail = create_guardrail(
        account_id=account.pk,
        workspace_id=workspace.pk,
        by=SYSTEM,
        settings={
            "name": "careful",
            "limit_nano": 10 * USD,
            "reset_interval": "monthly",
            "budget_enforcement": enforcement,
        },
    )
    spend(
        "guardrail",
        f"{guardrail.pk.hex}:k:{key.pk}",
        8,
        limit_nano=10 * USD if enforcement == "block" else UNREACHABLE_NANO,
        account=account,
        workspace=workspace,
    )

    assert record_spending(now=NOW) == 2
    assert 'budget of guardrail "careful"' in Event.objects.filter(kind="budget.threshold")[0].text


def test_a_tag_s_budget_is_told_by_its_name(workspace: Workspace) -> None:
    monthly = {"interval": "monthly", "limit_nano": 10 * USD}
    stored = [monthly | {"tag": tag} for tag in ("team=blue", "team=*")]
    Workspace.objects.filter(pk=workspace.pk).update(tag_budgets=stored)
    workspace.refresh_from_db()
    blue, each = read_tag_budgets(workspace)
    for budget, value in ((blue, "blue"), (each, "red")):
        scope_id = budget.build_scope(value).scope_id
        spend("tag", scope_id, 8, limit_nano=10 * USD, workspace=workspace)

    assert record_spending(now=NOW) == 2
    event = Event.objects.get(data__level_percent=80)
    assert (event.workspace_id, event.data["tag"]) == (workspace.pk, "team=blue")
    assert event.title.startswith('Tag "team=blue" of workspace')
    assert record_spending(now=NOW) == 0


def test_end_users_without_a_limit_of_their_own_share_the_events_of_a_day(
    workspace: Workspace,
) -> None:
    special = "ab" * 32
    stored = {"interval": "monthly", "limit_nano": 10 * USD, "limits": {special: 20 * USD}}
    Workspace.objects.filter(pk=workspace.pk).update(end_user_budget=stored)
    place: Any = {"account": workspace.account, "workspace": workspace}
    users = [f"{number:031}" for number in range(EVENTS_A_DAY // 2 + 5)]
    for user in users:
        spend("end_user", f"{workspace.pk.hex}:{user}", 8, limit_nano=10 * USD, **place)

    # Two levels of 50 of them, and that there are more.
    assert record_end_user_spending(now=NOW) == EVENTS_A_DAY + 1
    # None of the lower level took the place of one that spent more.
    assert Event.objects.filter(data__level_percent=80).count() == len(users)
    assert Event.objects.get(data__scope="end_users").workspace_id == workspace.pk
    own = f"{workspace.pk.hex}:{special[:31]}"
    spend("end_user", own, 10, limit_nano=20 * USD, **place)
    assert record_end_user_spending(now=NOW) == 1
    assert Event.objects.get(data__has_own_limit=True).data["level_percent"] == 50
    assert record_end_user_spending(now=NOW) == 0
    # As if all that was yesterday.
    Event.objects.filter(data__scope="end_users").delete()
    Event.objects.update(at=NOW - timedelta(days=1))
    assert record_end_user_spending(now=NOW) == 10

    erase_end_user_budget(workspace.account_id, special)
    assert not Event.objects.filter(data__has_own_limit=True).exists()
    assert record_end_user_spending(now=NOW) == 0


def test_an_account_is_told_of_low_credit_each_time_it_runs_low(
    account: Account, settings: Settings
) -> None:
    settings.CREDIT_LOW_USD = 5
    steps: list[Callable[[], Any]] = [
        lambda: None,
        lambda: add(account, 20),
        lambda: take(account, 16),
        lambda: take(account, 1),
        lambda: add(account, 20),
        lambda: take(account, 20),
    ]
    told = []
    for step in steps:
        step()
        told.append(record_low_credit(now=NOW))

    assert told == [0, 0, 1, 0, 0, 1]
    assert "$4.00 of credit left" in Event.objects.filter(kind="credit.low").earliest("key").text


def add(account: Account, usd: int) -> LedgerEntry:
    ref = str(LedgerEntry.objects.count())
    return add_credits(account=account, amount_nano=usd * USD, source="test", source_ref=ref)[0]


def take(account: Account, usd: int) -> None:
    ref = str(LedgerEntry.objects.count())
    take_credits(account=account, amount_nano=usd * USD, source="test", source_ref=ref)


def test_credit_that_expires_soon_is_told_once(account: Account, settings: Settings) -> None:
    settings.CREDIT_EXPIRY_DAYS, settings.EXPIRY_NOTICE_DAYS = 30, 7
    entry = add(account, 20)
    take(account, 5)

    told = [record_expiries(now=entry.created_at + timedelta(days=day)) for day in (22, 24, 25)]

    assert told == [0, 1, 0]
    assert "$15.00" in Event.objects.get(kind="credit.expiring").title


def test_a_key_that_expires_soon_is_told_once(account: Account, workspace: Workspace) -> None:
    ends = NOW + timedelta(days=10)
    create_key(account=account, name="ci", workspace=workspace, expires_at=ends)

    told = [record_expiries(now=NOW + timedelta(days=day)) for day in (1, 4, 5, 11)]

    assert told == [0, 1, 0, 0]


@pytest.mark.django_db(transaction=True)
def test_books_that_disagree_are_told_once_each_time(account: Account) -> None:
    add(account, 20)
    told = []
    for wrong in (0, 7, 7, 0, 7):
        Account.objects.filter(pk=account.pk).update(total_credits_nano=20 * USD + wrong)
        told.append(record_mismatches(compare_books(now=NOW), now=NOW))

    assert told == [0, 1, 0, 0, 1]
    event = Event.objects.filter(kind="ledger.mismatch").earliest("key")
    assert event.account_id == account.pk
    assert "total_credits says 20000000007, entries say 20000000000" in event.text


@pytest.mark.django_db(transaction=True)
def test_what_is_wrong_with_no_account_is_the_operator_s() -> None:
    SpendCounter.objects.create(
        scope="key",
        scope_id="999",
        window="day",
        window_start=find_window_starts(NOW)["day"],
        spent_nano=1,
    )

    assert record_mismatches(compare_books(now=NOW), now=NOW) == 1
    assert Event.objects.get().account_id is None


# --- Deeds ----------------------------------------------------------------------------------------


def test_an_event_of_one_key_is_recorded_once(account: Account) -> None:
    for title in ("first", "second"):
        record_event("credit.low", key="credit.low:x", title=title, text="", account_id=account.pk)

    assert [event.title for event in Event.objects.all()] == ["first"]


def test_keys_that_are_made_and_rotated_leave_an_event_without_the_string(
    account: Account, workspace: Workspace
) -> None:
    key, string = create_key(account=account, name="ci", workspace=workspace)
    _, second = rotate_key(keys=ApiKey.objects.filter(pk=key.pk), grace_s=60)

    found = list(Event.objects.order_by("at"))
    assert [(event.kind, event.workspace_id) for event in found] == [
        ("key.created", workspace.pk),
        ("key.rotated", workspace.pk),
    ]
    texts = " ".join(f"{event.title} {event.text} {event.data}" for event in found)
    assert '"ci"' in texts
    assert string not in texts
    assert second not in texts


def test_a_deed_that_is_undone_leaves_no_event(account: Account, workspace: Workspace) -> None:
    with transaction.atomic():
        create_key(account=account, name="ci", workspace=workspace)
        transaction.set_rollback(True)

    assert not Event.objects.exists()


def test_an_alarm_counts_each_time_that_it_is_raised() -> None:
    seen: list[int | None] = []
    with transaction.atomic():
        seen += [raise_alarm("provider:x", at=NOW), raise_alarm("provider:x", at=NOW)]
        seen += [clear_alarm("provider:x", at=NOW), clear_alarm("provider:x", at=NOW)]
        seen += [raise_alarm("provider:x", at=NOW)]

    assert seen == [1, None, 1, None, 2]
