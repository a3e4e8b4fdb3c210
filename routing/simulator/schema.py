"""A small JSON value that fits a JSON schema, always the same one for the same schema."""

from typing import Any

DEPTH_MAX = 12
OPTIONAL_DEPTH_MAX = 3
FORMATS = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "simulated@example.com",
    "uri": "https://example.com/simulated",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example(schema: Any, *, optional: bool = False) -> Any:
    """Build a value from a schema: required properties, and the optional ones when asked."""
    return _Builder(schema, optional).build(schema, 0)


class _Builder:
    def __init__(self, root: Any, optional: bool) -> None:
        self._root = root
        self._optional = optional

    def build(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            return None
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if schema.get(choice):
                return self.build(schema[choice][0], depth + 1)
        return self._of_kind(self._kind(schema), schema, depth)

    def _of_kind(self, kind: str, schema: dict[str, Any], depth: int) -> Any:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            length = max(schema.get("minItems", 1), 0)
            return [self.build(schema.get("items", {}), depth + 1) for _ in range(min(length, 100))]
        if kind == "string":
            return _string(schema)
        if kind in ("integer", "number"):
            return _number(schema)
        return True if kind == "boolean" else None

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        names = list(schema.get("required") or [])
        if self._optional and depth < OPTIONAL_DEPTH_MAX:
            names += [name for name in properties if name not in names]
        return {name: self.build(properties.get(name, {}), depth + 1) for name in names}

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follow one local `$ref` and lay the parts of `allOf` over each other."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            target = self._root
            for step in reference.lstrip("#/").split("/") if reference != "#" else []:
                target = target.get(step, {}) if isinstance(target, dict) else {}
            return target if isinstance(target, dict) else {}
        merged = dict(schema)
        for part in merged.pop("allOf", None) or []:
            part = self._resolved(part)
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            required = [*merged.get("required", []), *part.get("required", [])]
            merged = {**merged, **part, "properties": properties, "required": required}
        return merged

    def _kind(self, schema: dict[str, Any]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = kind[0] if kind else None
        if isinstance(kind, str):
            return kind
        return "object" if "properties" in schema or "required" in schema else "string"


def _string(schema: dict[str, Any]) -> str:
    text = FORMATS.get(schema.get("format", ""), "simulated")
    text = text.ljust(schema.get("minLength", 0), "x")
    return text[: schema["maxLength"]] if "maxLength" in schema else text


def _number(schema: dict[str, Any]) -> float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + 1
    if low is not None:
        return float(low) if isinstance(low, float) and not low.is_integer() else int(low)
    return int(min(1, high)) if high is not None else 1
