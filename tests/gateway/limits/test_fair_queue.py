"""Whose turn it is in front of a full endpoint."""

import uuid
from collections import Counter
from functools import partial

import pytest

from gateway.limits.concurrency import Bound
from gateway.limits.fair_queue import FairQueue, Waiting

LARGE, SMALL, OTHER = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)
BOUND, CREDENTIAL = Bound("places:endpoint:1", 1), Bound("places:credential:1", 1)
ROOM = 10_000


def waiting_of(
    workspace: uuid.UUID,
    *,
    weight: int = 1,
    scopes: tuple[str, ...] = (BOUND.scope,),
    account: uuid.UUID | None = None,
) -> Waiting:
    """Of an account of its own, where none is named."""
    return Waiting(account or workspace, workspace, weight, frozenset(scopes), lambda: None)


def join_all(queue: FairQueue, *all_waiting: Waiting, size_max: int = ROOM) -> None:
    for each in all_waiting:
        assert queue.join(each, size_max=size_max)


def serve(queue: FairQueue, among: list[Waiting], scope: str = BOUND.scope) -> Waiting:
    """Give the next free place to whose turn it is."""
    bound = Bound(scope, 1)
    [served] = [each for each in among if queue.find_overtaken([bound], each) is None]
    queue.leave(served, served={scope})
    among.remove(served)
    return served


@pytest.mark.parametrize(
    ("others", "weight", "served_before", "mine", "shares"),
    [
        pytest.param(100, 1, 0, 10, (10, 10), id="who sends a tenth is served every other time"),
        pytest.param(90, 3, 0, 90, (60, 20), id="a weight is a share of the turns"),
        pytest.param(50, 1, 40, 10, (5, 5), id="who was away has saved nothing up"),
    ],
)
def test_turns_are_shared(
    others: int, weight: int, served_before: int, mine: int, shares: tuple[int, int]
) -> None:
    queue, among = FairQueue(), [waiting_of(LARGE, weight=weight) for _ in range(others)]
    join_all(queue, *among)
    for _ in range(served_before):
        serve(queue, among)
    late = [waiting_of(SMALL) for _ in range(mine)]
    join_all(queue, *late)
    among += late
    served = [serve(queue, among) for _ in range(sum(shares))]
    assert Counter(each.workspace for each in served) == {LARGE: shares[0], SMALL: shares[1]}
    assert all(abs(served.index(each) + 1 - each.place) <= 1 for each in late if each in served)
    while among:
        serve(queue, among)
    assert not queue


def test_who_comes_one_at_a_time_waits_for_one_other_at_most() -> None:
    queue, among = FairQueue(), [waiting_of(LARGE) for _ in range(100)]
    join_all(queue, *among)
    for _ in range(10):
        small = waiting_of(SMALL)
        join_all(queue, small)
        assert small.place <= 2
        among.append(small)
        assert SMALL in [serve(queue, among).workspace for _ in range(small.place)]


def test_who_leaves_gives_up_his_place_and_the_next_one_looks() -> None:
    queue, looked = FairQueue(), list[str]()
    first, second = waiting_of(LARGE), waiting_of(LARGE)
    second.look = lambda: looked.append("second")
    join_all(queue, first, second)
    assert queue.find_overtaken([BOUND], second) == BOUND
    assert queue.find_overtaken([BOUND], None) == BOUND
    queue.leave(first)
    queue.leave(first)
    assert looked == ["second"]
    assert queue.is_next(second)
    queue.announce({BOUND.scope, "places:endpoint:9"})
    assert looked == ["second"] * 2
    queue.leave(second)
    assert queue.find_overtaken([BOUND], None) is None
    assert (len(queue), bool(queue)) == (0, False)


def test_who_waits_for_two_takes_the_first_turn_and_leaves_both() -> None:
    queue, other = FairQueue(), Bound("places:endpoint:2", 1)
    ahead, both = waiting_of(LARGE), waiting_of(LARGE, scopes=(BOUND.scope, other.scope))
    behind = waiting_of(SMALL, scopes=(other.scope,))
    join_all(queue, ahead, both, behind)
    assert both.place == 1
    assert queue.find_overtaken([BOUND], both) == BOUND
    assert queue.find_overtaken([other], both) is None
    queue.leave(both, served={other.scope})
    assert queue.is_next(behind)
    assert len(queue) == 2


def test_who_is_next_at_one_of_two_limits_waits_for_nobody_at_the_other() -> None:
    queue = FairQueue()
    at_endpoint, at_credential = waiting_of(LARGE), waiting_of(SMALL, scopes=(CREDENTIAL.scope,))
    join_all(queue, at_endpoint, at_credential)
    for each in (at_endpoint, at_credential):
        assert queue.find_overtaken([BOUND, CREDENTIAL], each) is None
    assert queue.find_overtaken([BOUND, CREDENTIAL], waiting_of(OTHER)) == BOUND
    assert queue.find_overtaken([CREDENTIAL], at_endpoint) == CREDENTIAL


