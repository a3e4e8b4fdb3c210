"""/byok: a team's own credentials at providers, managed with one of the account's keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiParameter
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from accounts.byok import KEY_CHARS_MAX, InvalidProviderKey, clean_key
from accounts.caller import Caller
from accounts.limit_words import ManagedBody, ManagedChanges
from accounts.models import ByokCredential
from accounts.ports import higher_apps
from accounts.services import byok
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
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.paging import Page, parse_page
from gateway.http.resources import ResourceObject
from gateway.http.responses import json_response
from gateway.http.validation import Issue, shorten
from gateway.openapi.components import UUID_TEXT, answer_of, deletion_of, list_of

_LISTED_MAX: Final = 100


def _clean_key(text: str) -> str:
    try:
        return clean_key(text)
    except InvalidProviderKey:
        raise PydanticCustomError(
            "no_key", "Invalid input: expected visible ASCII characters or a JSON object"
        ) from None


def _refuse_declaration(value: object) -> None:
    if value is not None:
        raise PydanticCustomError(
            "undeclared", "Invalid input: this is not declared here; the catalogue says it"
        )


_UNDECLARED: Final = "What the catalogue says of an endpoint holds for every credential."
_MODELS: Final = "Models that it is for; null for all."
_KEYS: Final = "Keys of the account that it is for; null for all."
_USERS: Final = "Users whose keys it is for; null for all keys, also those of nobody."

_Undeclared = Annotated[
    None, BeforeValidator(_refuse_declaration), Field(exclude=True, description=_UNDECLARED)
]
_Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=KEY_CHARS_MAX,
        description="The provider's key, or a JSON object as text; shown to nobody again. "
        "The provider is asked about it first: what it refuses is refused here.",
        json_schema_extra={"writeOnly": True},
    ),
    AfterValidator(_clean_key),
]
_Words = Annotated[list[str], Field(max_length=_LISTED_MAX), AfterValidator(drop_repetitions)]
_Hashes = Annotated[
    list[KeyHash], Field(min_length=1, max_length=_LISTED_MAX), AfterValidator(drop_repetitions)
]


class _KeyAndName(BaseModel):
    key: _Key
    name: Annotated[str, Field(max_length=255)] | None = None


class _InWorkspace(BaseModel):
    workspace_id: Id | None = Field(None, description="The default workspace if absent.")


class _Use(BaseModel):
    """Which requests a credential serves."""

    disabled: bool = False
    is_fallback: bool = Field(
        False, description="Tried after the gateway's own credentials rather than before."
    )
    is_required: bool = Field(
        False,
        description="The models that it is for are not served on the gateway's own credential.",
    )
    is_byok_only: bool = Field(
        False, description="Nothing of the provider is. Not for a fallback credential."
    )
    declared_zdr: _Undeclared = None
    declared_region: _Undeclared = None
    allowed_models: _Words | None = Field(None, description=_MODELS)
    allowed_api_key_hashes: _Hashes | None = Field(None, description=_KEYS)
    allowed_user_ids: _Words | None = Field(None, description=_USERS)


class _OfProvider(BaseModel):
    provider: str = Field(description="A slug of GET /providers.")


# Fields are refused in their order, which is that of the bases from the last to the first.
class NewByokCredential(ManagedBody, _Use, _InWorkspace, _KeyAndName, _OfProvider):
    """What a new credential is made of."""


class ByokCredentialChanges(ManagedChanges, _Use, _KeyAndName):
    """What may change of a credential; what is left out stays."""

    key: _Key = ""


class ByokCredentialObject(ResourceObject):
    """A team's own credential at a provider. The key itself is in none of its fields."""

    model_config = ConfigDict(title="ByokCredential")

    id: UUID
    provider: str
    name: str | None
    label: str = Field(description="The key, masked: `sk-...AbCd`.")
    workspace_id: UUID | None = Field(description="Null: all workspaces of the account.")
    disabled: bool
    is_fallback: bool
    is_required: bool
    is_byok_only: bool
    declared_zdr: None = Field(description=_UNDECLARED)
    declared_region: None = Field(description=_UNDECLARED)
    sort_order: int = Field(ge=0, description="Its turn among the others of its section.")
    allowed_models: _Words | None = Field(description=_MODELS)
    allowed_api_key_hashes: Annotated[list[KeyHash], Field(max_length=_LISTED_MAX)] | None = Field(
        description=_KEYS
    )
    allowed_user_ids: _Words | None = Field(description=_USERS)
    created_at: datetime


class CredentialQuery(NamedTuple):
    """Without a workspace the default one is meant, without a provider all of them."""

    page: Page
    workspace_id: UUID | None
    provider: str | None


def read_new_credential(body: Mapping[str, Any]) -> JsonObject:
    """The fields of a new credential by name; its key is cleaned. Raises `SchemaInvalid`."""
    fields = NewByokCredential.read(body).model_dump()
    if not higher_apps().is_known_provider(fields["provider"]):
        text = f"Invalid input: {shorten(fields['provider'])} is no provider of the catalogue"
        raise SchemaInvalid([Issue("provider", text)])
    return fields


def read_query(query: Mapping[str, str]) -> CredentialQuery:
    """What a list asks for. Raises `SchemaInvalid`."""
    provider = query.get("provider", "")
    if "\0" in provider:
        raise SchemaInvalid([Issue("provider", "Invalid input: expected visible characters")])
    page, workspace_id = parse_page(query), read_workspace_id(query)
    return CredentialQuery(page, workspace_id, None if provider in {"", "null"} else provider)


def serialize_credential(details: byok.CredentialDetails) -> JsonObject:
    """The JSON of a `ByokCredentialObject`."""
    return ByokCredentialObject.from_row(
        details.row,
        declared_zdr=None,
        declared_region=None,
        allowed_api_key_hashes=details.key_hashes,
    )


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
