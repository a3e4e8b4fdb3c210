"""The body of POST /keys (management reference 9.3)."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from accounts.money import nano_of
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import UNDEFINED, issues_of

_ZULU = "Z"


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


def _usd(value: Decimal) -> Decimal:
    try:
        nano_of(value)
    except ValueError:
        raise PydanticCustomError(
            "usd", "Invalid input: expected at most 9 decimal places and a billion USD"
        ) from None
    return value


def _number(value: Any) -> Any:
    """JSON numbers only: pydantic would read a decimal from a string or a boolean."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(repr(value))
    raise PydanticCustomError("float_type", "Input should be a valid number")


_Usd = Annotated[Decimal, BeforeValidator(_number), Field(ge=0), AfterValidator(_usd)]
_Moment = Annotated[datetime, BeforeValidator(_instant)]


class KeyBody(BaseModel):
    """What a new key is made of; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, validate_default=True)

    name: Annotated[str, Field(min_length=1, max_length=100)] = UNDEFINED  # type: ignore[assignment]  # So that a missing name is told in the words of a wrong one.
    limit: _Usd | None = None
    limit_reset: Literal["daily", "weekly", "monthly"] | None = None
    include_byok_in_limit: bool = False
    expires_at: _Moment | None = None
    creator_user_id: str | None = None
    workspace_id: Annotated[UUID | None, Field(strict=False)] = None


def read_key_body(body: dict[str, Any]) -> KeyBody:
    """The checked body. Raises `SchemaInvalid`."""
    try:
        return KeyBody.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(issues_of(error)) from None
