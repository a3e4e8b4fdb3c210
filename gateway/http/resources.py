"""Bases of the pydantic models that describe the API's resources: queries, bodies and objects.

A model says once what a resource's fields are. It checks queries and bodies, names the fields of
answers, and is the schema of all three in the OpenAPI document.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from gateway.http.errors import InvalidRequest, SchemaInvalid
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.validation import UNDEFINED, describe_options, list_issues

# The default of an answer's field that is there only where it says something.
ABSENT: Final[Any] = object()
_JSON_TYPES: Final = frozenset({type(None), bool, int, float, str, list, dict})
# Any JSON object.
OpenObject = Annotated[JsonObject, WithJsonSchema({"type": "object", "additionalProperties": True})]


def enum(options: Iterable[str | int]) -> Any:
    """Annotates a field of an answer with the values that it can have."""
    return Field(json_schema_extra={"enum": list(options)})


def one_of(options: Iterable[str]) -> Any:
    """Annotates a text of a query or body: one of these, else the refusal lists them."""
    texts = list(options)

    def check(value: object) -> str:
        if isinstance(value, str) and value in texts:
            return value
        raise PydanticCustomError("option", "{text}", {"text": describe_options(texts)})

    return BeforeValidator(check, json_schema_input_type=Annotated[str, enum(texts)])


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
    def read(cls, body: Mapping[str, Any], **context: object) -> Self:
        """The checked body; validators see the context. Raises `SchemaInvalid`."""
        try:
            return cls.model_validate(body, context=context)
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


class Query(Body):
    """The query string of a request. Values arrive as text, and an empty one counts as absent."""

    @classmethod
    def read(cls, body: Mapping[str, Any], **context: object) -> Self:
        """The checked query; unknown names are ignored. Raises `SchemaInvalid`."""
        fields = {name: body[name] for name in cls.model_fields if body.get(name)}
        return super().read(fields, **context)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Null is no value of a query string; it stands for what is absent."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        for field in schema["properties"].values():
            if isinstance(field.get("type"), list):
                field["type"] = next(kind for kind in field["type"] if kind != "null")
            if "enum" in field:
                field["enum"] = [option for option in field["enum"] if option is not None]
        return schema


class ResourceObject(BaseModel):
    """An object of an answer. It is never validated: rows are ours.

    Every field is always there, but for those whose default is `ABSENT`.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    @classmethod
    def from_row(cls, row: object, **computed: object) -> JsonObject:
        """The JSON object: each field is among `computed`, or the row's attribute of its name."""
        return {
            name: computed[name] if name in computed else _as_json(getattr(row, name))
            for name, may_be_absent in _list_fields(cls)
            if not may_be_absent or name in computed
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        fields = cls.model_fields.items()
        required = [name for name, field in fields if field.default is not ABSENT]
        del schema["required"]
        return {**schema, "required": required} if required else schema


@cache
def _list_fields(model: type[BaseModel]) -> tuple[tuple[str, bool], ...]:
    """The names of fields, and whether they may be absent."""
    fields = model.model_fields.items()
    return tuple((name, field.default is ABSENT) for name, field in fields)


def _as_json(value: object) -> Any:
    if type(value) in _JSON_TYPES:
        return value
    if isinstance(value, UUID):
        return str(value)
    return format_time(value) if isinstance(value, datetime) else value
