"""Channels, and how events reach them: once each, signed, tried for a day, and never lost."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.core import mail
from pytest_django import Settings
from standardwebhooks import Webhook

from accounts.events.delivery import deliver, forget_old_events, make_deliveries, take_next
from accounts.events.outbox import record_event
from accounts.models import AuditRecord, Channel, Delivery, Event
from accounts.services.channels import (
    change_channel,
    create_channel,
    delete_channel,
    rotate_secret,
)
from accounts.services.keys import create_key
from accounts.services.records import SYSTEM
from gateway.http.errors import NotFound
from gateway.outbound.doors import door_for
from tests.accounts.dump import database_text
from tests.support.local_site import LocalSite, Running, SiteHandler
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
CHANNELS, DELIVERIES = "/notifications/channels", "/notifications/deliveries"


@dataclass
class Receiver(LocalSite):
    """What was posted to it: headers and body. It answers `status`."""

    status: int = 200
    posts: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


class _Taking(SiteHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.site.posts.append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.answer(b"", status=self.site.status)


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.NOTIFICATION_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    with Running(Receiver, _Taking) as site:
        yield site
        door_for("127.0.0.1", private={"127.0.0.1"}).close_idle()


def make_channel(mine: Manager, **fields: Any) -> tuple[str, str]:
    """A channel's id, and its secret."""
    said = mine.ok("POST", CHANNELS, {"name": "ops", **fields}, status=201)
    return said["data"]["id"], said["secret"]


def send_due(now: datetime) -> None:
    """What the schedule does in one tick, with the messages of its workers."""
    make_deliveries(now=now)
    while (delivery := take_next(now=now)) is not None:
        deliver(delivery, now=now)


def rotate(mine: Manager) -> None:
    """Something happens."""
    create_key(account=mine.account, name="ci", workspace=mine.account.workspaces.get())


def test_a_webhook_is_signed_by_the_secret_that_was_shown_once(
    mine: Manager, receiver: Receiver
) -> None:
    channel_id, secret = make_channel(
        mine, type="webhook", url=f"{receiver.url}/in?token=s3cret", kinds=["key.created"]
    )
    rotate(mine)

    send_due(datetime.now(UTC))
    send_due(datetime.now(UTC))

    ((headers, body),) = receiver.posts
    told = Webhook(secret).verify(body, headers)
    assert (told["type"], told["data"]["account_id"]) == ("key.created", str(mine.account.pk))
    assert mine.ok("GET", f"{CHANNELS}/{channel_id}")["data"]["label"] == f"{receiver.url}/..."
    kept = database_text()
    assert secret not in kept
    assert "s3cret" not in kept


def test_a_new_secret_signs_from_then_on(mine: Manager, receiver: Receiver) -> None:
    channel_id, old = make_channel(mine, type="webhook", url=receiver.url)
    new = mine.ok("POST", f"{CHANNELS}/{channel_id}/rotate")["secret"]
    mine.ok("POST", f"{CHANNELS}/{channel_id}/test", status=201)

    send_due(datetime.now(UTC))

    ((headers, body),) = receiver.posts
    assert new != old
    assert Webhook(new).verify(body, headers)["type"] == "channel.test"


def test_slack_gets_text_whose_marks_are_escaped(mine: Manager, receiver: Receiver) -> None:
    make_channel(mine, type="slack", url=receiver.url)
    record_event(
        "credit.low", key="x", title="<!channel>", text="a & b", account_id=mine.account.pk
    )

    send_due(datetime.now(UTC))

    ((_, body),) = receiver.posts
    assert orjson.loads(body) == {"text": "*&lt;!channel&gt;*\na &amp; b"}


def test_a_line_break_in_a_name_keeps_no_email_back(mine: Manager) -> None:
    make_channel(mine, type="email", recipients=["lead@example.com"], kinds=["key.created"])
    mine.ok("POST", "/keys", {"name": "a\nBcc: b"}, status=201)

    send_due(datetime.now(UTC))

    (message,) = mail.outbox
    assert message.to == ["lead@example.com"]
    assert message.subject == '[Routing Gateway] API key "a Bcc: b" was created'
    assert Delivery.objects.get().state == "delivered"


def test_a_worker_killed_between_event_and_message_loses_nothing(
    mine: Manager, receiver: Receiver
) -> None:
    make_channel(mine, type="webhook", url=receiver.url)
    rotate(mine)
    now = datetime.now(UTC)
    make_deliveries(now=now)
    # It took the lease and died before it sent anything.
    Delivery.objects.update(lease_until=now + timedelta(seconds=60))

    send_due(now + timedelta(seconds=59))
    assert receiver.posts == []
    send_due(now + timedelta(seconds=61))
    send_due(now + timedelta(seconds=200))

    assert len(receiver.posts) == 1


