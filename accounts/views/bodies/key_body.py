"""The bodies of /keys: a new key, changes of one, a rotation (management reference 9.3)."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from accounts.limit_words import ManagedBody
from accounts.money import usd_to_nano
from accounts.services.keys import GRACE_S_MAX
from accounts.views.schemas.fields import Usd
from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.validation import UNDEFINED, list_issues

EXTERNAL_USER_CHARS_MAX: Final = 256
_ZULU = "Z"
_Body = TypeVar("_Body", bound=BaseModel)


def _instant(value: Any) -> datetime:
    """ISO 8601 in UTC with seconds, `...:SSZ`; other zones and minute precision are refused."""
    wrong = PydanticCustomError("iso_datetime", "Invalid ISO datetime")
    if not isinstance(value, str) or not value.endswith(_ZULU) or value.count(":") != 2:
        raise wrong
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise wrong from None
    if moment <= datetime.now(UTC):
        raise PydanticCustomError("in_the_past", "Invalid input: expected a moment in the future")
    return moment


def _as_stored(name: str, value: Any) -> tuple[str, Any]:
    if name == "limit":
        return "limit_nano", None if value is None else usd_to_nano(value)
    return name, value


_Name = Annotated[str, Field(min_length=1, max_length=100)]
_Reset = Literal["daily", "weekly", "monthly"]
_Usd = Usd
_Moment = Annotated[datetime, BeforeValidator(_instant)]


def _no_string(value: Any) -> None:
    if value is not None:
        raise PydanticCustomError(
            "no_string", "Invalid input: a key's string is made here and cannot be given"
        )


class External(ManagedBody):
    """Whom of the account's own users a key is for."""

    model_config = ConfigDict(strict=True, validate_default=True)

    user: Annotated[str, Field(min_length=1, max_length=EXTERNAL_USER_CHARS_MAX)] = UNDEFINED  # type: ignore[assignment]  # As for `name` below.
    api_key: Annotated[None, BeforeValidator(_no_string)] = None


class KeyBody(ManagedBody):
    """What a new key is made of."""

    model_config = ConfigDict(strict=True, validate_default=True)

    name: _Name = UNDEFINED  # type: ignore[assignment]  # So that a missing name is told in the words of a wrong one.
    limit: _Usd | None = None
    limit_reset: _Reset | None = None
    include_byok_in_limit: bool = False
    expires_at: _Moment | None = None
    creator_user_id: str | None = None
    workspace_id: Annotated[UUID | None, Field(strict=False)] = None
    external: External | None = None


class KeyChanges(ManagedBody):
    """What may change of a key; defaults stand for what is not said."""

    model_config = ConfigDict(strict=True)

    name: _Name = ""
    limit: _Usd | None = None
    limit_reset: _Reset | None = None
    include_byok_in_limit: bool = False
    disabled: bool = False
    workspace_id: Annotated[UUID, Field(strict=False)] = UUID(int=0)


class KeyRotation(ManagedBody):
    """For how long the string of now works beside the new one."""

    model_config = ConfigDict(strict=True)

    grace_seconds: Annotated[int, Field(ge=0, le=GRACE_S_MAX)] = 86_400


def read_key_body(body: dict[str, Any]) -> KeyBody:
    """The checked body of a new key. Raises `SchemaInvalid`."""
    return _checked(KeyBody, body)


def read_key_changes(body: dict[str, Any]) -> dict[str, Any]:
    """The named fields as the key's row has them. Raises `InvalidRequest` where there is none."""
    changes = _checked(KeyChanges, body)
    if not changes.model_fields_set:
        raise InvalidRequest("No update fields provided")
    return dict(_as_stored(name, getattr(changes, name)) for name in changes.model_fields_set)


def read_key_rotation(body: dict[str, Any]) -> KeyRotation:
    """The checked body of a rotation. Raises `SchemaInvalid`."""
    return _checked(KeyRotation, body)


def _checked(model: type[_Body], body: dict[str, Any]) -> _Body:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None
