"""Strict checks of parsed JSON against the schemas, and the nulls that callers may send.

An explicit null of an optional field is absence, wherever a format gives it no other meaning:
official clients write what they leave unset. A body is copied only where such a null stands.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from gateway.eventloop import yield_control
from gateway.http.jsonio import JsonObject
from gateway.http.validation import UNDEFINED

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

# Others get their turn after so many items of a list.
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
