"""Building blocks of the request schemas: JSON's own rules said in pydantic.

The schemas are TypedDicts, checked strictly. They judge a body and are never dumped
again, so they name only what has a rule. Keys they do not name are ignored unless the schema
forbids them. An explicit null of an optional field is absence, wherever a format gives it no other
meaning: official clients write what they leave unset. A body is copied only where one stands.
"""

from collections.abc import Callable
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import is_typeddict

from gateway.eventloop import yield_control
from gateway.http.jsonio import JsonObject
from gateway.http.validation import HIDDEN, UNDEFINED, describe_options

T = TypeVar("T")


def checker(schema: type[T]) -> Callable[[Any], T]:
    """A strict check of parsed JSON against a TypedDict. Raises `pydantic.ValidationError`."""
    adapter = TypeAdapter(schema)
    check = adapter.validator.validate_python

    def check_value(value: object) -> T:
        result: T = check(value, strict=True)
        return result

    return check_value


def tolerant_checker(schema: type[T]) -> Callable[[Any], tuple[Any, T]]:
    """`checker` for bodies that callers send: a null of an optional field is absence. The check
    returns the body without such nulls as well. Raises `pydantic.ValidationError`."""
    adapter = TypeAdapter(schema)
    check = adapter.validator.validate_python
    # Nearly all bodies pass as they are, so nulls are looked for only after a check has failed.
    without_nulls = cache(lambda: NullRemover(adapter.core_schema))

    def check_value(value: object) -> tuple[Any, T]:
        try:
            return value, check(value, strict=True)
        except ValidationError:
            body = without_nulls()(value)
            if body is value:
                raise
        return body, check(body, strict=True)

    return check_value


Remove: TypeAlias = Callable[[Any], Any]
"""Returns its value without such nulls: the very same object where there are none."""

# Others get their turn after this many items of a list.
_ITEMS_IN_A_ROW: Final = 2_000


class NullRemover:
    """Removes the nulls of values that a pydantic core schema describes."""

    def __init__(self, schema: object) -> None:
        self._definitions: JsonObject = {}
        self._named: Callable[[str], Remove | None] = cache(
            lambda name: self._remover(self._definitions[name])
        )
        self._remove = self._remover(schema)

    def __call__(self, value: object) -> Any:
        return value if self._remove is None else self._remove(value)

    def _remover(self, schema: Any) -> Remove | None:
        """None for values that hold no object of the format's."""
        kind = schema["type"]
        if kind == "definitions":
            self._definitions |= {each["ref"]: each for each in schema["definitions"]}
        elif kind == "definition-ref":
            name = schema["schema_ref"]
            return lambda value: remove(value) if (remove := self._named(name)) else value
        elif kind == "typed-dict":
            return self._of_object(schema)
        elif kind == "tagged-union":
            return self._of_union(schema)
        elif kind == "list":
            items = self._remover(schema["items_schema"])
            return None if items is None else lambda value: _from_list(value, items)
        elif kind == "dict":
            values = self._remover(schema["values_schema"]) if "values_schema" in schema else None
            return None if values is None else lambda value: _from_mapping(value, values)
        return self._remover(schema["schema"]) if "schema" in schema else None

    def _of_object(self, schema: Any) -> Remove:
        fields = {name: each["schema"] for name, each in schema["fields"].items()}
        droppable = {
            name
            for name, each in fields.items()
            if each.get("default") is not UNDEFINED and not _takes_null(each)
        }
        inner = {name: remover for name, each in fields.items() if (remover := self._remover(each))}

        def remove(value: object) -> Any:
            if type(value) is not dict:
                return value
            result = value
            if any(each is None and name in droppable for name, each in value.items()):
                result = {
                    name: each
                    for name, each in value.items()
                    if each is not None or name not in droppable
                }
            changed = {}
            for name in inner.keys() & result.keys():
                if (new := inner[name](result[name])) is not result[name]:
                    changed[name] = new
            return {**result, **changed} if changed else result

        return remove

    def _of_union(self, schema: Any) -> Remove:
        pick = schema["discriminator"]
        choices = {tag: self._remover(each) for tag, each in schema["choices"].items()}

        def remove(value: object) -> Any:
            remover = choices.get(pick(value))
            return value if remover is None else remover(value)

        return remove


def _takes_null(schema: Any) -> bool:
    """Whether null is one of the field's own values, which its readers know."""
    if schema["type"] in ("nullable", "any"):
        return True
    return "schema" in schema and _takes_null(schema["schema"])


def _from_list(value: object, remove: Remove) -> Any:
    if type(value) is not list:
        return value
    result = value
    for index, item in enumerate(value):
        if index % _ITEMS_IN_A_ROW == _ITEMS_IN_A_ROW - 1:
            yield_control()
        if (new := remove(item)) is not item:
            if result is value:
                result = value.copy()
            result[index] = new
    return result


def _from_mapping(value: object, remove: Remove) -> Any:
    if type(value) is not dict:
        return value
    changed = {key: new for key, item in value.items() if (new := remove(item)) is not item}
    return {**value, **changed} if changed else value


