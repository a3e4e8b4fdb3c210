"""Outages, probes and parking, on a clock of the test's own."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.selection.ask import ALL_WELL
from routing.selection.health import EndpointHealth

E1, E2 = 1, 2
WINDOW_S, PROBE_S = 30.0, 10.0


@pytest.fixture
def health() -> EndpointHealth:
    return EndpointHealth(window_s=WINDOW_S, probe_s=PROBE_S)


def how(health: EndpointHealth, now: float, endpoint: int = E1) -> str:
    """What the standing says of one endpoint."""
    standing = health.standing(now)
    words = [name for name in standing._fields if endpoint in getattr(standing, name)]
    return " ".join(words)


def test_an_endpoint_nobody_complained_about_is_well(health: EndpointHealth) -> None:
    assert health.standing(0) is ALL_WELL
    # A probe of one that has recovered means nothing.
    health.probing(E1, 5)
    assert health.standing(5) is ALL_WELL


def test_an_outage_lasts_its_window_and_touches_nobody_else(health: EndpointHealth) -> None:
    health.failed(E1, 100)

    assert how(health, 100) == how(health, 129.9) == "unstable"
    assert how(health, 100, E2) == ""
    assert how(health, 130) == "half_open"
    assert how(health, 10_000) == "half_open"


def test_while_a_probe_is_under_way_nobody_else_sends_one(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    assert how(health, 30) == how(health, 30) == "half_open"

    health.probing(E1, 30)

    assert how(health, 30) == how(health, 39.9) == "unstable"
    assert how(health, 40) == "half_open"


def test_each_failed_probe_doubles_the_window_up_to_five_minutes(health: EndpointHealth) -> None:
    now = 0.0
    health.failed(E1, now)
    for expected in (30, 60, 120, 240, 300, 300):
        assert how(health, now + expected - 0.01) == "unstable"
        now += expected
        assert how(health, now) == "half_open", expected
        health.probing(E1, now)
        health.failed(E1, now)


def test_failures_of_requests_that_were_under_way_do_not_double_the_window(
    health: EndpointHealth,
) -> None:
    for now in (0, 1, 2, 3):
        health.failed(E1, now)

    assert how(health, 32.9) == "unstable failing"
    assert how(health, 33) == "half_open"


def test_a_success_forgets_everything(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.probing(E1, 30)
    health.failed(E1, 30)
    health.succeeded(E1, 30)

    assert health.standing(31) == ALL_WELL
    health.failed(E1, 40)
    assert how(health, 70) == "half_open"


def test_a_429_parks_until_its_hint_and_is_no_outage(health: EndpointHealth) -> None:
    health.parked(E1, 0, hint_s=7)

    assert how(health, 3) == "parked"
    health.succeeded(E1, 6)  # By a call that had begun before.
    assert how(health, 6.9) == "parked"
    assert health.standing(7) == ALL_WELL


def test_a_probe_that_was_never_sent_is_there_for_the_next(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.probing(E1, 30)
    assert how(health, 31) == "unstable"

    health.not_probed(E1)

    assert how(health, 31) == "half_open"


def test_a_429_during_an_outage_does_not_shorten_it(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.parked(E1, 1, hint_s=2)

    assert how(health, 2) == "unstable parked"
    assert how(health, 5) == "unstable"
    assert how(health, 30) == "half_open"


def test_who_is_parked_is_not_probed(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    health.parked(E1, 1, hint_s=100)

    assert how(health, 50) == "parked"
    assert how(health, 101) == "half_open"


def test_what_was_worked_out_once_holds_until_something_changes(health: EndpointHealth) -> None:
    health.failed(E1, 0)
    first = health.standing(1)

    assert health.standing(29) is first
    health.failed(E2, 29)
    assert how(health, 29, E2) == "unstable"


def tried(health: EndpointHealth, results: str, *, since: float = 0.0) -> float:
    """One try a second, `+` well, `-` an outage, `#` a 429, `?` of no use; when the last ended."""
    now = since
    for now, result in enumerate(results, start=int(since)):
        match result:
            case "+":
                health.succeeded(E1, now)
            case "-":
                health.failed(E1, now)
            case "#":
                health.parked(E1, now, hint_s=5)
            case _:
                health.disappointed(E1, now)
    return now


def test_tries_that_are_older_than_the_window_do_not_count(health: EndpointHealth) -> None:
    tried(health, "++")
    tried(health, "--", since=20)

    assert E1 not in health.standing(25).failing
    health.failed(E1, 31)  # Of the window since 1 one went well, three did not.
    assert E1 in health.standing(31).failing


def test_failing_ends_with_the_outage_and_its_probes_come_one_by_one(
    health: EndpointHealth,
) -> None:
    tried(health, "---")
    assert how(health, 31) == "unstable failing"
    assert how(health, 32) == "half_open"

    health.probing(E1, 32)
    assert how(health, 32) == "unstable failing"
    health.failed(E1, 33)

    assert how(health, 92.9) == "unstable failing"
    assert how(health, 93) == "half_open"
    health.succeeded(E1, 93)
    assert health.standing(93) == ALL_WELL


def test_an_answer_among_failures_ends_the_outage_and_not_the_failing(
    health: EndpointHealth,
) -> None:
    tried(health, "---+")

    assert how(health, 32.9) == "failing"
    assert health.standing(33) == ALL_WELL
    health.failed(E1, 40)
    assert how(health, 40) == "unstable"


# Only the last ones count, so that who dies after a good hour is known after few failures.
@given(st.text("+-#?", max_size=40))
@example("--")
@example("-#?")
@example("+--")
@example("+-+-")
@example("+" * 25 + "-" * 10)
@example("+" * 25 + "-" * 11)
def test_who_fails_more_than_half_of_the_last_tries_is_failing(results: str) -> None:
    health = EndpointHealth(window_s=1_000, probe_s=PROBE_S)
    last = results[-20:]

    now = tried(health, results)

    is_failing = len(last) >= 3 and last.count("+") < len(last) / 2
    assert (E1 in health.standing(now).failing) is is_failing
    assert E2 not in health.standing(now).failing


ENDPOINT = st.integers(0, 3)
WORDS = st.sampled_from(["failed", "succeeded", "probing", "disappointed"])
EVENTS = st.tuples(WORDS, ENDPOINT) | st.tuples(st.just("parked"), ENDPOINT, st.floats(0, 50))


@given(st.lists(st.tuples(st.floats(0, 40), EVENTS), max_size=30))
@example([(0.0, ("failed", 2)), (0.0, ("succeeded", 2)), (0.0, ("probing", 2))])
def test_a_standing_is_the_same_whether_or_not_it_was_asked_before(
    happenings: list[tuple[float, Any]],
) -> None:
    asked, fresh = (EndpointHealth(window_s=WINDOW_S, probe_s=PROBE_S) for _ in range(2))
    now = 0.0
    for pause_s, (what, endpoint, *hint_s) in happenings:
        now += pause_s
        asked.standing(now)
        for health in (asked, fresh):
            if what == "parked":
                health.parked(endpoint, now, hint_s=hint_s[0])
            else:
                getattr(health, what)(endpoint, now)
    standing = asked.standing(now)

    assert standing == fresh.standing(now)
    assert not standing.unstable & standing.half_open
    assert not standing.parked & standing.half_open
