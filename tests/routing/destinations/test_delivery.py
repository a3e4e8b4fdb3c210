"""Deliveries: tried again, dropped, counted, and only to where they may go."""

import logging
from typing import Any

import pytest

from accounts.models import AuditRecord, Event, Workspace
from accounts.services.records import SYSTEM
from routing.destinations.delivery import deliver, try_connection
from routing.destinations.facts import TraceFacts, pack_batch
from routing.destinations.models import Destination
from routing.destinations.services import create_destination
from tests.routing.destinations.examples import facts
from tests.support.management import Manager, manager
from tests.support.metrics import read_number
from tests.support.receiver import Receiver, list_spans, read_attributes

pytestmark = [pytest.mark.django_db, pytest.mark.both]
TOKEN = "canary-token-0123456789"


@pytest.fixture
def mine() -> Manager:
    found = manager("deliveries")
    Workspace.objects.update(is_observability_broadcast_enabled=True)
    return found


def make_hook(mine: Manager, url: str, **fields: Any) -> Destination:
    config = {"url": url, "headers": {"X-Token": TOKEN}}
    return create_destination(
        account_id=mine.account.pk,
        workspace_id=None,
        type="webhook",
        name="Hook",
        config=config,
        by=SYSTEM,
        **fields,
    ).row


def deliver_traces(row: Destination, *traces: TraceFacts, attempt: int = 1) -> int | None:
    """The seconds until the next try."""
    batch = pack_batch(traces or [facts()], str(row.pk))
    retry = deliver(row.pk, batch, attempt)
    return None if retry is None else retry.delay_s


def test_what_arrives_is_counted_and_ends_a_row_of_drops(mine: Manager, receiver: Receiver) -> None:
    row = make_hook(mine, receiver.url)
    Destination.objects.update(drops_in_row=5, last_error="x")

    assert deliver_traces(row, facts(), facts(generation_id="gen-2")) is None

    row.refresh_from_db()
    assert (row.delivered, row.drops_in_row, row.last_error) == (2, 0, "")
    assert receiver.received[0].headers["x-token"] == TOKEN


