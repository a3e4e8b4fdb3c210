"""Which destinations a workspace has, read a few seconds late so that no request waits for it."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from gateway.database.db import Lane, run_queries
from gateway.ttl_cache import TtlCache
from routing.destinations.filters import reads_content
from routing.destinations.models import Destination

AGE_MAX_S: Final = 2.0
_WORKSPACES_MAX: Final = 10_000


class DestinationSummary(NamedTuple):
    """What decides in a web process whether a generation goes to a destination. `keys` are numbers
    of keys, None for all."""

    id: str
    sampling_rate: float
    keys: frozenset[int] | None
    regions: frozenset[str]
    wants_content: bool


class WorkspaceDestinations:
    """The enabled destinations of workspaces. `now` gives monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._summaries = TtlCache(
            _read_summaries, age_max_s=AGE_MAX_S, size_max=_WORKSPACES_MAX, clock=now
        )
        # Whether a workspace wanted content, and when it was read.
        self._content: dict[UUID, tuple[bool, float]] = {}

    def load(self, workspace_id: UUID) -> tuple[DestinationSummary, ...]:
        """May ask the database."""
        read_at = self._now()
        found = self._summaries.find(workspace_id) or ()
        if len(self._content) >= _WORKSPACES_MAX:
            self._content.clear()
        self._content[workspace_id] = (any(each.wants_content for each in found), read_at)
        return found

    def may_want_content(self, workspace_id: UUID) -> bool:
        """Whether prompt and answer have to be kept until the report is sent; never waits. What is
        not known, or was read long ago, may."""
        wants, read_at = self._content.get(workspace_id, (True, 0.0))
        return wants or self._now() - read_at > AGE_MAX_S


def _read_summaries(workspace_id: UUID) -> tuple[DestinationSummary, ...] | None:
    rows = run_queries(
        Lane.OPERATOR,
        lambda: list(
            Destination.objects.filter(workspace=workspace_id, enabled=True).order_by("created_at")
        ),
    )
    return (
        tuple(
            DestinationSummary(
                id=str(row.pk),
                sampling_rate=row.sampling_rate,
                keys=None if row.api_key_ids is None else frozenset(row.api_key_ids),
                regions=frozenset(row.regions),
                # Rules may look at what privacy mode does not send.
                wants_content=not row.privacy_mode or reads_content(row.filter_rules),
            )
            for row in rows
        )
        or None
    )


workspace_destinations: Final = WorkspaceDestinations()