def test_a_delivery_that_kills_its_workers_ends_as_failed(
    mine: Manager, receiver: Receiver
) -> None:
    make_channel(mine, type="webhook", url=receiver.url)
    rotate(mine)
    begun = datetime.now(UTC)
    make_deliveries(now=begun)
    # Taken again and again, and never brought to an end.
    Delivery.objects.update(attempts=1_440, lease_until=begun + timedelta(days=1))

    send_due(begun + timedelta(days=1, seconds=1))

    (told,) = mine.ok("GET", f"{DELIVERIES}?state=failed")["data"]
    assert told["error"] == "No try came to an end within a day"
    assert receiver.posts == []


def test_a_receiver_that_fails_is_tried_for_a_day_and_then_by_hand(
    mine: Manager, receiver: Receiver
) -> None:
    make_channel(mine, type="webhook", url=receiver.url)
    receiver.status = 503
    rotate(mine)
    begun = now = datetime.now(UTC)
    waits = []
    make_deliveries(now=now)
    while (row := Delivery.objects.get()).state == "pending":
        send_due(row.next_try_at)
        waits.append((row.next_try_at - now).total_seconds())
        now = row.next_try_at

    assert waits[1:5] == [10, 30, 90, 270]
    assert max(waits) == 4 * 3600
    assert now - begun <= timedelta(days=1) < row.next_try_at - begun
    (told,) = mine.ok("GET", f"{DELIVERIES}?state=failed")["data"]
    assert (told["answer_status"], told["error"]) == (503, "The receiver answered 503")
    assert len({headers["webhook-id"] for headers, _ in receiver.posts}) == 1

    receiver.status = 204
    again = mine.ok("POST", f"{DELIVERIES}/{told['id']}/resend")["data"]
    assert again["state"] == "pending"
    send_due(datetime.now(UTC))

    (told,) = mine.ok("GET", f"{DELIVERIES}?state=delivered")["data"]
    assert (told["answer_status"], told["error"], told["attempts"]) == (204, None, 1)


def test_nobody_s_receivers_take_all_who_send(mine: Manager, receiver: Receiver) -> None:
    for number in range(4):
        make_channel(mine, name=str(number), type="slack", url=receiver.url)
    other = manager("other")
    make_channel(other, type="slack", url=receiver.url)
    create_channel(account_id=None, by=SYSTEM, name="ops", type="slack", url=receiver.url)
    now = datetime.now(UTC)
    record_event("provider.down", key="a", title="", text="")
    make_deliveries(now=now)
    Delivery.objects.filter(channel__account=mine.account).update(
        next_try_at=now - timedelta(hours=1)
    )

    taken = [take_next(now=now) for _ in range(5)]

    whose = [each and each.channel.account_id for each in taken]
    assert whose[0] == mine.account.pk
    assert set(whose[1:3]) == {other.account.pk, None}
    assert whose[3:] == [mine.account.pk, None]
    assert taken[4] is None
    # Until one of these has ended.
    assert taken[0] is not None
    assert deliver(taken[0], now=now)
    assert take_next(now=now) is not None
    assert take_next(now=now) is None


def test_a_channel_has_one_message_under_way(mine: Manager, receiver: Receiver) -> None:
    make_channel(mine, type="slack", url=receiver.url)
    rotate(mine)
    rotate(mine)
    now = datetime.now(UTC)
    make_deliveries(now=now)

    assert take_next(now=now) is not None
    assert take_next(now=now) is None


def test_who_hears_of_what(mine: Manager, receiver: Receiver) -> None:
    team = mine.workspace("team")
    other = manager("other")
    channels = {
        "account": make_channel(mine, type="slack", url=receiver.url)[0],
        "workspace": make_channel(mine, type="slack", url=receiver.url, workspace_id=str(team.pk))[
            0
        ],
        "keys": make_channel(mine, type="slack", url=receiver.url, kinds=["key.rotated"])[0],
        "off": make_channel(mine, type="slack", url=receiver.url, disabled=True)[0],
        "other": make_channel(other, type="slack", url=receiver.url)[0],
        "operator": str(
            create_channel(
                account_id=None, by=SYSTEM, name="ops", type="slack", url=receiver.url
            ).row.pk
        ),
    }
    Event.objects.all().delete()
    record_event("credit.low", key="a", title="", text="", account_id=mine.account.pk)
    whose: Any = {"account_id": mine.account.pk, "workspace_id": team.pk}
    record_event("intern.failed", key="w", title="", text="", **whose)
    record_event("provider.down", key="e", title="", text="")
    record_event("ledger.mismatch", key="o", title="", text="")

    make_deliveries(now=datetime.now(UTC))

    heard = {
        name: "".join(
            sorted(Delivery.objects.filter(channel__pk=pk).values_list("event__key", flat=True))
        )
        for name, pk in channels.items()
    }
    assert heard == {
        "account": "aew",
        "workspace": "ew",
        "keys": "",
        "off": "",
        "other": "e",
        "operator": "aeow",
    }


