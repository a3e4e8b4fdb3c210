"""Interns: the fields of bodies and objects. Unknown fields of a body are refused."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.http.jsonio import JsonObject
from gateway.http.resources import ResourceObject
from gateway.http.validation import list_issues
from interns.creation import NewIntern
from interns.errors import InvalidBody
from interns.leases import is_pickup_overdue
from interns.machine import STEPS, WAITING_TEXT, build_progress
from interns.models import Intern, Status, Vault
from interns.models.intern import (
    DESCRIPTION_CHARS_MAX,
    INSTRUCTIONS_CHARS_MAX,
    MODEL_CHARS_MAX,
    NAME_CHARS_MAX,
)

NAME_CHARS_MIN: Final = 2
NAME_PATTERN: Final = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
MODEL_PATTERN: Final = r"^[A-Za-z0-9~._:@+-]+/[A-Za-z0-9~._:@+-]+$"
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


def _check_uuid(value: object) -> Any:
    """Only the form that ids are shown in."""
    if isinstance(value, str) and not _UUID.fullmatch(value):
        raise PydanticCustomError("uuid_parsing", "Invalid UUID")
    return value


_Name = Annotated[
    str,
    Field(
        min_length=NAME_CHARS_MIN,
        max_length=NAME_CHARS_MAX,
        description="Unique among the creator's in the workspace.",
        json_schema_extra={"pattern": NAME_PATTERN},
    ),
    _match_pattern(NAME_PATTERN),
]
_Description = Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)]
_Instructions = Annotated[
    str,
    Field(
        max_length=INSTRUCTIONS_CHARS_MAX,
        description="Standing instructions; a change takes effect at the next boot.",
    ),
]
_Model = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MODEL_CHARS_MAX,
        description="Null is the workspace's default; a change takes effect at the next provision.",
        json_schema_extra={"pattern": MODEL_PATTERN},
    ),
    _match_pattern(MODEL_PATTERN),
]
_Id = Annotated[UUID, Field(strict=False), BeforeValidator(_check_uuid)]


class _InternBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """The checked body. Raises `InvalidBody`."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise InvalidBody(issues=list_issues(error)) from None


class NewInternBody(_InternBody):
    """What a new intern is made of."""

    model_config = ConfigDict(title="NewIntern")

    name: _Name
    workspace_id: _Id | None = Field(None, description="The key's own workspace.")
    description: _Description | None = None
    instructions: _Instructions | None = None
    provision: bool = False
    vault_id: _Id | None = Field(None, description="A vault of another intern, to borrow.")


class InternChanges(_InternBody):
    """What may change of an intern; what is left out stays."""

    # A default of its own would be in the OpenAPI document.
    name: _Name = Field(default_factory=str)
    description: _Description | None = None
    instructions: _Instructions | None = None
    model: _Model | None = None


class NoFields(_InternBody):
    """A body that says nothing."""


class InternDeletion(_InternBody):
    """How an intern is taken down."""

    acknowledge_workspace_loss: bool = Field(
        False, description="Do not stop on a missing archive of the workspace."
    )


class InternProgress(ResourceObject):
    """How far a provisioning has come."""

    step_label: str = Field(json_schema_extra={"enum": [*STEPS, WAITING_TEXT]})
    step_number: int = Field(ge=1, le=len(STEPS))
    total_steps: int


class InternObject(ResourceObject):
    """An agent of a workspace, with a runtime, a disk and a vault of its own."""

    model_config = ConfigDict(title="Intern")

    id: UUID
    name: _Name
    description: _Description
    instructions: _Instructions | None
    model: _Model | None
    hostname: str | None = Field(description="Kept while it is suspended.")
    status: str = Field(json_schema_extra={"enum": list(Status.values)})
    progress: InternProgress | None
    last_failure_message: str | None = Field(description="`<code>: <sentence>`, while it failed.")
    vault_id: UUID | None = Field(description="The vault that it owns.")
    attached_vault_id: UUID | None = Field(description="A vault borrowed from another intern.")
    workspace_id: UUID
    created_at: datetime
    updated_at: datetime


def read_new_intern(body: Mapping[str, Any], workspace_id: UUID) -> NewIntern:
    """Raises `InvalidBody`."""
    fields = NewInternBody.read(body)
    if fields.workspace_id not in (None, workspace_id):
        raise InvalidBody("workspace_id must match the API key workspace")
    return NewIntern(
        name=fields.name,
        description=fields.description or "",
        instructions=fields.instructions,
        provision=fields.provision,
        vault_id=fields.vault_id,
    )


def read_changes(body: Mapping[str, Any]) -> JsonObject:
    """The columns to set: what the body names. Raises `InvalidBody`."""
    changes = InternChanges.read(body).model_dump(exclude_unset=True)
    if changes.get("description", "") is None:
        changes["description"] = ""
    return changes


def serialize_intern(intern: Intern) -> JsonObject:
    """The JSON of an `InternObject`."""
    waits = is_pickup_overdue(intern, datetime.now(UTC))
    try:
        vault_id = str(intern.vault.pk)
    except Vault.DoesNotExist:
        vault_id = None
    return InternObject.from_row(
        intern,
        status=str(intern.status),
        progress=build_progress(intern.progress_step, waits=waits),
        vault_id=vault_id,
    )
