"""/oauth/token and /oauth/jwks: tokens of the gateway's own for programs without a key."""

import time
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiResponse, extend_schema
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from accounts.authentication import authenticate_credential
from accounts.identity import own_tokens
from accounts.identity.own_tokens import LIFETIME_MAX_S
from accounts.identity.workloads import TOKEN_CHARS_MAX
from accounts.keystring import is_token
from accounts.services.attempts import record_attempt
from accounts.services.records import key_actor
from accounts.views.managed import ManagedViewSet, managed_body
from gateway.http.body import read_body
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject
from gateway.http.resources import Body, ResourceObject
from gateway.http.responses import json_response
from gateway.http.tags import NO_TAGS
from gateway.http.validation import Issue
from gateway.openapi.components import NO_KEY, Component, add_description, array, component, obj
from gateway.openapi.errors import error_responses

_TAG: Final = "OAuth"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - A type's name.
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - A type's name.
_FORM: Final = "application/x-www-form-urlencoded"
_TOKENS: Final = {_JWT, _ID_TOKEN}
_KEYS: Final = Component(
    "PublicKeys",
    obj({"keys": array(add_description({"type": "object"}, "A key as RFC 7517 has it."))}),
)


# Of RFC 8693, by which a token is good for less.
_NARROWING: Final = frozenset({"scope", "audience", "resource"})


class TokenExchange(Body):
    """What a program has, to be exchanged for a token of the gateway."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"]
    subject_token: Annotated[str, Field(min_length=1, max_length=TOKEN_CHARS_MAX)] = Field(
        description="A token of a trusted issuer, or a key."
    )
    subject_token_type: Literal[
        "urn:ietf:params:oauth:token-type:jwt",
        "urn:ietf:params:oauth:token-type:id_token",
        "urn:ietf:params:oauth:token-type:access_token",
    ] = Field(description="`…:access_token` for a key.")
    requested_token_type: (
        Literal[
            "urn:ietf:params:oauth:token-type:access_token",
            "urn:ietf:params:oauth:token-type:jwt",
        ]
        | None
    ) = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_narrowing(cls, body: Any) -> Any:
        """Refuse to give a caller that asks for less all that the key may do."""
        names = _NARROWING & body.keys() if isinstance(body, dict) else ()
        for name in sorted(names):
            text = f'Unrecognized key: "{name}"; the token may do what the key may'
            raise PydanticCustomError("narrowing", "{text}", {"text": text})
        return body


class ExchangedToken(ResourceObject):
    """A token that stands for the key, sent as `Authorization: Bearer`."""

    access_token: str
    issued_token_type: str
    token_type: Literal["Bearer"]
    expires_in: int = Field(description=f"Seconds, {LIFETIME_MAX_S} at most.")


class TokensViewSet(ManagedViewSet):
    """Open to tokens of trusted issuers, and to keys."""

    secret_answers = frozenset({"create"})

    @extend_schema(
        operation_id="exchangeToken",
        summary="Exchange a token for one of the gateway",
        description="RFC 8693. A token of an issuer that an account trusts, or a key, becomes a "
        "token that stands for the same key for a quarter of an hour at most, and no longer than "
        "what it was made of. It may do what the key may: `scope`, `audience` and `resource` are "
        "refused. Takes no credential but the one in its body.",
        tags=[_TAG],
        auth=NO_KEY,
        request={
            "application/json": component(TokenExchange),
            _FORM: component(TokenExchange),
        },
        responses={
            200: OpenApiResponse(component(ExchangedToken), description="The token."),
            **error_responses(400, 401, 403, 413, 429, 500, 503),
        },
    )
    def create(self, request: HttpRequest) -> HttpResponseBase:
        # A form as RFC 8693 has it, or JSON.
        kind = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if kind == _FORM:
            raw: Any = read_body(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)
            fields: JsonObject = dict(parse_qsl(bytes(raw).decode("utf-8", "replace")))
        else:
            fields = managed_body(request)
        body = TokenExchange.read(fields)
        if is_token(body.subject_token) != (body.subject_token_type in _TOKENS):
            raise SchemaInvalid([Issue("subject_token", "Invalid input: not of this type")])
        caller, token = authenticate_credential(request, body.subject_token)
        lifetime_s, tags, origin = own_tokens.LIFETIME_MAX_S, NO_TAGS, None
        if token is not None:
            lifetime_s = max(1, min(lifetime_s, int(token.expires_at - time.time())))
            tags, origin = token.tags, token.origin
        answer = {
            "access_token": own_tokens.issue(
                caller.key_hash, lifetime_s=lifetime_s, tags=tags, origin=origin
            ),
            "issued_token_type": body.requested_token_type or _ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": lifetime_s,
        }
        record_attempt(
            "exchanged",
            object_type="token",
            object_id=caller.key_id,
            account_id=caller.account_id,
            by=key_actor(caller),
        )
        response = json_response(answer)
        response["Cache-Control"] = "no-store"
        return response


class PublicKeysViewSet(ManagedViewSet):
    """Anybody."""

    @extend_schema(
        operation_id="listPublicKeys",
        summary="List keys that verify the gateway's tokens",
        description="As RFC 7517 has them. Takes no credential.",
        tags=[_TAG],
        auth=NO_KEY,
        responses={200: OpenApiResponse(_KEYS, description="The keys."), **error_responses(500)},
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        return json_response({"keys": own_tokens.list_public_keys()})
