"""/observability/destinations: receivers of a workspace's generations, managed with one of the
account's management keys."""

from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.caller import Caller
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
from gateway.database.db import Lane, run_queries
from gateway.http.paging import parse_page
from gateway.http.responses import json_response
from gateway.openapi.components import UUID_TEXT, answer_of, deletion_of, list_of
from routing.destinations import services
from routing.destinations.delivery import try_connection
from routing.destinations.models import Destination
from routing.views.schemas.destinations import (
    ConnectionTestObject,
    DestinationChanges,
    DestinationObject,
    NewDestination,
    read_new_destination,
    serialize_destination,
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
        rows, total = run_queries(
            Lane.READ,
            lambda: services.list_destinations(
                account_id=caller.account_id, workspace_id=workspace_id, page=page
            ),
        )
        return json_response({"data": list(map(serialize_destination, rows)), "total_count": total})

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
