"""Outages, probes and parking, on a clock of the test's own."""

import pytest

from routing.selection.health import EndpointHealth

E1, E2 = 1, 2


@pytest.fixture
def health() -> EndpointHealth:
    return EndpointHealth(window_s=30, probe_s=10)


def test_an_endpoint_nobody_complained_about_is_stable(health: EndpointHealth) -> None:
    assert health.stable(E1, 0)


def test_an_outage_lasts_its_window_and_touches_nobody_else(health: EndpointHealth) -> None:
    health.failed(E1, 100)

    assert not health.stable(E1, 100)
    assert not health.stable(E1, 129.9)
    assert health.stable(E2, 100)
    assert health.stable(E1, 130)


def test_after_the_window_one_probe_at_a_time_is_let_through(health: EndpointHealth) -> None:
    health.failed(E1, 0)

    assert [health.stable(E1, 30) for _ in range(5)] == [True, False, False, False, False]


def test_a_probe_that_never_ends_is_given_up_so_that_another_may_try(
    health: EndpointHealth,
) -> None:
    health.failed(E1, 0)

    assert health.stable(E1, 30)
    assert not health.stable(E1, 39.9)
    assert health.stable(E1, 40)


def test_each_failed_probe_doubles_the_window_up_to_five_minutes(health: EndpointHealth) -> None:
    now, windows = 0.0, []
    health.failed(E1, now)
    for expected in (30, 60, 120, 240, 300, 300):
        assert not health.stable(E1, now + expected - 0.01)
        now += expected
        assert health.stable(E1, now), expected
        windows.append(expected)
        health.failed(E1, now)

    assert windows == [30, 60, 120, 240, 300, 300]


def test_failures_of_requests_that_were_under_way_do_not_double_the_window(
    health: EndpointHealth,
) -> None:
    for now in (0, 1, 2, 3):
        health.failed(E1, now)

    assert not health.stable(E1, 32.9)
    assert health.stable(E1, 33)


def test_a_success_forgets_everything(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.stable(E1, 30)
    health.failed(E1, 30)
    health.succeeded(E1)

    assert health.stable(E1, 31)
    health.failed(E1, 40)
    assert health.stable(E1, 70)


def test_a_429_parks_until_its_hint_and_is_no_outage(health: EndpointHealth) -> None:
    health.parked(E1, 0, hint_s=7)

    assert not health.stable(E1, 6.9)
    assert [health.stable(E1, 7) for _ in range(3)] == [True, True, True]


def test_a_429_during_an_outage_does_not_shorten_it(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.parked(E1, 1, hint_s=2)

    assert not health.stable(E1, 5)
    assert health.stable(E1, 30)


def test_an_outage_does_not_end_before_the_parking_does(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.parked(E1, 1, hint_s=100)

    assert not health.stable(E1, 50)
    assert health.stable(E1, 101)
