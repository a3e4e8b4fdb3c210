"""What was got with a credential lately: asked of the app above, which keeps the records."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class ByokUsage(NamedTuple):
    """Calls that it served, what they would have cost on credits, and what they did cost."""

    calls: int
    list_nano: int
    fees_nano: int


Count = Callable[[UUID, UUID, datetime], ByokUsage]
_counts: list[Count] = []


def count_usage_by(count: Count) -> None:
    """Let `count` tell the usage of an account's credential since a moment. The last one counts."""
    _counts[:] = [count]


def usage_of(account_id: UUID, credential_id: UUID, since: datetime) -> ByokUsage:
    """Goes through the account's calls of that time."""
    assert _counts, "nobody has said who counts usage"
    return _counts[0](account_id, credential_id, since)
