"""Loading a catalogue: everything is checked first, then written in one transaction."""

import time
from typing import Any, Final

from django.db import transaction

from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.plan import Plan, plan
from routing.catalogue.snapshot import STALE_S, serving
from routing.catalogue.spec import read
from routing.catalogue.version import CatalogueVersion, current_version, version_bumped

_BATCH_ROWS: Final = 500
_LOOK_AGAIN_S: Final = 0.1
# Long enough for the row of a killed process to go stale in the meantime.
WAIT_S: Final = STALE_S + 1


def load(document: object, *, prune: bool = False, check: bool = False) -> dict[str, Any]:
    """Bring the database to what the data of a catalogue file says.

    Returns `version` and the lists `added`, `changed`, `disabled`, `unchanged`, `errors` and
    `warnings`. With errors, or with `check`, nothing is written.
    """
    spec, errors = read(document)
    if spec is None:
        return rejected(*errors)
    with transaction.atomic():
        # Two loads at once: the second compares with what the first has written.
        CatalogueVersion.objects.select_for_update().first()
        difference = plan(spec, prune=prune)
        if difference.writes and not difference.errors and not check:
            _apply(difference)
        return _report(difference)


def rejected(*errors: str) -> dict[str, Any]:
    """The report of a file that never became data."""
    return _report(Plan(errors=list(errors)))


def _apply(difference: Plan) -> None:
    with version_bumped("default"):
        ModelAlias.objects.filter(alias__in=difference.aliases_gone).delete()
        for kind in (Provider, Model, ModelAlias, Endpoint):
            if kind in difference.new:
                kind.objects.bulk_create(difference.new[kind], batch_size=_BATCH_ROWS)
        for row, fields in difference.touched:
            row.save(update_fields=fields)


def _report(difference: Plan) -> dict[str, Any]:
    names = ("added", "changed", "disabled", "unchanged", "errors", "warnings")
    lists = {name: getattr(difference, name) for name in names}
    return {"version": current_version(), **lists}


def wait_until_served(version: int, *, timeout_s: float = WAIT_S) -> bool:
    """Wait until every live web process serves `version` or a newer one; false when time is up."""
    deadline = time.monotonic() + timeout_s
    while any(served < version for served in serving().values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True
