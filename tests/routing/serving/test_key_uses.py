"""When keys were last used: noted at once, written together, and not lost where nothing is
written."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from routing.serving.key_uses import KeyUses

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=1)


def test_what_was_written_is_not_written_again() -> None:
    told: list[dict[int, datetime]] = []

    def record(uses: Mapping[int, datetime]) -> set[int]:
        told.append(dict(uses))
        return {1} & uses.keys()

    mine = KeyUses(record)
    mine.write()
    mine.note(1, NOON)
    mine.note(2, NOON)
    mine.note(1, LATER)
    mine.write()
    mine.write()

    # The second key's row was locked: its note waits for the next time.
    assert told == [{1: LATER, 2: NOON}, {2: NOON}]


def test_a_use_while_others_are_written_is_kept() -> None:
    told: list[dict[int, datetime]] = []

    def record(uses: Mapping[int, datetime]) -> set[int]:
        told.append(dict(uses))
        mine.note(1, LATER)
        return set(uses)

    mine = KeyUses(record)
    mine.note(1, NOON)
    mine.write()
    mine.write()

    assert told == [{1: NOON}, {1: LATER}]


def test_nothing_is_lost_where_the_database_fails() -> None:
    def record(uses: Mapping[int, datetime]) -> set[int]:
        told.append(dict(uses))
        if len(told) == 1:
            raise ConnectionError("gone")
        return set(uses)

    told: list[dict[int, datetime]] = []
    mine = KeyUses(record)
    mine.note(1, NOON)

    with pytest.raises(ConnectionError):
        mine.write()
    mine.write()

    assert told == [{1: NOON}, {1: NOON}]
