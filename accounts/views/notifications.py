"""/notifications: where events are sent to, what happened, and what became of each message."""

from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.caller import Caller
from accounts.models import Channel
from accounts.services import channels
from accounts.services.records import key_actor
from accounts.views.managed import PAGE, ManagedViewSet, describe_operations, managed_body, read_id
from accounts.views.schemas.notification import (
    NewNotificationChannel,
    NotificationChannelChanges,
    NotificationChannelObject,
    NotificationDeliveryObject,
    NotificationEventObject,
    read_delivery_query,
    serialize_channel,
    serialize_delivery,
    serialize_event,
)
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.openapi.components import (
    TEXT,
    UUID_TEXT,
    Component,
    add_description,
    answer_of,
    deletion_of,
    list_of,
    nullable,
    obj,
)

_CHANNEL: Final = OpenApiParameter(
    "channel", UUID_TEXT, OpenApiParameter.PATH, description="The channel's id."
)
_DELIVERY: Final = OpenApiParameter(
    "delivery", UUID_TEXT, OpenApiParameter.PATH, description="The delivery's id."
)
_FILTERS: Final = (
    OpenApiParameter("channel_id", UUID_TEXT, description="Those of one channel."),
    OpenApiParameter("state", str, enum=["pending", "delivered", "failed"]),
)
_SECRET: Final = add_description(
    nullable(TEXT), "What verifies webhooks, by Standard Webhooks; shown this once."
)
_WITH_SECRET: Final = Component(
    "NotificationChannelWithSecret", obj({"data": NotificationChannelObject, "secret": _SECRET})
)
_operation = describe_operations("Notifications", 400, path=[_CHANNEL])


class ChannelsViewSet(ManagedViewSet):
    """Channels of the key's own account."""

    secret_answers = frozenset({"create", "partial_update", "rotate"})

    @_operation(
        "listNotificationChannels",
        "List channels",
        "The account's channels, newest first.",
        list_of(NotificationChannelObject),
        parameters=PAGE,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page = parse_page(request.GET)
        return self.answer_page(
            lambda: channels.list_channels(caller.account_id, page),
            serialize_channel,
        )

    @_operation(
        "createNotificationChannel",
        "Create a channel",
        "The new channel, and the secret of a webhook, which is in this answer and never again.",
        _WITH_SECRET,
        success=201,
        body=NewNotificationChannel,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        fields = NewNotificationChannel.read(managed_body(request)).model_dump()
        made = run_queries(
            Lane.OPERATOR,
            lambda: channels.create_channel(
                account_id=caller.account_id, by=key_actor(caller), **fields
            ),
        )
        return json_response(_with_secret(made.row, made.secret), status=201)

    @_operation(
        "getNotificationChannel",
        "Get a channel",
        "The channel of that id.",
        answer_of(NotificationChannelObject),
        404,
    )
    def retrieve(self, request: HttpRequest, channel: str) -> HttpResponseBase:
        _, row = self._load(request, channel)
        return json_response({"data": serialize_channel(row)})

    @_operation(
        "updateNotificationChannel",
        "Change a channel",
        "The channel with the fields given changed. A webhook whose URL leads to another host gets "
        "a new secret, which is in this answer and never again; else `secret` is null.",
        _WITH_SECRET,
        404,
        body=NotificationChannelChanges,
    )
    def partial_update(self, request: HttpRequest, channel: str) -> HttpResponseBase:
        caller, row = self._load(request, channel)
        changes = NotificationChannelChanges.read_changes(managed_body(request))
        changed = run_queries(
            Lane.OPERATOR,
            lambda: channels.change_channel(row=row, changes=changes, by=key_actor(caller)),
        )
        return json_response(_with_secret(*changed))

    @_operation(
        "deleteNotificationChannel",
        "Delete a channel",
        "Nothing is sent to it any more; what was sent stays listed.",
        deletion_of(NotificationChannelObject),
        404,
    )
    def destroy(self, request: HttpRequest, channel: str) -> HttpResponseBase:
        caller, row = self._load(request, channel)
        run_queries(Lane.OPERATOR, lambda: channels.delete_channel(row=row, by=key_actor(caller)))
        return json_response({"deleted": True})

    @_operation(
        "rotateNotificationSecret",
        "Give a webhook a new secret",
        "The webhook and its new secret; the old one signs no longer.",
        _WITH_SECRET,
        404,
    )
    def rotate(self, request: HttpRequest, channel: str) -> HttpResponseBase:
        caller, row = self._load(request, channel)
        secret = run_queries(
            Lane.OPERATOR, lambda: channels.rotate_secret(row=row, by=key_actor(caller))
        )
        return json_response(_with_secret(row, secret))

    @_operation(
        "testNotificationChannel",
        "Send a test message",
        "The delivery of a test message, which is sent within seconds.",
        answer_of(NotificationDeliveryObject),
        404,
        success=201,
    )
    def test(self, request: HttpRequest, channel: str) -> HttpResponseBase:
        _, row = self._load(request, channel)
        made = run_queries(Lane.OPERATOR, lambda: channels.send_test_message(row))
        return json_response({"data": serialize_delivery(made)}, status=201)

    def _load(self, request: HttpRequest, channel: str) -> tuple[Caller, Channel]:
        caller = self.manager(request)
        channel_id = read_id(channel)
        return caller, run_queries(
            Lane.READ, lambda: channels.find_channel(caller.account_id, channel_id)
        )


class EventsViewSet(ManagedViewSet):
    """What happened in the key's own account."""

    @_operation(
        "listNotificationEvents",
        "List events",
        "What happened in the account, newest first, whether or not a channel wants it.",
        list_of(NotificationEventObject),
        parameters=PAGE,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page = parse_page(request.GET)
        return self.answer_page(
            lambda: channels.list_events(caller.account_id, page),
            serialize_event,
        )


class DeliveriesViewSet(ManagedViewSet):
    """Messages of the account's channels."""

    @_operation(
        "listNotificationDeliveries",
        "List deliveries",
        "What the account's channels were sent or are to be sent, newest first.",
        list_of(NotificationDeliveryObject),
        parameters=[*PAGE, *_FILTERS],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        query = read_delivery_query(request.GET.dict())
        return self.answer_page(
            lambda: channels.list_deliveries(caller.account_id, **query._asdict()),
            serialize_delivery,
        )

    @_operation(
        "resendNotificationDelivery",
        "Send a delivery again",
        "The delivery, which is tried at once and for a day from now on.",
        answer_of(NotificationDeliveryObject),
        404,
        parameters=[_DELIVERY],
    )
    def resend(self, request: HttpRequest, delivery: str) -> HttpResponseBase:
        caller = self.manager(request)
        delivery_id = read_id(delivery)
        row = run_queries(
            Lane.OPERATOR, lambda: channels.resend_delivery(caller.account_id, delivery_id)
        )
        return json_response({"data": serialize_delivery(row)})


def _with_secret(row: Channel, secret: str | None) -> JsonObject:
    return {"data": serialize_channel(row), "secret": secret}
