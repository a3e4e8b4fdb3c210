"""Whether a name is one that a request may give as its model."""

from gateway.http.errors import DatabaseGone, Unavailable
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import Snapshot
from routing.selection.model_references import ROUTERS, parse_reference
from routing.selection.resolution import find_model


def is_model_name(reference: str) -> bool:
    """Models, aliases, families and virtual routers, with suffixes or without.

    Raises `DatabaseGone` while there is no catalogue to ask.
    """
    snapshot = _snapshot()
    return parse_reference(reference).base in ROUTERS or find_model(snapshot, reference) is not None


def is_router_alias(theirs: str, ours: str) -> bool:
    """Whether `ours` is a virtual router, and `theirs`, another name for it, is no model's.

    Raises `DatabaseGone` as above.
    """
    snapshot, named = _snapshot(), theirs.partition("@")[0]
    is_router = parse_reference(ours.partition("@")[0]).base in ROUTERS
    return is_router and not any(map(snapshot.model, (named, parse_reference(named).base)))


def _snapshot() -> Snapshot:
    try:
        return catalogue.current()
    except Unavailable as error:
        raise DatabaseGone from error
