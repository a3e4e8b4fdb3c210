"""Outages, probes and parking, on a clock of the test's own."""

from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.selection.health import EndpointHealth
from routing.selection.types import ALL_HEALTHY

E1, E2 = 1, 2
WINDOW_S, PROBE_S = 30.0, 10.0


@pytest.fixture
def health() -> EndpointHealth:
    return EndpointHealth(window_s=WINDOW_S, probe_s=PROBE_S)


def how(health: EndpointHealth, now: float, endpoint: int = E1) -> str:
    """What the standing says of one endpoint."""
    standing = health.snapshot(now)
    words = [name for name in standing._fields if endpoint in getattr(standing, name)]
    return "+".join(words) or "well"


def test_an_endpoint_nobody_complained_about_is_well(health: EndpointHealth) -> None:
    assert health.snapshot(0) is ALL_HEALTHY
    # A probe of one that has recovered means nothing.
    health.begin_probe(E1, 5)
    assert health.snapshot(5) is ALL_HEALTHY


# What happens at which second, and what is seen: `parked@0 for 7` has a hint of so many seconds.
# What the words of stories stand for.
EVENTS = {
    "failed": EndpointHealth.record_failure,
    "succeeded": EndpointHealth.record_success,
    "probing": EndpointHealth.begin_probe,
    "disappointed": EndpointHealth.record_useless_answer,
}
STORIES: dict[str, str] = {
    "an outage lasts its window": (
        "failed@100, 100 unstable, 129.9 unstable, 130 half_open, 10000 half_open"
    ),
    "while a probe is under way nobody else sends one": (
        "failed@0, 30 half_open, 30 half_open, probing@30, 30 unstable, 39.9 unstable, 40 half_open"
    ),
    "a probe that was never sent is there for the next": (
        "failed@0, probing@30, 31 unstable, not_probed@31, 31 half_open"
    ),
    "each failed probe doubles the window up to five minutes": (
        "failed@0, 29.99 unstable, 30 half_open, probing@30, failed@30, 89.99 unstable, "
        "90 half_open, probing@90, failed@90, 209.99 unstable, 210 half_open, probing@210, "
        "failed@210, 449.99 unstable, 450 half_open, probing@450, failed@450, 749.99 unstable, "
        "750 half_open, probing@750, failed@750, 1049.99 unstable, 1050 half_open"
    ),
    "failures of requests that were under way do not double the window": (
        "failed@0, failed@1, failed@2, failed@3, 32.9 unstable+failing, 33 half_open"
    ),
    "a success forgets everything": (
        "failed@0, probing@30, failed@30, succeeded@30, 31 well, failed@40, 70 half_open"
    ),
    "a 429 parks until its hint, also past a call that had begun before, and is no outage": (
        "parked@0 for 7, 3 parked, succeeded@6, 6.9 parked, 7 well"
    ),
    "a 429 during an outage does not shorten it": (
        "failed@0, parked@1 for 2, 2 unstable+parked, 5 unstable, 30 half_open"
    ),
    "who is parked is not probed": "failed@0, parked@1 for 100, 50 parked, 101 half_open",
    "failing ends with the outage and its probes come one by one": (
        "failed@0, failed@1, failed@2, 31 unstable+failing, 32 half_open, probing@32, "
        "32 unstable+failing, failed@33, 92.9 unstable+failing, 93 half_open, succeeded@93, 93 well"
    ),
    "an answer among failures ends the outage and not the failing": (
        "failed@0, failed@1, failed@2, succeeded@3, 32.9 failing, 33 well, failed@40, 40 unstable"
    ),
    "a probe that begins after the recovery means nothing, though the endpoint is failing": (
        "failed@0, failed@1, failed@2, succeeded@3, probing@3, 3 failing"
    ),
    "tries that are older than the window do not count": (
        "succeeded@0, succeeded@1, failed@20, failed@21, 25 unstable, failed@31, "
        "31 unstable+failing"
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_an_endpoint_s_story(health: EndpointHealth, name: str) -> None:
    for step in STORIES[name].split(", "):
        what, _, at = step.partition("@")
        match what.split(), at.split(" for "):
            case [second, words], [""]:
                assert how(health, float(second)) == words, step
            case ["not_probed"], _:
                health.abandon_probe(E1)
            case ["parked"], [now, hint_s]:
                health.park(E1, float(now), hint_s=float(hint_s))
            case [event], [now]:
                EVENTS[event](health, E1, float(now))
    assert how(health, 0, E2) == "well"


def test_what_was_worked_out_once_holds_until_something_changes(health: EndpointHealth) -> None:
    health.record_failure(E1, 0)
    first = health.snapshot(1)

    assert health.snapshot(29) is first
    health.record_failure(E2, 29)
    assert how(health, 29, E2) == "unstable"


def try_each(health: EndpointHealth, results: str) -> float:
    """One try a second, `+` well, `-` an outage, `#` a 429, `?` of no use; when the last ended."""
    ends = {
        "+": health.record_success,
        "-": health.record_failure,
        "?": health.record_useless_answer,
    }
    ends["#"] = partial(health.park, hint_s=5)
    now = 0
    for now, result in enumerate(results):
        ends[result](E1, now)
    return now


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

    now = try_each(health, results)

    is_failing = len(last) >= 3 and last.count("+") < len(last) / 2
    assert (E1 in health.snapshot(now).failing) is is_failing
    assert E2 not in health.snapshot(now).failing


WORDS = st.sampled_from(["failed", "succeeded", "probing", "disappointed", "parked"])
# A pause, what happens to which endpoint, and the hint of one that is parked.
HAPPENING = st.tuples(st.floats(0, 40), WORDS, st.integers(0, 3), st.floats(0, 50))
THEN_WELL = [("failed", 1, 0.0)] * 3 + [("succeeded", 1, 0.0)]


@given(st.lists(HAPPENING, max_size=30))
@example([(0.0, "disappointed", 2, 0.0)] * 2 + [(1.0, "succeeded", 2, 0.0)])
@example([(0.0, "failed", 2, 0.0), (0.0, "succeeded", 2, 0.0), (0.0, "probing", 2, 0.0)])
@example([(1.0, *word) for word in THEN_WELL] + [(31.0, "failed", 2, 0.0), (6.0, *THEN_WELL[0])])
def test_a_standing_is_the_same_whether_or_not_it_was_asked_before(
    happenings: list[tuple[float, str, int, float]],
) -> None:
    asked, fresh = (EndpointHealth(window_s=WINDOW_S, probe_s=PROBE_S) for _ in range(2))
    now = 0.0
    for pause_s, what, endpoint, hint_s in happenings:
        now += pause_s
        asked.snapshot(now)
        for health in (asked, fresh):
            if what == "parked":
                health.park(endpoint, now, hint_s=hint_s)
            else:
                EVENTS[what](health, endpoint, now)
    standing = asked.snapshot(now)

    assert standing == fresh.snapshot(now)
    assert not standing.unstable & standing.half_open
    assert not standing.parked & standing.half_open
