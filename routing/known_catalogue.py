"""What the catalogue calls the models and providers that people name."""

from collections.abc import Iterable

from gateway.http.errors import DatabaseGone, Unavailable
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import Snapshot
from routing.selection.model_references import CHARS_MAX, parse_reference
from routing.selection.resolution import find_model


def find_model_slugs(names: Iterable[str]) -> dict[str, str]:
    """Canonical slugs by name: of an id, an alias, or the newest of a family, with suffixes or
    without. Raises `DatabaseGone` while there is no catalogue to ask."""
    snapshot = _snapshot()
    slugs = snapshot.derive(_canonical_slugs)
    known: dict[str, str] = {}
    for name in names:
        if len(name) > CHARS_MAX:
            continue
        model = find_model(snapshot, name)
        base = parse_reference(name).base
        if model is not None:
            known[name] = model.canonical_slug
        elif base in slugs:
            known[name] = base
    return known


def find_provider_slugs(names: Iterable[str]) -> dict[str, str]:
    """Slugs by name: of a slug or a display name in any case. Raises `DatabaseGone`."""
    slugs = {
        name: provider.slug
        for provider in _snapshot().providers.values()
        for name in provider.names
    }
    return {name: slugs[name.casefold()] for name in names if name.casefold() in slugs}


def _canonical_slugs(snapshot: Snapshot) -> frozenset[str]:
    return frozenset([model.canonical_slug for model in snapshot.models.values()])


def _snapshot() -> Snapshot:
    try:
        return catalogue.current()
    except Unavailable as error:
        raise DatabaseGone from error