class _Required:
    """A required key whose absence is worded by its own schema ("expected array")."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_default_schema(
            handler(source), default=UNDEFINED, validate_default=True
        )


REQUIRED: Final = _Required()


def _to_whole_number(value: object) -> Any:
    """JSON has one number type, so 5.0 is the integer 5; 5.5 goes on and is refused."""
    return int(value) if type(value) is float and value.is_integer() else value


WHOLE: Final = BeforeValidator(_to_whole_number)
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Integer = Annotated[int, WHOLE]
Count = Annotated[int, Field(ge=1), WHOLE]
Number = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]
NonEmpty = Annotated[str, Field(min_length=1)]
SchemaName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]

_WEB_SCHEMES = ("http://", "https://")
# The longest scheme looked for; a data URL can be megabytes long.
_SCHEME_CHARS = 8
# Longer than any type that is looked for.
_MEDIA_TYPE_CHARS = 64
# Those that upstreams of every kind take; the second is a common misspelling of the first.
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp"})
_IMAGE_TEXT: Final = "Invalid image: expected image/jpeg, image/png, image/gif or image/webp"


def _web_or_data(url: str) -> str:
    if not url[:_SCHEME_CHARS].lower().startswith((*_WEB_SCHEMES, "data:")):
        raise PydanticCustomError("url", "Invalid URL")
    return url


def _image_or_web(url: str) -> str:
    media_type = _media_type(_web_or_data(url))
    if media_type is not None and media_type not in _IMAGE_TYPES:
        raise PydanticCustomError("image", "{text}", {"text": _IMAGE_TEXT})
    return url


def _file_or_web(url: str) -> str:
    media_type = _media_type(_web_or_data(url)) or ""
    return _image_or_web(url) if media_type.startswith("image/") else url


def _media_type(url: str) -> str | None:
    """What a data URL says that it holds; None for a URL of the web."""
    if url[:5].lower() != "data:":
        return None
    return url[5 : 5 + _MEDIA_TYPE_CHARS].partition(",")[0].partition(";")[0].strip().lower()


def _not_a_url(data: str) -> str:
    if data[:_SCHEME_CHARS].lower().startswith((*_WEB_SCHEMES, "data:")):
        raise PydanticCustomError("base64", "Invalid base64: a URL is not accepted here")
    return data


WebOrDataUrl = Annotated[str, AfterValidator(_web_or_data)]
ImageLocation = Annotated[str, AfterValidator(_image_or_web)]
# A file may be an image, which upstreams are then sent as one.
FileLocation = Annotated[str, AfterValidator(_file_or_web)]
Base64 = Annotated[str, AfterValidator(_not_a_url)]


class Tagged:
    """A union of TypedDicts, chosen by a literal field (`role`, `type`, `id`).

    Unlike pydantic's own discriminator it leaves no trace in the path of an issue. An unknown or
    absent value is reported at the field itself; with `opaque` it passes as any object.
    """

    def __init__(self, key: str, *, opaque: bool = False) -> None:
        self.key = key
        self.opaque = opaque
        self._known: set[str] = set()

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        choices: dict[Any, CoreSchema] = {}
        for member in _members(source):
            schema = handler.generate_schema(member)
            tags = get_args(get_type_hints(_bare(member))[self.key])
            choices.update({HIDDEN + tag: schema for tag in tags})
        if self.opaque:
            self._known = set(choices)
            choices[HIDDEN] = core_schema.dict_schema()
        return core_schema.tagged_union_schema(
            choices,
            self._pick,
            custom_error_type="unknown_discriminator",
            custom_error_message="Unknown discriminator",
            custom_error_context={
                "discriminator": self.key,
                "text": describe_options(tag.removeprefix(HIDDEN) for tag in choices),
            },
        )

    def _pick(self, value: object) -> str | None:
        if type(value) is not dict:
            return None
        tag = value.get(self.key)
        choice = HIDDEN + tag if type(tag) is str else None
        return HIDDEN if self.opaque and choice not in self._known else choice


class ByKind:
    """A union, chosen by JSON type: string, number, array or object."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        choices: dict[Any, CoreSchema] = {}
        for member in _members(source):
            bare = _bare(member)
            if is_typeddict(bare) or any(isinstance(mark, Tagged) for mark in get_args(member)[1:]):
                kind = "object"
            elif get_origin(bare) is Literal:
                kind = "string"
            else:
                kind = _KINDS[get_origin(bare) or bare]
            choices[HIDDEN + kind] = handler.generate_schema(member)
        expected = " or ".join(kind.removeprefix(HIDDEN) for kind in choices)
        return core_schema.tagged_union_schema(
            choices,
            _kind_of_value,
            custom_error_type="wrong_kind",
            custom_error_message="Wrong JSON type",
            custom_error_context={"expected": expected},
        )


ONE_KIND: Final = ByKind()

_KINDS: Final[dict[Any, str]] = {
    str: "string",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}
_HIDDEN_KINDS: Final = {kind: HIDDEN + name for kind, name in _KINDS.items()}


def _kind_of_value(value: object) -> str | None:
    return _HIDDEN_KINDS.get(type(value))


def _members(source: object) -> tuple[Any, ...]:
    return get_args(source) or (source,)


def _bare(member: object) -> Any:
    return get_args(member)[0] if get_origin(member) is Annotated else member


class RequestJsonSchema(GenerateJsonSchema):
    """Describes the schemas for OpenAPI: a `REQUIRED` key is required and has no default."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return field["schema"].get("default") is UNDEFINED or super().field_is_required(
            field, total
        )

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonObject:
        if schema.get("default") is UNDEFINED:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)