def test_a_failure_is_tried_three_times_then_dropped_and_counted(
    mine: Manager, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    row, receiver.status = make_hook(mine, receiver.url), 503

    assert [deliver_traces(row, attempt=number) for number in (1, 2, 3)] == [10, 60, None]

    row.refresh_from_db()
    assert len(receiver.received) == 3
    assert (row.dropped, row.drops_in_row, row.enabled) == (1, 1, True)
    assert row.last_error == "the receiver answered 503"
    assert TOKEN not in caplog.text


def test_a_batch_that_does_not_open_is_lost_and_no_fault_of_the_receiver(
    mine: Manager, receiver: Receiver
) -> None:
    row, name = make_hook(mine, receiver.url), "gateway_destination_traces_lost_total"
    before = read_number(name, reason="sealed")
    batch = pack_batch([facts()], "another")
    assert "What is" not in batch

    assert deliver(row.pk, batch, 1, 3) is None

    row.refresh_from_db()
    assert (row.dropped, row.drops_in_row, receiver.received) == (3, 0, [])
    assert row.last_error == "a batch does not open any more"
    assert read_number(name, reason="sealed") == before + 3


def test_a_hundred_drops_in_a_row_switch_it_off(
    mine: Manager, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    row, receiver.status = make_hook(mine, receiver.url), 500
    Destination.objects.update(drops_in_row=98)

    deliver_traces(row, attempt=3)
    row.refresh_from_db()
    assert row.enabled
    with caplog.at_level(logging.WARNING):
        deliver_traces(row, attempt=3)

    row.refresh_from_db()
    assert (row.enabled, row.drops_in_row) == (False, 100)
    assert "switched off: 100 drops in a row" in caplog.text
    record = AuditRecord.objects.get(action="updated")
    assert (record.before, record.after) == ({"enabled": True}, {"enabled": False})
    asked = len(receiver.received)
    assert deliver_traces(row) is None
    assert len(receiver.received) == asked


def test_each_time_that_it_is_switched_off_is_an_event_of_its_workspace(
    mine: Manager, receiver: Receiver
) -> None:
    row, receiver.status = make_hook(mine, receiver.url), 500
    for _ in range(2):
        Destination.objects.update(drops_in_row=99, enabled=True)
        deliver_traces(row, attempt=3)
        deliver_traces(row, attempt=3)

    events = Event.objects.filter(kind="destination.disabled")
    assert len(events) == 2
    event = events[0]
    assert (event.account_id, event.workspace_id) == (row.account_id, row.workspace_id)
    assert event.title == 'Destination "Hook" was switched off'
    assert event.data["last_error"] == "the receiver answered 500"
    assert event.data["drops_in_row"] == 100
    assert TOKEN not in f"{event.text} {event.data}"


def test_of_a_batch_for_s3_only_the_objects_that_failed_are_sent_again(
    mine: Manager, receiver: Receiver
) -> None:
    row = create_destination(
        account_id=mine.account.pk,
        workspace_id=None,
        type="s3",
        name="Objects",
        config={
            "bucketName": "traces",
            "accessKeyId": "AK",
            "secretAccessKey": "a" * 40,
            "endpoint": receiver.url,
        },
        by=SYSTEM,
    ).row
    ends = [facts().ended_ns + number * 10**9 for number in range(3)]
    batch = pack_batch([facts(ended_ns=each) for each in ends], str(row.pk))
    receiver.statuses = [200, 503, 200]

    retry = deliver(row.pk, batch, 1)
    assert retry is not None
    assert deliver(row.pk, retry.batch, 2) is None

    paths = [request.path for request in receiver.received]
    assert len(set(paths[:3])) == 3
    assert paths[3:] == [paths[1]]
    row.refresh_from_db()
    assert (row.delivered, row.dropped) == (3, 0)


def test_what_nobody_wants_any_more_is_not_sent(mine: Manager, receiver: Receiver) -> None:
    row = make_hook(mine, receiver.url)
    Workspace.objects.update(is_observability_broadcast_enabled=False)
    assert deliver_traces(row) is None
    row.delete()
    assert deliver_traces(Destination(pk=row.pk)) is None
    assert receiver.received == []


def test_rules_choose_and_privacy_mode_sends_no_content(mine: Manager, receiver: Receiver) -> None:
    rule = {"field": "input", "operator": "contains", "value": "up"}
    rules = {"enabled": True, "groups": [{"logic": "and", "rules": [rule]}]}
    row = make_hook(mine, receiver.url, filter_rules=rules, privacy_mode=True)

    deliver_traces(
        row, facts(), facts(generation_id="gen-2", input=[{"role": "user", "content": "no"}])
    )
    deliver_traces(row, facts(input=[]))

    (request,) = receiver.received
    (span,) = list_spans(request.json)
    assert read_attributes(span)["gen_ai.response.id"] == "gen-1"
    assert b"What is" not in request.body
    assert b"The sky" not in request.body


def test_private_hosts_need_the_operators_word_and_redirects_are_not_followed(
    mine: Manager, receiver: Receiver, settings: Any
) -> None:
    row = make_hook(mine, receiver.url)
    receiver.status, receiver.location = 307, f"{receiver.url}/elsewhere"
    assert deliver_traces(row, attempt=3) is None
    row.refresh_from_db()
    assert row.last_error == "the receiver answered 307"
    assert [request.path for request in receiver.received] == ["/"]

    settings.DESTINATION_PRIVATE_HOSTS = frozenset()
    deliver_traces(row, attempt=3)
    named = make_hook(mine, f"https://localhost:{receiver.port}/in")
    deliver_traces(named, attempt=3)

    not_allowed = "the config is not allowed any more: config.url: Invalid input: a private address"
    for each, reason in ((row, not_allowed), (named, "no answer:")):
        each.refresh_from_db()
        assert each.last_error.startswith(reason)
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("status", "passed"), [(200, True), (204, True), (400, True), (401, False), (500, False)]
)
def test_a_connection_test_sends_nothing_but_its_mark(
    mine: Manager, receiver: Receiver, status: int, passed: bool
) -> None:
    row, receiver.status = make_hook(mine, receiver.url), status

    path = f"/observability/destinations/{row.pk}/test"
    assert mine.ok("POST", path)["data"] == {
        "passed": passed,
        "status": status,
        "message": f"the receiver answered {status}",
    }

    (request,) = receiver.received
    assert request.headers["x-test-connection"] == "true"
    assert request.json == {"resourceSpans": []}


def test_a_receiver_that_is_not_there_does_not_pass(mine: Manager, receiver: Receiver) -> None:
    result = try_connection(make_hook(mine, "http://127.0.0.1:1025/in"))

    assert (result.passed, result.status) == (False, None)
    assert result.message.startswith("no answer:")
