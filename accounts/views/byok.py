"""/byok: a team's own credentials at providers, managed with one of the account's keys."""

from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter

from accounts.caller import Caller
from accounts.models import ByokCredential
from accounts.services import byok
from accounts.services.records import key_actor
from accounts.views.managed import (
    PAGE,
    WORKSPACE_ID,
    ManagedViewSet,
    describe_operations,
    managed_body,
    read_id,
)
from accounts.views.schemas.byok import (
    ByokCredentialChanges,
    ByokCredentialObject,
    NewByokCredential,
    read_new_credential,
    read_query,
    serialize_credential,
)
from gateway.database.db import Lane, run_queries
from gateway.http.responses import json_response
from gateway.openapi.components import UUID_TEXT, answer_of, deletion_of, list_of

_ID: Final = OpenApiParameter(
    "credential", UUID_TEXT, OpenApiParameter.PATH, description="The credential's id."
)
_PROVIDER: Final = OpenApiParameter(
    "provider", str, description="A provider's slug; all providers without."
)
_operation = describe_operations("BYOK", 400, path=[_ID])


class ByokViewSet(ManagedViewSet):
    """Credentials of the account. Providers are asked about keys outside of any query."""

    @_operation(
        "listByokCredentials",
        "List credentials",
        "What serves a workspace, credentials for all workspaces among them, newest first.",
        list_of(ByokCredentialObject),
        parameters=[*PAGE, WORKSPACE_ID, _PROVIDER],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        query = read_query(request.GET.dict())
        return self.answer_page(
            lambda: byok.list_credentials(account_id=caller.account_id, **query._asdict()),
            serialize_credential,
        )

    @_operation(
        "createByokCredential",
        "Bring a credential",
        "The new credential, last in its section.",
        answer_of(ByokCredentialObject),
        success=201,
        body=NewByokCredential,
        parameters=[],
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        fields = read_new_credential(managed_body(request))
        trial = byok.check_with_provider(fields["provider"], fields["key"])
        row = run_queries(
            Lane.OPERATOR,
            lambda: byok.create_credential(
                account_id=caller.account_id, trial=trial, by=key_actor(caller), **fields
            ),
        )
        return json_response({"data": serialize_credential(row)}, status=201)

    @_operation(
        "getByokCredential",
        "Get a credential",
        "The credential of that id.",
        answer_of(ByokCredentialObject),
        404,
    )
    def retrieve(self, request: HttpRequest, credential: str) -> HttpResponseBase:
        caller = self.manager(request)
        credential_id = read_id(credential)
        row = run_queries(
            Lane.READ,
            lambda: byok.load_details(byok.find_credential(caller.account_id, credential_id)),
        )
        return json_response({"data": serialize_credential(row)})

    @_operation(
        "updateByokCredential",
        "Change a credential",
        "The credential with the fields given changed; a new key takes the old one's place. "
        "Requests follow within a second.",
        answer_of(ByokCredentialObject),
        404,
        409,
        body=ByokCredentialChanges,
    )
    def partial_update(self, request: HttpRequest, credential: str) -> HttpResponseBase:
        caller, row = self._load(request, credential)
        changes = ByokCredentialChanges.read_changes(managed_body(request))
        key = changes.pop("key", None)
        trial = None if key is None else byok.check_with_provider(row.provider, key)
        changed = run_queries(
            Lane.OPERATOR,
            lambda: byok.change_credential(
                row=row, changes=changes, by=key_actor(caller), key=key, trial=trial
            ),
        )
        return json_response({"data": serialize_credential(changed)})

    @_operation(
        "deleteByokCredential",
        "Delete a credential",
        "Gone, its key for good.",
        deletion_of(ByokCredentialObject),
        404,
    )
    def destroy(self, request: HttpRequest, credential: str) -> HttpResponseBase:
        caller, row = self._load(request, credential)
        run_queries(Lane.OPERATOR, lambda: byok.delete_credential(row=row, by=key_actor(caller)))
        return json_response({"deleted": True})

    def _load(self, request: HttpRequest, credential: str) -> tuple[Caller, ByokCredential]:
        caller = self.manager(request)
        credential_id = read_id(credential)
        return caller, run_queries(
            Lane.READ, lambda: byok.find_credential(caller.account_id, credential_id)
        )
