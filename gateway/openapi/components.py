"""Named JSON Schemas for drf-spectacular: what is read and answered here has no serializers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from drf_spectacular.utils import Direction, extend_schema_serializer

Schema = dict[str, Any]

REF_TEMPLATE: Final = "#/components/schemas/{model}"
TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
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

    `schema` may hold other components as values; they become references. `definitions` are schemas
    it already refers to by name. Both may come from `later` instead, where writing them takes long:
    a process that never shows the document never waits for it. `partial` is what drf-spectacular
    writes on its copy of a body of PATCH, and means nothing here.
    """

    name: str
    schema: Schema = field(default_factory=dict)
    definitions: Mapping[str, Schema] = field(default_factory=dict)
    later: Callable[[], tuple[Schema, Mapping[str, Schema]]] | None = None
    partial: bool = field(default=False, init=False, repr=False)

    def told(self) -> tuple[Schema, Mapping[str, Schema]]:
        """Its schema, and the definitions that this refers to."""
        return self.later() if self.later else (self.schema, self.definitions)


def obj(properties: Mapping[str, Any], *, optional: tuple[str, ...] = (), **more: Any) -> Schema:
    """An object whose properties are always there, except the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, **more}


def array(items: Any) -> Schema:
    return {"type": "array", "items": items}


def words(*options: str | None) -> Schema:
    """One of these strings; None among them is null."""
    kind: Any = ["string", "null"] if None in options else "string"
    return {"type": kind, "enum": list(options)}


def nullable(schema: Any) -> Schema:
    """The schema, or null."""
    if isinstance(schema, Component) or not isinstance(schema["type"], str) or "enum" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


class ComponentExtension(OpenApiSerializerExtension):
    """Teaches drf-spectacular what a `Component` is. Importing it registers it."""

    target_class = Component

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        name: str = self.target.name
        return name

    def get_identity(self, auto_schema: AutoSchema, direction: Direction) -> Component:
        component: Component = self.target
        return component

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> Schema:
        described, definitions = self.target.told()
        for name, schema in definitions.items():
            # Two components may bring the same definition: what is equal is one.
            definition = ResolvedComponent(
                name, ResolvedComponent.SCHEMA, schema, ComponentIdentity(schema)
            )
            auto_schema.registry.register_on_missing(definition)
        resolved: Schema = _with_references(described, auto_schema, direction)
        return resolved


def _with_references(value: Any, auto_schema: AutoSchema, direction: Direction) -> Any:
    if isinstance(value, Component):
        return auto_schema.resolve_serializer(cast(Any, value), direction).ref
    if isinstance(value, Mapping):
        return {key: _with_references(item, auto_schema, direction) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_references(item, auto_schema, direction) for item in value]
    return value
