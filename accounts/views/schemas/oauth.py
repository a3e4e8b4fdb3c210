"""Apps and the codes that they exchange for keys: the fields of bodies and objects."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from accounts.limit_words import ManagedBody
from accounts.services.oauth import CALLBACK_CHARS_MAX, AppRequest, find_origin
from accounts.views.schemas.fields import Id, ResetInterval, Usd, nano_or_none
from accounts.views.schemas.key import Moment
from gateway.http.resources import Body, ResourceObject

CHALLENGE_CHARS_MAX: Final = 256
_LABEL_CHARS_MAX: Final = 100


def check_callback(url: str) -> str:
    """The URL, if apps may be sent to it."""
    try:
        find_origin(url)
    except ValueError:
        raise PydanticCustomError(
            "callback", "Invalid URL: expected https, or http on localhost or 127.0.0.1"
        ) from None
    return url


Method = Literal["S256", "plain"]
_Callback = Annotated[
    str,
    AfterValidator(check_callback),
    Field(
        max_length=CALLBACK_CHARS_MAX,
        description="https, or http on localhost or 127.0.0.1 with any port.",
    ),
]


class AppRequestFields(BaseModel):
    """What an app says of itself and of the key it wants, in a body or in the query of a page."""

    code_challenge: Annotated[str, Field(min_length=1, max_length=CHALLENGE_CHARS_MAX)] | None = (
        Field(None, description="base64url(SHA-256(verifier)) without padding, or the verifier.")
    )
    code_challenge_method: Method | None = Field(None, description="`plain` if absent.")
    key_label: Annotated[str, Field(max_length=_LABEL_CHARS_MAX)] | None = Field(
        None, description="The key's name; the app's name if absent."
    )
    limit: Usd | None = Field(None, description="USD; null for no limit.")
    usage_limit_type: ResetInterval | None = Field(None, description="When the limit begins anew.")
    expires_at: Moment | None = Field(
        None, description="UTC with seconds, `...:SSZ`; in the future."
    )

    def build_request(self, *, callback_url: str, app_name: str = "") -> AppRequest:
        """What the services take."""
        return AppRequest(
            callback_url=callback_url,
            challenge=self.code_challenge or "",
            method=(self.code_challenge_method or "plain") if self.code_challenge else "",
            key_label=self.key_label or "",
            app_name=app_name,
            limit_nano=nano_or_none(self.limit),
            limit_reset=self.usage_limit_type,
            expires_at=self.expires_at,
        )


class NewAuthorizationCode(ManagedBody, AppRequestFields):
    """What a code is to be exchanged for."""

    callback_url: _Callback
    workspace_id: Id | None = Field(
        None,
        description="Where the key will live: the workspace of the key that asks, for a "
        "management key the default workspace, if absent.",
    )

    @model_validator(mode="after")
    def _check_method(self) -> "NewAuthorizationCode":
        if self.code_challenge_method and not self.code_challenge:
            raise PydanticCustomError("no_challenge", "code_challenge_method needs code_challenge")
        return self


class AuthorizationCodeObject(ResourceObject):
    """A code that an app exchanges for a key: once, within ten minutes."""

    model_config = ConfigDict(title="AuthorizationCode")

    id: str = Field(description="The code, shown this once.")
    app_id: int
    created_at: datetime


class CodeExchange(Body):
    """The code, and what proves that it is the app's own."""

    code: str
    code_verifier: str | None = None
    # Another word is no method of the first step either, and is refused as such.
    code_challenge_method: str | None = Field(
        None,
        description="If given, the method of the first step.",
        json_schema_extra={"enum": ["S256", "plain", None]},
    )


class AppObject(ResourceObject):
    """An app that somebody of the account let have keys."""

    model_config = ConfigDict(title="App")

    id: int
    name: str
    origin: str = Field(description="Of its callback; empty for apps without one.")
    active_keys: int = Field(description="Keys of it that work.")
    created_at: datetime
    authorized_at: datetime = Field(description="When somebody last let it have a key.")
