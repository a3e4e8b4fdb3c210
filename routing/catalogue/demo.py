"""The demo catalogue, pointed at a running simulator."""

from pathlib import Path
from typing import Any

from routing.catalogue.document import parse

_FILE = Path(__file__).with_name("demo.yaml")


def demo_catalogue(simulator_url: str) -> dict[str, Any]:
    """The data to give to `routing.catalogue.load.load`; `simulator_url` without trailing slash."""
    document: dict[str, Any] = parse(_FILE.read_text(encoding="utf-8"))
    for provider in document["providers"]:
        provider["base_url"] = provider["base_url"].format(simulator_url=simulator_url)
    return document
