"""The reference of metrics says what there is."""

import re
from importlib import import_module

from gateway.metrics.families import FAMILIES
from tests.support.manage import PROJECT

_ROW = re.compile(r"^\| `(gateway_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", re.MULTILINE)
# Importing these declares all families.
_DECLARING = (
    *("gateway.metrics.host", "gateway.metrics.scrape"),
    *("gateway.tasks", "accounts.services.books.metrics", "routing.monitoring.process"),
    *("routing.destinations.queueing", "interns.metrics"),
)


def import_families() -> None:
    """Have all families declared."""
    for name in _DECLARING:
        import_module(name)


def test_the_page_has_every_metric_with_its_labels_and_meaning() -> None:
    import_families()
    page = (PROJECT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")

    assert _ROW.findall(page) == [
        (name, each.kind, ", ".join(f"`{label}`" for label in each.labels) or "none", each.text)
        for name, each in sorted(FAMILIES.items())
    ]
