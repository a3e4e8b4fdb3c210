"""What one process met, another knows: outages, parkings, recoveries, in any order."""

import pytest

from routing.selection.health import EndpointHealth
from routing.serving.marks import Mark, Marks

WINDOW_S = 30.0
E1, E2 = 1, 2


@pytest.fixture
def health() -> EndpointHealth:
    return EndpointHealth(window_s=WINDOW_S, probe_s=10)


def unstable(health: EndpointHealth, now: float) -> bool:
    return E1 in health.standing(now).unstable


def test_an_outage_elsewhere_is_one_here(health: EndpointHealth) -> None:
    Marks().adopt(Mark("outage", E1, at=100), health, now=102)

    assert unstable(health, 102)
    assert unstable(health, 129.9)
    assert not unstable(health, 130)
    assert health.standing(130).half_open == {E1}


def test_a_recovery_elsewhere_ends_it(health: EndpointHealth) -> None:
    marks = Marks()
    marks.adopt(Mark("outage", E1, at=100), health, now=102)
    marks.adopt(Mark("well", E1, at=101), health, now=104)

    assert not unstable(health, 104)
    assert not health.standing(200).half_open


def test_an_older_recovery_does_not(health: EndpointHealth) -> None:
    marks = Marks()
    marks.adopt(Mark("outage", E1, at=100), health, now=102)
    marks.adopt(Mark("well", E1, at=99), health, now=104)

    assert unstable(health, 104)


def test_who_was_answered_since_tells_so(health: EndpointHealth) -> None:
    marks = Marks()
    marks.well(E1, at=101)
    assert marks.take() == []

    marks.adopt(Mark("outage", E1, at=100), health, now=102)

    assert not unstable(health, 102)
    assert marks.take() == [Mark("well", E1, at=101)]


def test_an_older_outage_does_not_shorten_a_newer_one(health: EndpointHealth) -> None:
    marks = Marks()
    health.failed(E1, 100)
    marks.outage(E1, 100)

    marks.adopt(Mark("outage", E1, at=95), health, now=102)

    assert unstable(health, 129)


def test_a_parking_lasts_what_is_left_of_it(health: EndpointHealth) -> None:
    marks = Marks()
    marks.adopt(Mark("parked", E1, at=100, until=107), health, now=102)
    marks.adopt(Mark("parked", E2, at=90, until=100), health, now=102)

    assert health.standing(106.9).parked == {E1}
    assert health.standing(107).parked == frozenset()


def test_the_latest_of_each_kind_is_told_once_and_in_order() -> None:
    marks = Marks()
    marks.outage(E1, 10)
    marks.parked(E2, 11, until=20)
    marks.outage(E1, 12)
    marks.well(E1, 13)
    marks.well(E1, 14)

    assert marks.take() == [
        Mark("parked", E2, 11, 20),
        Mark("outage", E1, 12),
        Mark("well", E1, 13),
    ]
    assert marks.take() == []


def test_a_probe_ends_with_whatever_its_endpoint_does() -> None:
    for met in ("outage", "parked", "well"):
        marks = Marks()
        marks.probing.add(E1)
        match met:
            case "outage":
                marks.outage(E1, 1)
            case "parked":
                marks.parked(E1, 1, until=2)
            case _:
                marks.well(E1, 1)
        assert (marks.probing, marks.probed) == (set(), [E1])
