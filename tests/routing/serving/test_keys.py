"""When keys were last used: noted at once, written together, and not lost where nothing is written.
And a key that is moved to another workspace while a call of it waits for its hold."""

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from gateway.http.errors import Unavailable
from routing.metering.orders import Payer, TopUpOrder
from routing.serving import attempts
from routing.serving.attempts import Attempts
from routing.serving.key_uses import KeyUses
from tests.routing.serving.calls import call_to

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=1)
Uses = Mapping[int, datetime]


class Written:
    """What was told to the database, and what that says to each time."""

    def __init__(self, *answers: Callable[[Uses], set[int]]) -> None:
        self.told: list[dict[int, datetime]] = []
        self.uses, self._answers = KeyUses(self._record), iter(answers)

    def _record(self, uses: Uses) -> set[int]:
        self.told.append(dict(uses))
        return next(self._answers, set)(uses)


def test_what_was_written_is_not_written_again() -> None:
    # The second key's row is locked at first: its note waits for the next time.
    written = Written(lambda uses: {1})
    mine = written.uses
    mine.write()
    for key, at in ((1, NOON), (2, NOON), (1, LATER)):
        mine.note(key, at)
    for _ in range(3):
        mine.write()

    assert written.told == [{1: LATER, 2: NOON}, {2: NOON}]


def test_a_use_while_others_are_written_is_kept() -> None:
    def used_meanwhile(uses: Uses) -> set[int]:
        written.uses.note(1, LATER)
        return set(uses)

    written = Written(used_meanwhile)
    written.uses.note(1, NOON)
    for _ in range(3):
        written.uses.write()

    assert written.told == [{1: NOON}, {1: LATER}]


def test_nothing_is_lost_where_the_database_fails() -> None:
    def fail(uses: Uses) -> set[int]:
        raise ConnectionError("gone")

    written = Written(fail)
    written.uses.note(1, NOON)
    with pytest.raises(ConnectionError):
        written.uses.write()
    written.uses.write()

    assert written.told == [{1: NOON}, {1: NOON}]


@pytest.mark.parametrize("moved", [True, False])
def test_a_call_never_counts_against_limits_of_a_workspace_it_was_not_begun_in(
    moved: bool, monkeypatch
) -> None:
    call, asked = call_to(), list[TopUpOrder]()
    place = uuid.uuid4() if moved else call.caller.workspace_id
    now = SimpleNamespace(workspace_id=place, budgets=(), limits_version=7, limited="day")
    ledger = SimpleNamespace(submit=asked.append, wait=lambda ticket, timeout_s: True)
    monkeypatch.setattr(attempts, "ledger", ledger)
    monkeypatch.setattr(attempts, "renewed", lambda caller: now)
    before: Payer = call.payer
    order = TopUpOrder("gen-1", before, 5)

    if moved:
        with pytest.raises(Unavailable):
            Attempts(call)._told_again(order)
        assert (asked, call.payer) == ([], before)
    else:
        assert Attempts(call)._told_again(order) is True
        assert [each.payer for each in asked] == [call.payer]
        assert (call.payer.limits_version, call.payer.limited) == (7, "day")
