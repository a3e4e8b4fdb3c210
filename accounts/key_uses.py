"""When each key was last used, noted in memory; a web process writes it every few seconds."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from django.db import DatabaseError, InterfaceError, transaction

from accounts.models import ApiKey
from gateway.database.db import Lane, run_queries

log = logging.getLogger("routing.key_uses")


class KeyUses:
    """When each key was last used, noted in memory and written every few seconds, so that no
    request pays for a write. `record` writes uses by the numbers of their keys, and returns the
    keys that it is done with."""

    def __init__(self, record: Callable[[Mapping[int, datetime]], set[int]]) -> None:
        self._record = record
        self._noted: dict[int, datetime] = {}

    def note(self, key_id: int, at: datetime) -> None:
        self._noted[key_id] = at

    def write(self) -> None:
        """Write what was noted. What could not be written is noted still."""
        noted = dict(self._noted)
        if not noted:
            return
        try:
            written = run_queries(Lane.OPERATOR, partial(self._record, noted))
        except (DatabaseError, InterfaceError) as error:
            log.warning("When keys were used is written later: %s", error)
            return
        for key_id in written:
            # A key that was used meanwhile has a newer note.
            if self._noted.get(key_id) == noted[key_id]:
                del self._noted[key_id]


def record_uses(uses: Mapping[int, datetime]) -> set[int]:
    """Write when keys were last used, by number; those it wrote or knew better of.

    It waits for nobody: rows that somebody has locked are left out.
    """
    with transaction.atomic():
        rows = ApiKey.objects.filter(pk__in=uses)
        free = rows.select_for_update(skip_locked=True, no_key=True).order_by("pk")
        known = dict(free.values_list("pk", "last_used_at"))
        newer = [
            ApiKey(pk=pk, last_used_at=uses[pk])
            for pk, before in known.items()
            if before is None or before < uses[pk]
        ]
        ApiKey.objects.bulk_update(newer, ["last_used_at"], batch_size=200)
    return set(known)


uses: Final = KeyUses(record_uses)
