"""/observability/destinations: receivers of a workspace's generations, managed with one of the
account's management keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from accounts.caller import Caller
from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.services.records import key_actor
from accounts.views.managed import (
    PAGE,
    WORKSPACE_ID,
    ManagedViewSet,
    describe_operations,
    managed_body,
    read_id,
    read_workspace_id,
)
from accounts.views.schemas.fields import Id, KeyHash, drop_repetitions
from gateway.database.db import Lane, run_queries
from gateway.http.jsonio import JsonObject
from gateway.http.paging import parse_page
from gateway.http.resources import OpenObject, ResourceObject, enum
from gateway.http.responses import json_response
from gateway.openapi.components import UUID_TEXT, answer_of, deletion_of, list_of
from routing.destinations import services
from routing.destinations.delivery import try_connection
from routing.destinations.filters import FilterRules
from routing.destinations.models import REGIONS, Destination
from routing.destinations.senders import SENDERS

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
    list[KeyHash], Field(min_length=1, max_length=_KEYS_MAX), AfterValidator(drop_repetitions)
]
_Regions = Annotated[
    list[Literal["global", "europe", "us"]], Field(min_length=1), AfterValidator(drop_repetitions)
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
        services.find_sender(type_name)
    return NewDestination.read(body).model_dump()


def serialize_destination(details: services.DestinationDetails) -> JsonObject:
    """The JSON of a `DestinationObject`."""
    return DestinationObject.from_row(
        details.row, config=details.config, api_key_hashes=details.key_hashes
    )


_ID: Final = OpenApiParameter(
    "destination", UUID_TEXT, OpenApiParameter.PATH, description="The destination's id."
)
_operation = describe_operations("Observability", 400, path=[_ID])


class DestinationsViewSet(ManagedViewSet):
    """Management keys only."""

    @_operation(
        "listDestinations",
        "List destinations",
        "The workspace's destinations, newest first.",
        list_of(DestinationObject),
        parameters=[*PAGE, WORKSPACE_ID],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        page, workspace_id = parse_page(request.GET), read_workspace_id(request.GET)
        return self.answer_page(
            lambda: services.list_destinations(
                account_id=caller.account_id, workspace_id=workspace_id, page=page
            ),
            serialize_destination,
        )

    @_operation(
        "createDestination",
        "Add a destination",
        "The new destination. A workspace has at most five of each type; the sixth is 409.",
        answer_of(DestinationObject),
        409,
        success=201,
        body=NewDestination,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        fields = read_new_destination(managed_body(request))
        made = run_queries(
            Lane.OPERATOR,
            lambda: services.create_destination(
                account_id=caller.account_id, by=key_actor(caller), **fields
            ),
        )
        return json_response({"data": serialize_destination(made)}, status=201)

    @_operation(
        "getDestination",
        "Get a destination",
        "The destination of that id.",
        answer_of(DestinationObject),
        404,
    )
    def retrieve(self, request: HttpRequest, destination: str) -> HttpResponseBase:
        caller = self.manager(request)
        destination_id = read_id(destination)
        details = run_queries(
            Lane.READ,
            lambda: services.load_details(
                services.find_destination(caller.account_id, destination_id)
            ),
        )
        return json_response({"data": serialize_destination(details)})

    @_operation(
        "updateDestination",
        "Change a destination",
        "The destination with the fields given changed. Deliveries follow within seconds.",
        answer_of(DestinationObject),
        404,
        body=DestinationChanges,
    )
    def partial_update(self, request: HttpRequest, destination: str) -> HttpResponseBase:
        caller = self.manager(request)
        destination_id = read_id(destination)
        changes = DestinationChanges.read_changes(managed_body(request))
        changed = run_queries(
            Lane.OPERATOR,
            lambda: services.change_destination(
                account_id=caller.account_id,
                destination_id=destination_id,
                changes=changes,
                by=key_actor(caller),
            ),
        )
        return json_response({"data": serialize_destination(changed)})

    @_operation(
        "deleteDestination",
        "Delete a destination",
        "Gone, with its secrets. What waits for it is not sent any more.",
        deletion_of(DestinationObject),
        404,
    )
    def destroy(self, request: HttpRequest, destination: str) -> HttpResponseBase:
        caller, row = self._load(request, destination)
        run_queries(
            Lane.OPERATOR, lambda: services.delete_destination(row=row, by=key_actor(caller))
        )
        return json_response({"deleted": True})

    @_operation(
        "testDestination",
        "Test a destination's connection",
        "What the receiver says to a request without traces and with the header "
        "`X-Test-Connection: true`. 2xx and 400 pass. To S3 an object is written.",
        answer_of(ConnectionTestObject),
        404,
    )
    def test(self, request: HttpRequest, destination: str) -> HttpResponseBase:
        _, row = self._load(request, destination)
        return json_response({"data": try_connection(row)._asdict()})

    def _load(self, request: HttpRequest, destination: str) -> tuple[Caller, Destination]:
        caller = self.manager(request)
        destination_id = read_id(destination)
        return caller, run_queries(
            Lane.READ, lambda: services.find_destination(caller.account_id, destination_id)
        )