def test_who_finds_another_limit_reached_waits_for_that_too() -> None:
    queue, mine = FairQueue(), waiting_of(LARGE)
    among = [waiting_of(SMALL, scopes=(CREDENTIAL.scope,)) for _ in range(9)]
    join_all(queue, mine, *among)
    queue.join_more(mine, {CREDENTIAL.scope})
    among.append(mine)
    assert mine in [serve(queue, among, CREDENTIAL.scope) for _ in range(2)]
    assert queue.find_overtaken([BOUND], None) is None
    mine.give_up()
    queue.join_more(mine, {BOUND.scope})
    assert queue.find_overtaken([BOUND], None) is None


def test_of_two_that_need_one_place_the_one_without_a_turn_for_longest_looks_first() -> None:
    queue, looked = FairQueue(), list[uuid.UUID]()
    large = [waiting_of(LARGE) for _ in range(4)]
    small = [waiting_of(SMALL, scopes=(CREDENTIAL.scope,)) for _ in range(4)]
    for each in (*large, *small):
        each.look = partial(looked.append, each.workspace)
    join_all(queue, *large, *small)
    firsts = []
    for _ in range(4):
        looked.clear()
        queue.announce({BOUND.scope, CREDENTIAL.scope})
        firsts.append(looked[0])
        among, scope = (large, BOUND.scope) if looked[0] == LARGE else (small, CREDENTIAL.scope)
        queue.leave(among.pop(0), served={scope, CREDENTIAL.scope})
    assert firsts == [LARGE, SMALL] * 2


def test_who_is_served_elsewhere_has_used_the_turn_all_the_same() -> None:
    queue, among = FairQueue(), [waiting_of(LARGE) for _ in range(3)]
    among += [waiting_of(SMALL) for _ in range(3)]
    join_all(queue, *among)
    queue.leave(among.pop(0), served=set())
    assert serve(queue, among).workspace == SMALL


def test_an_account_has_no_more_turns_by_having_more_workspaces() -> None:
    queue = FairQueue()
    among = [waiting_of(uuid.UUID(int=n), account=LARGE) for n in range(10, 20) for _ in range(9)]
    among += [waiting_of(SMALL) for _ in range(20)]
    join_all(queue, *among)
    mine = waiting_of(uuid.UUID(int=20), account=LARGE)
    join_all(queue, mine)
    among.append(mine)
    served = [serve(queue, among) for _ in range(40)]
    assert Counter(each.account for each in served) == {LARGE: 20, SMALL: 20}
    # Within the account its workspaces take turns.
    assert set(Counter(each.workspace for each in served[:20]).values()) == {1, 10}
    assert abs(served.index(mine) + 1 - mine.place) <= 1


def test_in_a_full_queue_the_largest_makes_room() -> None:
    queue, among = FairQueue(), [waiting_of(LARGE) for _ in range(9)] + [waiting_of(OTHER)]
    join_all(queue, *among, size_max=10)
    assert not queue.join(waiting_of(LARGE), size_max=10)
    for _ in range(4):
        join_all(queue, waiting_of(SMALL), size_max=10)
    assert [each.is_over for each in among] == [False] * 5 + [True] * 4 + [False]
    assert not queue.join(waiting_of(SMALL), size_max=10)
    assert len(queue) == 10


def test_in_a_full_queue_workspaces_of_one_account_count_together() -> None:
    queue = FairQueue()
    spread = [waiting_of(uuid.UUID(int=n), account=LARGE) for n in range(10, 16)]
    among = [*spread, *[waiting_of(SMALL) for _ in range(4)]]
    join_all(queue, *among, size_max=10)
    join_all(queue, waiting_of(OTHER), size_max=10)
    assert [each.is_over for each in spread].count(True) == 1
    assert not queue.join(waiting_of(uuid.UUID(int=16), account=LARGE), size_max=10)
    assert [each.is_over for each in among].count(True) == 1


@pytest.mark.parametrize("weight", [1, 5])
def test_the_place_that_is_told_is_that_of_the_turn(weight: int) -> None:
    queue, among = FairQueue(), [waiting_of(LARGE) for _ in range(7)]
    among += [waiting_of(OTHER, weight=2) for _ in range(7)]
    join_all(queue, *among)
    mine = waiting_of(SMALL, weight=weight)
    join_all(queue, mine)
    among.append(mine)
    served = [serve(queue, among) for _ in range(15)]
    assert abs(served.index(mine) + 1 - mine.place) <= 1
