"""Destinations: the fields of bodies and objects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.views.schemas.fields import Id, KeyHash, each_once
from gateway.http.jsonio import JsonObject
from gateway.http.resources import OpenObject, ResourceObject, enum
from routing.destinations.filters import FilterRules
from routing.destinations.models import REGIONS
from routing.destinations.senders import SENDERS
from routing.destinations.services import DestinationDetails, find_sender

_KEYS_MAX: Final = 1_000
_CONFIG: Final = (
    "By type, see `docs/reference/destinations.md`. Secrets and values of headers are answered "
    "masked (`****AbCd`)."
)
_KEYS: Final = "Keys of the account whose requests are sent; null for all of the workspace's."
_SAMPLING: Final = (
    "The share that is sent: of sessions, and of generations without one. A session is sent as a "
    "whole or not at all."
)
_PRIVACY: Final = "Sends no prompts and no answers."

_Hashes = Annotated[
    list[KeyHash], Field(min_length=1, max_length=_KEYS_MAX), AfterValidator(each_once)
]


_Regions = Annotated[
    list[Literal["global", "europe", "us"]], Field(min_length=1), AfterValidator(each_once)
]


class _Settings(BaseModel):
    """What may be set and changed, in the order in which it is refused."""

    name: str = Field(min_length=1, max_length=255)
    config: OpenObject = Field(description=_CONFIG)
    enabled: bool = True
    privacy_mode: bool = Field(False, description=_PRIVACY)
    sampling_rate: float = Field(1, ge=0.0001, le=1, description=_SAMPLING)
    api_key_hashes: _Hashes | None = Field(None, description=_KEYS)
    filter_rules: FilterRules | None = Field(
        None, description="What is sent; null for everything. All groups have to hold."
    )
    regions: _Regions = Field(
        [*REGIONS], description="Data regions by whose hosts a request may have come."
    )
    broadcast_generation_cost: bool = Field(
        False, description="Adds the charge, the provider's cost, and whether a key was brought."
    )
    broadcast_generation_cost_allocation: bool = Field(
        False, description="Adds what prompt and answer cost, where that adds up to the cost."
    )
    broadcast_generation_identity: bool = Field(
        False, description="Adds workspace, key (number and name) and the user who made the key."
    )
    broadcast_generation_request_context: bool = Field(
        False, description="Adds request id, format, application, user agent and streaming."
    )


class _Place(BaseModel):
    workspace_id: Id | None = Field(None, description="The default workspace if absent.")


class _Type(BaseModel):
    type: Annotated[str, enum(SENDERS)]


# Fields are refused in their order, which is that of the bases from the last to the first.
class NewDestination(ManagedBody, _Place, _Settings, _Type):
    """What a new destination is made of."""


class DestinationChanges(ManagedChanges, _Settings):
    """What may change of a destination; what is left out stays. So do masked and absent values of
    its config; null removes one."""

    name: str = Field("", min_length=1, max_length=255)
    config: OpenObject = Field({}, description=_CONFIG)


class DestinationObject(ResourceObject):
    """A receiver of a workspace's generations."""

    model_config = ConfigDict(title="Destination")

    id: UUID
    type: Annotated[str, enum(SENDERS)]
    name: str
    workspace_id: UUID
    config: OpenObject = Field(description=_CONFIG)
    enabled: bool = Field(description="False too after 100 traces in a row were dropped.")
    privacy_mode: bool = Field(description=_PRIVACY)
    sampling_rate: float = Field(description=_SAMPLING)
    api_key_hashes: list[KeyHash] | None = Field(description=_KEYS)
    filter_rules: OpenObject | None = Field(description="As they were given, with `enabled`.")
    regions: list[Literal["global", "europe", "us"]]
    broadcast_generation_cost: bool
    broadcast_generation_cost_allocation: bool
    broadcast_generation_identity: bool
    broadcast_generation_request_context: bool
    created_at: datetime
    updated_at: datetime


class ConnectionTestObject(ResourceObject):
    """What a receiver made of an empty request."""

    model_config = ConfigDict(title="DestinationTest")

    passed: bool = Field(description="It answered 2xx or 400.")
    status: int | None = Field(description="Its status; null where no answer came.")
    message: str


def read_new_destination(body: Mapping[str, Any]) -> JsonObject:
    """The fields of a new destination by name. Raises `UnsupportedType` before anything else that
    is wrong, and `SchemaInvalid`."""
    if isinstance(type_name := body.get("type"), str):
        find_sender(type_name)
    return NewDestination.read(body).model_dump()


def serialize_destination(details: DestinationDetails) -> JsonObject:
    """The JSON of a `DestinationObject`."""
    return DestinationObject.from_row(
        details.row, config=details.config, api_key_hashes=details.key_hashes
    )
