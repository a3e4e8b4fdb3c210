"""Bases of the pydantic models that describe the API's resources: bodies, changes and objects.

A model says once what a resource's fields are. It checks bodies, names the fields of answers, and
is the schema of both in the OpenAPI document.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.jsonio import format_time
from gateway.http.validation import UNDEFINED, list_issues


class Body(BaseModel):
    """The JSON object that a request brings."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _mark_absent(cls, body: Any) -> Any:
        """Put `UNDEFINED` into required fields that are absent, so that their own schema words the
        refusal: `expected string, received undefined`."""
        if not isinstance(body, dict):
            return body
        absent = [
            name
            for name, field in cls.model_fields.items()
            if field.is_required() and name not in body
        ]
        return body | dict.fromkeys(absent, UNDEFINED) if absent else body

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """The checked body. Raises `SchemaInvalid`."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise SchemaInvalid(list_issues(error)) from None

    def given_fields(self) -> dict[str, Any]:
        """The fields that the body names, with the defaults of nested objects."""
        named = self.model_fields_set
        return {name: value for name, value in self.model_dump().items() if name in named}


class Changes(Body):
    """The body of a PATCH: what is left out stays, so defaults mean nothing."""

    @classmethod
    def read_changes(cls, body: Mapping[str, Any]) -> dict[str, Any]:
        """The fields to change. Raises `SchemaInvalid`, and `InvalidRequest` for none."""
        changes = cls.read(body).given_fields()
        if not changes:
            raise InvalidRequest("No update fields provided")
        return changes

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        for field in schema["properties"].values():
            field.pop("default", None)
        schema.pop("required", None)
        return {**schema, "minProperties": 1}


class ResourceObject(BaseModel):
    """An object of an answer; every field is always there. It is never validated: rows are ours."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    @classmethod
    def from_row(cls, row: object, **computed: Any) -> dict[str, Any]:
        """The JSON object: each field is among `computed`, or the row's attribute of its name."""
        return {
            name: computed[name] if name in computed else _as_json(getattr(row, name))
            for name in cls.model_fields
        }


def _as_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return format_time(value) if isinstance(value, datetime) else value