BROKEN_CHANNELS: list[tuple[dict[str, Any], str]] = [
    ({"type": "webhook", "url": "http://hooks.example/in"}, "url"),
    ({"type": "webhook", "url": "https://10.0.0.7/in"}, "url"),
    ({"type": "slack", "url": "https://[::1]/in"}, "url"),
    ({"type": "slack"}, "url"),
    ({"type": "email", "url": "https://hooks.example/in"}, "url"),
    ({"type": "email", "recipients": ["nobody"]}, "recipients.0"),
    ({"type": "webhook", "url": "https://hooks.example", "kinds": ["x"]}, "kinds.0"),
    (
        {
            "type": "webhook",
            "url": "https://hooks.example",
            "workspace_id": "b9a7a0a6-6a4e-4c46-9d0c-1f2a3b4c5d6e",
        },
        "workspace_id",
    ),
]


def test_a_channel_that_cannot_work_is_refused(mine: Manager) -> None:
    for fields, path in BROKEN_CHANNELS:
        status, said = mine.call("POST", CHANNELS, {"name": "ops", **fields})
        assert status == 400
        assert [issue["path"] for issue in said["error"]["metadata"]["issues"]] == [path]


def test_without_a_mail_server_there_are_no_email_channels(
    mine: Manager, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    fields = {"name": "ops", "type": "email", "recipients": ["lead@example.com"]}

    assert "EMAIL_URL" in mine.expect_refusal(400, "POST", CHANNELS, fields)


def test_a_host_that_became_private_is_not_asked(
    mine: Manager, receiver: Receiver, settings: Settings
) -> None:
    make_channel(mine, type="webhook", url=receiver.url)
    settings.NOTIFICATION_PRIVATE_HOSTS = frozenset()
    rotate(mine)

    send_due(datetime.now(UTC))

    assert receiver.posts == []
    assert "No answer" in Delivery.objects.get().error


def test_changes_are_on_record_and_a_deleted_channel_is_wiped(
    mine: Manager, receiver: Receiver
) -> None:
    channel_id, _ = make_channel(mine, type="webhook", url=receiver.url)
    rotate(mine)
    make_deliveries(now=datetime.now(UTC))

    changes = {"name": "night", "url": "https://hooks.example/x", "kinds": None}
    sealed = Channel.objects.get().sealed_secret
    answer = mine.ok("PATCH", f"{CHANNELS}/{channel_id}", changes)
    changed = answer["data"]
    assert (changed["name"], changed["label"]) == ("night", "https://hooks.example/...")
    # The former host knows the former secret.
    assert answer["secret"].startswith("whsec_")
    assert Channel.objects.get().sealed_secret != sealed
    assert mine.ok("PATCH", f"{CHANNELS}/{channel_id}", changes)["secret"] is None
    mine.ok("DELETE", f"{CHANNELS}/{channel_id}")
    send_due(datetime.now(UTC))

    row = Channel.everything.get()
    assert (row.sealed_url, row.sealed_secret) == ("", "")
    assert Delivery.objects.get().error == "The channel was switched off"
    assert mine.ok("GET", CHANNELS)["total_count"] == 0
    records = AuditRecord.objects.filter(object_type="channel").order_by("pk")
    assert [record.action for record in records] == ["created", "updated", "deleted"]


def test_a_channel_that_is_gone_is_changed_by_nobody(mine: Manager, receiver: Receiver) -> None:
    make_channel(mine, type="webhook", url=receiver.url)
    row = Channel.objects.get()
    delete_channel(row=row, by=SYSTEM)

    for act in (
        lambda: change_channel(row=row, changes={"url": receiver.url}, by=SYSTEM),
        lambda: rotate_secret(row=row, by=SYSTEM),
        lambda: delete_channel(row=row, by=SYSTEM),
    ):
        with pytest.raises(NotFound):
            act()


def test_events_leave_with_their_deliveries_and_the_channels_that_were_deleted(
    mine: Manager, receiver: Receiver
) -> None:
    channel_id, _ = make_channel(mine, type="webhook", url=receiver.url)
    # Where a limit never begins anew, its crossing would be recorded again.
    for key, window in (("a", {}), ("b", {"window": "monthly"}), ("c", {"window": "lifetime"})):
        record_event("key.limit_threshold", key=key, title="", text="", data=window)
    Channel.objects.update(account=None)
    send_due(datetime.now(UTC))
    Channel.objects.update(account=mine.account)
    mine.ok("DELETE", f"{CHANNELS}/{channel_id}")
    assert Delivery.objects.count() == 3

    assert forget_old_events(datetime.now(UTC) + timedelta(days=89)) == 0
    # Also that of the key that asks.
    assert forget_old_events(datetime.now(UTC) + timedelta(days=91)) == 3 + 3 + 1

    assert [event.key for event in Event.objects.all()] == ["c"]
    assert not Delivery.objects.exists()
    assert not Channel.everything.exists()
