"""The text of catalogue files (YAML, of which JSON is a part), and the demo catalogue."""

import json
from pathlib import Path
from typing import Any

import yaml

from gateway.http.jsonio import JsonObject

# The C loader is ten times as fast; where libyaml is missing the Python one reads the same.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class DocumentError(ValueError):
    """The text is no YAML, or not one that means something definite."""


class _Loader(_Base):  # type: ignore[misc]  # The base is chosen at run time.
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key_node.tag != "tag:yaml.org,2002:merge" and key in seen:
                line = key_node.start_mark.line + 1
                raise DocumentError(f"line {line}: {key!r} stands there twice")
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def parse(text: str) -> Any:
    """The data of a YAML or JSON text. Raises `DocumentError`."""
    if text.lstrip().startswith("{"):
        # YAML refuses the tabs that JSON may be indented with.
        try:
            return json.loads(text)
        except ValueError:
            pass
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - A subclass of the safe loader.
    except (yaml.YAMLError, TypeError) as error:
        raise DocumentError(f"no YAML: {' '.join(str(error).split())}") from error


def dump(value: object) -> str:
    """Plain data as YAML, keys in the given order."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2
    )
    return text


_FILE = Path(__file__).with_name("demo.yaml")


def demo_catalogue(simulator_url: str) -> JsonObject:
    """The data to give to `routing.catalogue.load.load`; `simulator_url` without trailing slash."""
    document: JsonObject = parse(_FILE.read_text(encoding="utf-8"))
    for provider in document["providers"]:
        provider["base_url"] = provider["base_url"].format(simulator_url=simulator_url)
    return document
