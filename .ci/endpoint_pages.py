"""Compares docs/reference/api with the OpenAPI document; `--write` writes the pages."""

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = PROJECT / "docs" / "reference" / "api"
MARK = "<!-- Written by `make docs` from the OpenAPI document. -->"
DEPTH_MAX = 3

Schema = dict[str, Any]


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        for name in os.environ.keys() - {"PATH", "HOME"}:
            del os.environ[name]
        os.environ |= {"GATEWAY_HOME": home, "DJANGO_SETTINGS_MODULE": "gateway.settings"}
        sys.path.insert(0, str(PROJECT))
        import django

        django.setup()
        from drf_spectacular.generators import SchemaGenerator

        pages = render_pages(SchemaGenerator().get_schema(request=None, public=True))
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    if sys.argv[1:] == ["--write"]:
        FOLDER.mkdir(exist_ok=True)
        for name in present.keys() - pages.keys():
            (FOLDER / name).unlink()
        for name, page in pages.items():
            (FOLDER / name).write_text(page, encoding="utf-8")
        return 0
    if present == pages:
        return 0
    sys.stderr.write("docs/reference/api is not what the OpenAPI document says: make docs\n")
    return 1


def render_pages(document: Schema) -> dict[str, str]:
    """File names and texts: one page an endpoint, and an index by subject."""
    pages, index = {}, defaultdict(list)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            pages[f"{name}.md"] = render_operation(document, method.upper(), path, operation)
            title = operation.get("summary", name)
            index[operation["tags"][0]].append(
                f"| [`{method.upper()} {path}`]({name}.md) | {title} |"
            )
    lines = ["# Endpoints", "", MARK, ""]
    for tag in sorted(index):
        lines += [f"## {tag}", "", "| Endpoint | What it does |", "|---|---|", *index[tag], ""]
    pages["README.md"] = "\n".join(lines)
    return pages


def render_operation(document: Schema, method: str, path: str, operation: Schema) -> str:
    lines = [f"# {operation.get('summary', operation['operationId'])}", "", MARK, ""]
    lines += [f"`{method} {path}`", "", operation.get("description", ""), ""]
    if parameters := operation.get("parameters"):
        lines += ["## Parameters", "", "| Name | Where | Type | Meaning |", "|---|---|---|---|"]
        for each in parameters:
            mark = " (required)" if each.get("required") and each["in"] != "path" else ""
            meaning = each.get("description") or each["schema"].get("description", "")
            kind = render_type(document, each["schema"])
            lines.append(
                f"| `{each['name']}` | {each['in']}{mark} | {kind} | {one_line(meaning)} |"
            )
        lines.append("")
    for title, content in bodies(operation):
        rows = list(fields_of(document, content, "", 1))
        if rows:
            lines += [f"## {title}", "", "| Field | Type | Meaning |", "|---|---|---|", *rows, ""]
    lines += ["## Statuses", "", "| Status | Meaning |", "|---|---|"]
    for status, response in operation["responses"].items():
        lines.append(f"| {status} | {one_line(response.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def bodies(operation: Schema) -> Iterator[tuple[str, Schema]]:
    """The schemas of the body and of the good answer, each with its heading."""
    sent = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if sent:
        yield "Body", sent["schema"]
    for status, response in operation["responses"].items():
        answer = response.get("content", {}).get("application/json")
        if status.startswith("2") and answer:
            yield "Answer", answer["schema"]
            return


def resolve(document: Schema, schema: Schema) -> Schema:
    """The schema behind a reference, or within null or one thing."""
    while True:
        if "$ref" in schema:
            found: Any = document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found | {key: value for key, value in schema.items() if key != "$ref"}
            continue
        options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if len(options) == 1:
            schema = options[0] | {k: v for k, v in schema.items() if k != "anyOf"}
            continue
        return schema


def fields_of(document: Schema, schema: Schema, prefix: str, depth: int) -> Iterator[str]:
    """A row for each field, those of inner objects after their own up to three levels."""
    schema = resolve(document, schema)
    if "items" in schema:
        yield from fields_of(document, schema["items"], f"{prefix}[]", depth)
        return
    for option in schema.get("anyOf", ()):
        if "$ref" in option:
            title = option["$ref"].rpartition("/")[2]
            yield from fields_of(document, option, f"{prefix} ({title})", depth)
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        whole = f"{prefix}.{name}" if prefix else name
        mark = "" if name in required else ", optional"
        kind = render_type(document, each)
        meaning = one_line(resolve(document, each).get("description", ""))
        yield f"| `{whole}` | {kind}{mark} | {meaning} |"
        if depth < DEPTH_MAX:
            yield from fields_of(document, each, whole, depth + 1)


def render_type(document: Schema, schema: Schema) -> str:
    may_be_null = {"type": "null"} in schema.get("anyOf", ())
    schema = resolve(document, schema)
    types = schema.get("type", "any")
    names = [types] if isinstance(types, str) else list(types)
    may_be_null = may_be_null or "null" in names
    text = " or ".join(name for name in names if name != "null") or "any"
    if "enum" in schema:
        values = [each for each in schema["enum"] if each is not None]
        text = " or ".join(f"`{each}`" for each in values[:8]) + (", …" if values[8:] else "")
    elif "const" in schema:
        text = f"`{schema['const']}`"
    elif schema.get("format"):
        text = str(schema["format"])
    elif text == "array" and "items" in schema:
        text = f"list of {render_type(document, schema['items'])}"
    elif "anyOf" in schema or "oneOf" in schema:
        options = schema.get("anyOf") or schema["oneOf"]
        text = " or ".join(dict.fromkeys(render_type(document, each) for each in options[:4]))
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("minLength", "at least"),
            ("maxLength", "at most"),
            ("minItems", "at least"),
            ("maxItems", "at most"),
        )
        if key in schema
    ]
    return ", ".join([text, *bounds]) + (" or null" if may_be_null else "")


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
