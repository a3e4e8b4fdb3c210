"""Bodies and queries of /interns; unknown fields are refused."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.http.jsonio import JsonObject
from gateway.http.validation import Issue, list_issues
from interns.creation import NewIntern
from interns.errors import InvalidBody
from interns.models.intern import (
    DESCRIPTION_CHARS_MAX,
    INSTRUCTIONS_CHARS_MAX,
    MODEL_CHARS_MAX,
    NAME_CHARS_MAX,
)

NAME_CHARS_MIN: Final = 2
NAME_PATTERN: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
MODEL_PATTERN: Final = r"^[A-Za-z0-9~._:@+-]+/[A-Za-z0-9~._:@+-]+$"
KEY_CHARS_MAX: Final = 255
_B = TypeVar("_B", bound=BaseModel)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _match_pattern(pattern: str) -> AfterValidator:
    """The whole text: Python's `$` would let a line break pass."""
    compiled = re.compile(pattern[1:-1])

    def match(text: str) -> str:
        if not compiled.fullmatch(text):
            raise PydanticCustomError(
                "string_pattern_mismatch",
                "Invalid string: must match pattern /{pattern}/",
                {"pattern": pattern},
            )
        return text

    return AfterValidator(match)


def _check_uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise PydanticCustomError("uuid_parsing", "Invalid UUID")
    return text.lower()


_Name = Annotated[
    str, Field(min_length=NAME_CHARS_MIN, max_length=NAME_CHARS_MAX), _match_pattern(NAME_PATTERN)
]
_Description = Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)]
_Instructions = Annotated[str, Field(max_length=INSTRUCTIONS_CHARS_MAX)]
_Model = Annotated[
    str, Field(min_length=1, max_length=MODEL_CHARS_MAX), _match_pattern(MODEL_PATTERN)
]
_Uuid = Annotated[str, AfterValidator(_check_uuid)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Creation(_Strict):
    name: _Name
    workspace_id: _Uuid | None = None
    description: _Description | None = None
    instructions: _Instructions | None = None
    provision: bool = False
    vault_id: _Uuid | None = None


class _InternChanges(_Strict):
    name: _Name = ""
    description: _Description | None = None
    instructions: _Instructions | None = None
    model: _Model | None = None


class _EmptyBody(_Strict):
    """A body that says nothing."""


class _Deletion(_Strict):
    acknowledge_workspace_loss: bool = False


def read_new_intern(body: Mapping[str, Any], workspace_id: UUID) -> NewIntern:
    """Raises `InvalidBody`."""
    fields = _validate(_Creation, body)
    if fields.workspace_id is not None and UUID(fields.workspace_id) != workspace_id:
        raise InvalidBody("workspace_id must match the API key workspace")
    return NewIntern(
        name=fields.name,
        description=fields.description or "",
        instructions=fields.instructions,
        provision=fields.provision,
        vault_id=None if fields.vault_id is None else UUID(fields.vault_id),
    )


def read_changes(body: Mapping[str, Any]) -> JsonObject:
    """The columns to set: what the body names. Raises `InvalidBody`."""
    fields = _validate(_InternChanges, body)
    changes = {name: getattr(fields, name) for name in fields.model_fields_set}
    if changes.get("description", "") is None:
        changes["description"] = ""
    return changes


def read_empty_body(body: Mapping[str, Any]) -> None:
    """Raises `InvalidBody` for any field."""
    _validate(_EmptyBody, body)


def read_deletion(body: Mapping[str, Any]) -> bool:
    """Whether the loss of the workspace is acknowledged. Raises `InvalidBody`."""
    return _validate(_Deletion, body).acknowledge_workspace_loss


def read_idempotency_key(value: str | None) -> str | None:
    """The `Idempotency-Key`. Raises `InvalidBody` for one that is empty or too long."""
    if value is not None and not 1 <= len(value) <= KEY_CHARS_MAX:
        fields = f"expected 1 to {KEY_CHARS_MAX} characters"
        raise InvalidBody(issues=[Issue("Idempotency-Key", fields)])
    return value


def _validate(kind: type[_B], body: Mapping[str, Any]) -> _B:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise InvalidBody(issues=list_issues(error)) from None
