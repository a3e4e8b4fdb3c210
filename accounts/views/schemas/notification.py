"""Channels of notifications, events and deliveries: the fields of bodies and objects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from accounts.events.kinds import EventKind
from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.models import Channel, Delivery, Event
from accounts.views.managed import read_id
from accounts.views.schemas.fields import Id, drop_repetitions
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.paging import Page, parse_page
from gateway.http.resources import OpenObject, ResourceObject
from gateway.http.validation import Issue, describe_options
from gateway.outbound.targets import URL_CHARS_MAX

RECIPIENTS_MAX: Final = 20
_STATES: Final = ("pending", "delivered", "failed")
_KINDS: Final = "What it wants to hear of; null for everything."
_EMPTY: Final = {"", "null"}


def _check_email(text: str) -> str:
    try:
        validate_email(text)
    except ValidationError:
        raise PydanticCustomError("email", "Invalid email address") from None
    return text


_Email = Annotated[str, AfterValidator(_check_email), Field(json_schema_extra={"format": "email"})]
_Recipients = Annotated[
    list[_Email], Field(min_length=1, max_length=RECIPIENTS_MAX), AfterValidator(drop_repetitions)
]
_Kinds = Annotated[list[EventKind], Field(min_length=1), AfterValidator(drop_repetitions)]
_Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=URL_CHARS_MAX,
        description="Of a webhook or of Slack: https, and at a public address. It is not shown "
        "again.",
        json_schema_extra={"writeOnly": True},
    ),
]
ChannelType = Literal["email", "webhook", "slack"]


class _Settings(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=100)]
    kinds: _Kinds | None = Field(None, description=_KINDS)
    recipients: _Recipients | None = Field(None, description="Of e-mail: who gets it.")
    url: _Url | None = None
    disabled: bool = False


class _Place(BaseModel):
    type: ChannelType
    workspace_id: Id | None = Field(
        None, description="Only events of this workspace; all of the account's if absent."
    )


class NewNotificationChannel(ManagedBody, _Settings, _Place):
    """What a new channel is made of."""


class NotificationChannelChanges(ManagedChanges, _Settings):
    """What may change of a channel; what is left out stays."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = ""
    recipients: _Recipients = []
    url: _Url = ""


class NotificationChannelObject(ResourceObject):
    """Where events are sent to. Neither its URL nor its secret is in it."""

    model_config = ConfigDict(title="NotificationChannel")

    id: UUID
    name: str
    type: ChannelType
    workspace_id: UUID | None = Field(description="Null: all workspaces of the account.")
    kinds: _Kinds | None = Field(description=_KINDS)
    recipients: _Recipients | None
    label: str = Field(description="Where it leads: the recipients, or the host of its URL.")
    disabled: bool
    created_at: datetime
    updated_at: datetime | None


class NotificationEventObject(ResourceObject):
    """Something that happened."""

    model_config = ConfigDict(title="NotificationEvent")

    id: UUID
    kind: EventKind
    workspace_id: UUID | None
    title: str
    text: str = Field(description="What happened, and who can do something about it.")
    details: OpenObject = Field(description="The same for programs; amounts are in USD.")
    created_at: datetime


class NotificationDeliveryObject(ResourceObject):
    """An event on its way to a channel, and what came of it."""

    model_config = ConfigDict(title="NotificationDelivery")

    id: UUID
    channel_id: UUID
    event: NotificationEventObject
    state: Literal["pending", "delivered", "failed"]
    attempts: int = Field(ge=0)
    next_try_at: datetime | None = Field(description="Null unless it is pending.")
    answer_status: int | None = Field(description="The HTTP status of the receiver's last answer.")
    error: str | None = Field(description="Why the last try failed.")
    delivered_at: datetime | None
    created_at: datetime


class DeliveryQuery(NamedTuple):
    """Which deliveries a list asks for."""

    page: Page
    channel_id: UUID | None
    state: str | None


def read_delivery_query(query: Mapping[str, str]) -> DeliveryQuery:
    """Raises `SchemaInvalid`."""
    page = parse_page(query)
    channel, state = query.get("channel_id", ""), query.get("state", "")
    if state not in _EMPTY and state not in _STATES:
        raise SchemaInvalid([Issue("state", describe_options(list(_STATES)))])
    return DeliveryQuery(
        page,
        None if channel in _EMPTY else read_id(channel, "channel_id"),
        None if state in _EMPTY else state,
    )


def serialize_channel(row: Channel) -> JsonObject:
    """The JSON of a `NotificationChannelObject`."""
    return NotificationChannelObject.from_row(row)


def serialize_event(row: Event) -> JsonObject:
    """The JSON of a `NotificationEventObject`."""
    return NotificationEventObject.from_row(row, details=row.data, created_at=format_time(row.at))


def serialize_delivery(row: Delivery) -> JsonObject:
    """The JSON of a `NotificationDeliveryObject`, of a row with its event."""
    computed: JsonObject = {"event": serialize_event(row.event), "error": row.error or None}
    if row.state != Delivery.State.PENDING:
        computed["next_try_at"] = None
    return NotificationDeliveryObject.from_row(row, **computed)
