"""JSON schemas of answers: the API takes only objects that say they are closed."""

from typing import Any, Final

_OF_NAMES: Final = ("properties", "$defs", "definitions")
_OF_SCHEMAS: Final = ("items", "anyOf", "allOf", "oneOf", "prefixItems", "not")


def closed(schema: Any) -> Any:
    """The schema with every object closed that does not say whether it is."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _inside(key, value) for key, value in schema.items()}
    kinds = schema.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]):
        made.setdefault("additionalProperties", False)
    return made


def _inside(key: str, value: Any) -> Any:
    if key in _OF_NAMES and isinstance(value, dict):
        return {name: closed(each) for name, each in value.items()}
    return closed(value) if key in _OF_SCHEMAS else value
