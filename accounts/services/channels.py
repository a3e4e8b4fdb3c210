"""Channels of notifications and their deliveries: listing, making, changing, trying, resending.

Every change leaves an audit record, without URLs and secrets.
"""

import base64
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.events import delivery as deliveries
from accounts.events.outbox import record_event
from accounts.events.senders import has_mail_server, parse_channel_url, seal_secret, seal_url
from accounts.models import Channel, Delivery, Event, Workspace
from accounts.services.keys import NoSuchWorkspace
from accounts.services.records import Actor, read_fields, record_row
from gateway.http.errors import InvalidRequest, NotFound, SchemaInvalid
from gateway.http.paging import Page
from gateway.http.validation import Issue
from gateway.outbound.targets import TargetRefused

_record: Final = partial(record_row, "channel")

CHANNELS_MAX: Final = 500
FACTS: Final = ("name", "type", "workspace_id", "kinds", "recipients", "label", "disabled")
_SECRET_BYTES: Final = 32


class TooManyChannels(InvalidRequest):
    message = f"An account can have at most {CHANNELS_MAX} channels"


class NoMailServer(SchemaInvalid):
    """E-mail needs a mail server, which the operator names in EMAIL_URL."""

    def __init__(self) -> None:
        text = "Invalid input: this gateway sends no e-mail, because EMAIL_URL is not set"
        super().__init__([Issue("type", text)])


class UnfitField(SchemaInvalid):
    """A channel of this type needs a field that is missing, or has no such field."""


class ChannelWithSecret(NamedTuple):
    """A channel, and the secret of a webhook that got one, which is shown this once."""

    row: Channel
    secret: str | None


def list_channels(account_id: UUID, page: Page) -> tuple[list[Channel], int]:
    """One page of the account's channels, newest first, and how many there are."""
    rows = Channel.objects.filter(account=account_id).order_by("-created_at", "pk")
    return list(rows[page.rows]), rows.count()


def find_channel(account_id: UUID, channel_id: UUID) -> Channel:
    """Raises `NotFound`."""
    row = Channel.objects.filter(account=account_id, pk=channel_id).first()
    if row is None:
        raise NotFound
    return row


def create_channel(
    *,
    account_id: UUID | None,
    by: Actor,
    workspace_id: UUID | None = None,
    url: str | None = None,
    **columns: object,
) -> ChannelWithSecret:
    """A new channel; without an account it is the operator's. `columns` are the others.

    Raises `SchemaInvalid` for what does not fit its type or leads to where nothing is sent,
    `NoSuchWorkspace` and `TooManyChannels`.
    """
    now = datetime.now(UTC)
    row = Channel(id=uuid4(), account_id=account_id, workspace_id=workspace_id, **columns)
    _set_destination(row, url, row.recipients)
    secret = _set_new_secret(row) if row.type == Channel.Type.WEBHOOK else None
    with transaction.atomic():
        if workspace_id is not None:
            mine = Workspace.objects.filter(pk=workspace_id, account=account_id)
            if not mine.exists():
                raise NoSuchWorkspace
        if Channel.objects.filter(account=account_id).count() >= CHANNELS_MAX:
            raise TooManyChannels
        row.save(force_insert=True)
        _record(by, "created", row, None, read_fields(row, FACTS), at=now)
    return ChannelWithSecret(row, secret)


def change_channel(*, row: Channel, changes: Mapping[str, Any], by: Actor) -> ChannelWithSecret:
    """The channel with these fields set, `url` among them. A webhook that leads to another host
    gets a new secret. The former host knows the old one, and could sign in the gateway's name.

    Raises `SchemaInvalid`, and `NotFound` where somebody else deleted it.
    """
    now, wanted, secret = datetime.now(UTC), dict(changes), None
    url, recipients = wanted.pop("url", None), wanted.get("recipients")
    with transaction.atomic():
        row = _lock_channel(row)
        before = read_fields(row, FACTS)
        for name, value in wanted.items():
            setattr(row, name, value)
        if url is not None or recipients is not None:
            _set_destination(row, url, recipients)
        if row.type == Channel.Type.WEBHOOK and row.label != before["label"]:
            secret = _set_new_secret(row)
        row.updated_at = now
        row.save(update_fields=[*wanted, "label", "sealed_url", "sealed_secret", "updated_at"])
        _record(by, "updated", row, before, read_fields(row, FACTS), at=now)
    return ChannelWithSecret(row, secret)


