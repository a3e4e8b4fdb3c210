"""How an event reaches a channel: as an e-mail, a signed webhook, or a message in Slack."""

import time
from datetime import datetime
from ipaddress import ip_address
from smtplib import SMTPException, SMTPResponseException
from typing import Final
from uuid import UUID

import orjson
from django.conf import settings
from django.core.mail import EmailMessage
from standardwebhooks import Webhook

from accounts.models import Channel, Delivery, Event
from gateway.http.jsonio import JsonObject, format_time
from gateway.outbound.doors import door_for, is_public
from gateway.outbound.errors import OutboundError
from gateway.outbound.http_client import Limits
from gateway.outbound.targets import Target, TargetRefused, split_url, target_of
from gateway.sealing import UnsealError, seal, unseal

URL_PURPOSE: Final = "channel-url"
SECRET_PURPOSE: Final = "channel-secret"  # noqa: S105 - What is sealed, not a secret.
_TOTAL_S: Final = 10.0
_LIMITS: Final = Limits(5.0, _TOTAL_S, _TOTAL_S, 64 * 1024)
_SLACK_MARKS: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_NO_MAIL: Final = "django.core.mail.backends.dummy.EmailBackend"


class SendFailed(Exception):
    """A message that did not arrive. The text says why, without the URL; `status` is what the
    receiver answered, if it did."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


def has_mail_server() -> bool:
    """Whether this gateway sends e-mail at all."""
    return settings.EMAIL_BACKEND != _NO_MAIL


def parse_channel_url(url: str) -> Target:
    """Where a channel's URL leads. Raises `TargetRefused`.

    Names are looked up when something is sent, and their addresses judged then.
    """
    target = target_of(*split_url(url))
    if target.host in settings.NOTIFICATION_PRIVATE_HOSTS:
        return target
    if not target.origin.is_tls:
        raise TargetRefused("The URL begins with https://")
    try:
        ip_address(target.host)
    except ValueError:
        return target
    if not is_public(target.host):
        raise TargetRefused("This address is not public")
    return target


def seal_url(channel_id: UUID, url: str) -> str:
    return seal(url, purpose=URL_PURPOSE, row=str(channel_id))


def seal_secret(channel_id: UUID, secret: str) -> str:
    return seal(secret, purpose=SECRET_PURPOSE, row=str(channel_id))


def send(delivery: Delivery, *, now: datetime) -> int | None:
    """Send a delivery's event; the status of the answer, None for e-mail. Raises `SendFailed`."""
    channel, event = delivery.channel, delivery.event
    if channel.type == Channel.Type.EMAIL:
        _send_email(channel, event)
        return None
    try:
        if channel.type == Channel.Type.SLACK:
            title, text = (part.translate(_SLACK_MARKS) for part in (event.title, event.text))
            body = orjson.dumps({"text": f"*{title}*\n{text}"})
            return _post(channel, body, [])
        body = orjson.dumps(build_payload(event))
        secret = unseal(channel.sealed_secret, purpose=SECRET_PURPOSE, row=str(channel.pk))
        # The headers of Standard Webhooks. The id stays the same for each try, so that a receiver
        # can tell one that it has seen.
        message_id = f"msg_{delivery.pk.hex}"
        headers = [
            ("webhook-id", message_id),
            ("webhook-timestamp", str(int(now.timestamp()))),
            ("webhook-signature", Webhook(secret).sign(message_id, now, body.decode())),
        ]
        return _post(channel, body, headers)
    except UnsealError:
        raise SendFailed("The channel was sealed under another master key") from None


def build_payload(event: Event) -> JsonObject:
    """What a webhook brings, in the form that Standard Webhooks recommends."""
    return {
        "type": event.kind,
        "timestamp": format_time(event.at),
        "data": {
            "event_id": str(event.pk),
            "title": event.title,
            "text": event.text,
            "account_id": str(event.account_id) if event.account_id else None,
            "workspace_id": str(event.workspace_id) if event.workspace_id else None,
            "details": event.data,
        },
    }


def _send_email(channel: Channel, event: Event) -> None:
    if not has_mail_server():
        raise SendFailed("This gateway has no mail server (EMAIL_URL)")
    message = EmailMessage(
        # Names in it may have line breaks, which no header may.
        subject=f"[Routing Gateway] {' '.join(event.title.split())}",
        body=f"{event.text}\n\n{format_time(event.at)} {event.kind} {event.pk}\n",
        to=channel.recipients,
    )
    try:
        message.send()
    except SMTPResponseException as error:
        # Its own words may quote the address of somebody.
        raise SendFailed(f"The mail server answered {error.smtp_code}") from error
    except (SMTPException, OSError, ValueError) as error:
        # A `ValueError` is a message that cannot be written, for one because of a recipient.
        raise SendFailed(f"The mail server: {type(error).__name__}") from error


def _post(channel: Channel, body: bytes, headers: list[tuple[str, str]]) -> int:
    """Raises `SendFailed` and `UnsealError`. No redirect is followed."""
    url = unseal(channel.sealed_url, purpose=URL_PURPOSE, row=str(channel.pk))
    try:
        # The settings may have changed since the channel was made.
        target = parse_channel_url(url)
        reply = door_for(target.host, private=settings.NOTIFICATION_PRIVATE_HOSTS).send(
            target.origin,
            method="POST",
            path=target.path,
            headers=[
                ("Content-Type", "application/json"),
                ("User-Agent", f"routing-gateway/{settings.GATEWAY_VERSION}"),
                *headers,
            ],
            body=body,
            limits=_LIMITS,
            deadline=time.monotonic() + _TOTAL_S,
        )
    except (OutboundError, TargetRefused) as error:
        raise SendFailed(f"No answer: {error}") from error
    with reply:
        status = reply.status
    if not 200 <= status < 300:
        raise SendFailed(f"The receiver answered {status}", status)
    return status
