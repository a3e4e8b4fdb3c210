"""`response_format` of a chat body (inference reference 1.8)."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from routing.formats.fields import REQUIRED, SchemaName, Tagged


class PlainFormat(TypedDict, total=False):
    type: Annotated[Literal["text", "json_object", "python"], REQUIRED]


class JsonSchema(TypedDict, total=False):
    name: Annotated[SchemaName, REQUIRED]
    schema: dict[str, Any]
    strict: bool | None
    description: str


class JsonSchemaFormat(TypedDict, total=False):
    type: Annotated[Literal["json_schema"], REQUIRED]
    json_schema: Annotated[JsonSchema, REQUIRED]


class GrammarFormat(TypedDict, total=False):
    type: Annotated[Literal["grammar"], REQUIRED]
    grammar: Annotated[str, REQUIRED]


ResponseFormat = Annotated[PlainFormat | JsonSchemaFormat | GrammarFormat, Tagged("type")]