def rotate_secret(*, row: Channel, by: Actor) -> str:
    """A new secret of a webhook, shown this once; the old one signs no longer. Raises
    `InvalidRequest` for channels that have none, and `NotFound` for a deleted one."""
    if row.type != Channel.Type.WEBHOOK:
        raise InvalidRequest("Only webhooks have a secret")
    now = datetime.now(UTC)
    with transaction.atomic():
        row = _lock_channel(row)
        secret, row.updated_at = _set_new_secret(row), now
        row.save(update_fields=["sealed_secret", "updated_at"])
        _record(by, "rotated", row, None, {"updated_at": now}, at=now)
    return secret


def delete_channel(*, row: Channel, by: Actor) -> None:
    """Delete it as its users see it: its deliveries stay, without its URL and its secret. Raises
    `NotFound` where somebody else was faster."""
    now = datetime.now(UTC)
    with transaction.atomic():
        before = read_fields(_lock_channel(row), FACTS)
        Channel.objects.filter(pk=row.pk).update(sealed_url="", sealed_secret="", deleted_at=now)
        _record(by, "deleted", row, before, None, at=now)


def send_test_message(row: Channel) -> Delivery:
    """A message that says nothing happened, for this channel alone."""
    now = datetime.now(UTC)
    with transaction.atomic():
        key = f"channel.test:{uuid4()}"
        record_event(
            "channel.test",
            key=key,
            title="Test message",
            text=f'The channel "{row.name}" works. Nothing happened; somebody asked for this test.',
            account_id=row.account_id,
            workspace_id=row.workspace_id,
            at=now,
        )
        event = Event.objects.get(key=key)
        Event.objects.filter(pk=event.pk).update(channels_found_at=now)
        made = deliveries.build_delivery(event, row, now)
        made.save(force_insert=True)
    return made


def list_events(account_id: UUID, page: Page) -> tuple[list[Event], int]:
    """One page of what happened in the account, newest first, and how much there is."""
    rows = Event.objects.filter(account=account_id).order_by("-at", "pk")
    return list(rows[page.rows]), rows.count()


def list_deliveries(
    account_id: UUID, page: Page, *, channel_id: UUID | None, state: str | None
) -> tuple[list[Delivery], int]:
    """One page of deliveries by the account's channels, newest first, and how many there are."""
    rows = _select_deliveries(account_id)
    if channel_id is not None:
        rows = rows.filter(channel=channel_id)
    if state is not None:
        rows = rows.filter(state=state)
    return list(rows.order_by("-created_at", "pk")[page.rows]), rows.count()


def resend_delivery(account_id: UUID, delivery_id: UUID) -> Delivery:
    """Let a delivery be sent again, also one that arrived. Raises `NotFound`, and `InvalidRequest`
    where the channel is gone."""
    row = _select_deliveries(account_id).filter(pk=delivery_id).first()
    if row is None:
        raise NotFound
    if row.channel.deleted_at is not None or row.channel.disabled:
        raise InvalidRequest("The channel of this delivery is deleted or disabled")
    deliveries.resend(row, now=datetime.now(UTC))
    return row


def _select_deliveries(account_id: UUID) -> QuerySet[Delivery]:
    mine = Q(channel__in=Channel.everything.filter(account=account_id))
    return Delivery.objects.filter(mine).select_related("event", "channel")


def _lock_channel(row: Channel) -> Channel:
    """The channel as it is now, until the transaction ends. Raises `NotFound` for a deleted one."""
    found = Channel.objects.select_for_update(no_key=True).filter(pk=row.pk).first()
    if found is None:
        raise NotFound
    return found


def _set_destination(row: Channel, url: str | None, recipients: list[str] | None) -> None:
    """Raises `SchemaInvalid`."""
    is_email = row.type == Channel.Type.EMAIL
    needed, other = ("recipients", "url") if is_email else ("url", "recipients")
    given = {"url": url, "recipients": recipients}
    if given[other] is not None:
        text = f"Invalid input: a channel of type {row.type} has no {other}"
        raise UnfitField([Issue(other, text)])
    if not given[needed]:
        raise UnfitField([Issue(needed, f"Invalid input: type {row.type} needs {needed}")])
    if is_email:
        if not has_mail_server():
            raise NoMailServer
        row.label = ", ".join(recipients or ())[:300]
        return
    assert url is not None
    try:
        target = parse_channel_url(url)
    except TargetRefused as error:
        raise SchemaInvalid([Issue("url", f"Invalid input: {error}")]) from None
    row.sealed_url = seal_url(row.pk, url)
    # The path may be the secret, as with Slack.
    row.label = f"{target.origin.scheme}://{target.origin.host_header}/..."


def _set_new_secret(row: Channel) -> str:
    raw = secrets.token_bytes(_SECRET_BYTES)
    secret = f"whsec_{base64.b64encode(raw).decode()}"
    row.sealed_secret = seal_secret(row.pk, secret)
    return secret
