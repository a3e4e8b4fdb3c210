"""Named JSON Schemas for drf-spectacular: pydantic models, and envelopes around them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, cast

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from drf_spectacular.utils import Direction, extend_schema_serializer
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from gateway.http.jsonio import JsonObject, dumps, loads

Schema = JsonObject

REF_TEMPLATE: Final = "#/components/schemas/{model}"
TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
UUID_TEXT: Final[Schema] = {"type": "string", "format": "uuid"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
# What `extend_schema` calls auth: drf-spectacular writes it into `security` as it stands.
NO_KEY: Final[Any] = [{}]
EITHER_KEY: Final[Any] = [{"bearer": []}, {"apiKeyHeader": []}]
OPTIONAL_KEY: Final[Any] = [{}, {"bearer": []}]
USD: Final[Schema] = {"type": "number", "description": "USD, at most 9 decimal places."}


# A list of something is a component of its own here, so nothing is to be wrapped in an array.
@extend_schema_serializer(many=False)
@dataclass(eq=False)
class Component:
    """A schema with a name, for `extend_schema` wherever it takes a serializer.

    `schema` may hold components and pydantic models as values; they become references.
    `definitions` are schemas it already refers to by name. Both may come from `later` instead,
    where writing them takes long: a process that never shows the document never waits for it.
    `partial` is what drf-spectacular writes on its copy of a body of PATCH, and means nothing here.
    """

    name: str
    schema: Schema = field(default_factory=dict)
    definitions: Mapping[str, Schema] = field(default_factory=dict)
    later: Callable[[], tuple[Schema, Mapping[str, Schema]]] | None = None
    partial: bool = field(default=False, init=False, repr=False)

    def build_schema(self) -> tuple[Schema, Mapping[str, Schema]]:
        """Its schema, and the definitions that this refers to."""
        return self.later() if self.later else (self.schema, self.definitions)


class ModelSchemas(GenerateJsonSchema):
    """Writes the schemas of pydantic models: null is one of the types, and titles, which would only
    repeat names, are left out. A default of null is left out as well, and any of an answer."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        described = super().model_schema(schema)
        if described["title"] == schema["cls"].__name__:
            del described["title"]
        if "description" in described:
            described["description"] = " ".join(described["description"].split())
        return described

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Schema:
        plain = self.generate_inner(schema["schema"])
        kind = plain.get("type")
        if not isinstance(kind, str):
            return {"anyOf": [plain, {"type": "null"}]}
        enum = {"enum": [*plain["enum"], None]} if "enum" in plain else {}
        return {**plain, "type": [kind, "null"], **enum}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> Schema:
        if self.mode == "serialization" or schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


@cache
def component(model: type[BaseModel]) -> Component:
    """The component of a pydantic model. Its name is the model's title, or that of its class."""
    name = model.model_config.get("title") or model.__name__
    return Component(name, later=partial(_schema_of, model))


@cache
def _schema_of(model: type[BaseModel]) -> tuple[Schema, Mapping[str, Schema]]:
    answered = model.model_config.get("json_schema_serialization_defaults_required")
    schema = model.model_json_schema(
        ref_template=REF_TEMPLATE,
        schema_generator=ModelSchemas,
        union_format="primitive_type_array",
        mode="serialization" if answered else "validation",
    )
    schema.pop("title", None)
    definitions = schema.pop("$defs", {})
    titles = {name: each.pop("title", name) for name, each in definitions.items()}
    for name, title in titles.items():
        if title != name:
            old, new = (f'"{REF_TEMPLATE.format(model=each)}"'.encode() for each in (name, title))
            schema, definitions = loads(dumps([schema, definitions]).replace(old, new))
    return schema, {titles[name]: each for name, each in definitions.items()}


@cache
def answer_of(model: type[BaseModel]) -> Component:
    """`{"data": …}` with one object."""
    return Component(f"{component(model).name}Answer", obj({"data": model}))


@cache
def list_of(model: type[BaseModel], name: str = "") -> Component:
    """A page: `{"data": […], "total_count": …}`."""
    listed = {"data": array(model), "total_count": WHOLE}
    return Component(name or f"{component(model).name}List", obj(listed))


@cache
def deletion_of(model: type[BaseModel]) -> Component:
    """`{"deleted": true}`."""
    return Component(
        f"{component(model).name}Deleted", obj({"deleted": {"type": "boolean", "enum": [True]}})
    )


def obj(properties: Mapping[str, Any], *, optional: tuple[str, ...] = (), **more: object) -> Schema:
    """An object whose properties are always there, except the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, **more}


def array(items: object) -> Schema:
    return {"type": "array", "items": items}


def words(*options: str | None) -> Schema:
    """One of these strings; None among them is null."""
    kind: Any = ["string", "null"] if None in options else "string"
    return {"type": kind, "enum": list(options)}


def nullable(schema: object) -> Schema:
    """The schema, or null."""
    if not isinstance(schema, dict) or not isinstance(schema["type"], str) or "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def add_description(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


class ComponentExtension(OpenApiSerializerExtension):
    """Teaches drf-spectacular what a `Component` is. Importing it registers it."""

    target_class = Component

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        name: str = self.target.name
        return name

    def get_identity(self, auto_schema: AutoSchema, direction: Direction) -> Any:
        """A model may also be a definition of another one: what is equal is one."""
        target: Component = self.target
        return ComponentIdentity(target.build_schema()[0]) if target.later else target

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> Schema:
        described, definitions = self.target.build_schema()
        for name, schema in definitions.items():
            # Two components may bring the same definition: what is equal is one.
            definition = ResolvedComponent(
                name, ResolvedComponent.SCHEMA, schema, ComponentIdentity(schema)
            )
            auto_schema.registry.register_on_missing(definition)
        resolved: Schema = _with_references(described, auto_schema, direction)
        return resolved


def _with_references(value: object, auto_schema: AutoSchema, direction: Direction) -> Any:
    if isinstance(value, type) and issubclass(value, BaseModel):
        value = component(value)
    if isinstance(value, Component):
        return auto_schema.resolve_serializer(cast(Any, value), direction).ref
    if isinstance(value, Mapping):
        return {key: _with_references(item, auto_schema, direction) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_references(item, auto_schema, direction) for item in value]
    return value
