"""What is recorded of deeds and states, once each."""

from datetime import UTC, datetime

import pytest
from django.db import transaction

from accounts.events.outbox import clear_alarm, raise_alarm, record_event
from accounts.models import Account, ApiKey, Event, Workspace
from accounts.services.keys import create_key, rotate_key

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


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
