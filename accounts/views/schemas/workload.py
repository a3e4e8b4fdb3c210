"""The exchange of tokens: the fields of its body and of its answer."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from accounts.identity.own_tokens import LIFETIME_MAX_S
from accounts.identity.workloads import TOKEN_CHARS_MAX
from gateway.http.resources import Body, ResourceObject

EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - A type's name.
JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - A type's name.


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
        """Whoever asks for less than the key may do is not given all of it."""
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
