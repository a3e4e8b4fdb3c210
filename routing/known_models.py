"""Whether a name is one that a request may give as its model."""

from gateway.http.errors import DatabaseGone, Unavailable
from routing.catalogue.snapshot import catalogue
from routing.selection.naming import ROUTERS, parse
from routing.selection.resolving import named_model


def names_a_model(reference: str) -> bool:
    """Models, aliases, families and virtual routers, with suffixes or without.

    Raises `DatabaseGone` while there is no catalogue to ask.
    """
    try:
        snapshot = catalogue.current()
    except Unavailable as error:
        raise DatabaseGone from error
    return parse(reference).base in ROUTERS or named_model(snapshot, reference) is not None
