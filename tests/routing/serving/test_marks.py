"""What one process met, another knows: outages, parkings, recoveries, in any order."""

import pytest

from routing.selection.health import EndpointHealth
from routing.serving.marks import Mark, Marks

E1, E2 = 1, 2
OUTAGE = Mark("outage", E1, at=100)


class Told:
    """A process and what it is told of others, two seconds after it was."""

    def __init__(self) -> None:
        self.marks, self.health = Marks(), EndpointHealth(window_s=30.0, probe_s=10)

    def hear(self, *marks: Mark, now: float = 102) -> None:
        for mark in marks:
            self.marks.adopt(mark, self.health, now=now)

    def unstable(self, now: float) -> bool:
        return E1 in self.health.standing(now).unstable


@pytest.fixture
def told() -> Told:
    return Told()


def test_an_outage_elsewhere_is_one_here(told: Told) -> None:
    told.hear(OUTAGE)

    assert [told.unstable(now) for now in (102, 129.9, 130)] == [True, True, False]
    assert told.health.standing(130).half_open == {E1}


@pytest.mark.parametrize(("well_at", "ends_it"), [(101, True), (99, False)])
def test_a_later_recovery_elsewhere_ends_it(told: Told, well_at: float, ends_it: bool) -> None:
    told.hear(OUTAGE, Mark("well", E1, at=well_at), now=104)

    assert told.unstable(104) is not ends_it
    assert bool(told.health.standing(200).half_open) is not ends_it


def test_who_was_answered_since_tells_so(told: Told) -> None:
    told.marks.well(E1, at=101)
    assert told.marks.take() == []

    told.hear(OUTAGE)

    assert not told.unstable(102)
    assert told.marks.take() == [Mark("well", E1, at=101)]


def test_an_older_outage_does_not_shorten_a_newer_one(told: Told) -> None:
    told.health.failed(E1, 100)
    told.marks.outage(E1, 100)

    told.hear(Mark("outage", E1, at=95))

    assert told.unstable(129)


def test_a_parking_lasts_what_is_left_of_it(told: Told) -> None:
    told.hear(Mark("parked", E1, at=100, until=107), Mark("parked", E2, at=90, until=100))

    assert told.health.standing(106.9).parked == {E1}
    assert told.health.standing(107).parked == frozenset()


def test_the_latest_of_each_kind_is_told_once_and_in_order() -> None:
    marks = Marks()
    marks.outage(E1, 10)
    marks.parked(E2, 11, until=20)
    marks.outage(E1, 12)
    marks.well(E1, 13)
    marks.well(E1, 14)

    latest = [Mark("parked", E2, 11, 20), Mark("outage", E1, 12), Mark("well", E1, 13)]
    assert [marks.take(), marks.take()] == [latest, []]


@pytest.mark.parametrize("met", ["outage", "parked", "well"])
def test_a_probe_ends_with_whatever_its_endpoint_does(met: str) -> None:
    marks = Marks()
    marks.probing.add(E1)
    getattr(marks, met)(E1, 1, **({"until": 2} if met == "parked" else {}))

    assert (marks.probing, marks.probed) == (set(), [E1])
