"""Who is to blame where the time of a request runs out, and the budget of retries."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from gateway.outbound.errors import DeadlineExceeded, FirstByteTimeout
from routing.guarding.output_guard import OutputGuard
from routing.selection.types import HealthSnapshot
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.upstream_call import find_first_byte_limit
from routing.serving.request import process
from routing.serving.request.context import Attempt
from routing.serving.request.process import WINDOW_S, RetryBudget
from routing.statistics import observation
from routing.upstreams.failures import UpstreamFailure, from_outbound_error, from_status
from tests.routing.guarding.filtering import ID, MAIL, place_filter
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.learning import Clock, observer, refresh_all

TOTAL_S = 60.0
LATE = from_outbound_error(DeadlineExceeded("the call's deadline passed", phase="head"))
SLOW = from_outbound_error(FirstByteTimeout("no head", phase="head"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Clock]:
    settings.ROUTER_FIRST_BYTE_TIMEOUT = 40
    clock = Clock(1000.0)
    seen = observer(clock)
    monkeypatch.setattr(observation, "observer", lambda: seen)
    monkeypatch.setattr(process, "now", clock)
    for memory in (process.health, process._limits):
        memory.cache_clear()
    yield clock
    for memory in (process.health, process._limits):
        memory.cache_clear()


def attempt_of(clock: Clock, had_s: float, **limits: Any) -> Attempt:
    served = endpoint("alpha/turbo", provider=provider("alpha", **limits))
    return replace(attempt_at(served), started=clock.now - had_s)


# How long the last attempt had, its provider's own limits, what happened, and whether it is to
# blame.
ROWS: list[tuple[float, dict[str, Any], UpstreamFailure, bool]] = [
    (1, {}, LATE, False),
    (20, {}, LATE, False),
    (29.9, {}, LATE, False),
    (30, {}, LATE, True),
    (59, {}, LATE, True),
    (5, {"first_byte_s": 5.0}, LATE, True),
    (4.9, {"first_byte_s": 5.0}, LATE, False),
    (9, {"total_s": 9.0}, LATE, True),
    (8, {"total_s": 9.0}, LATE, False),
    # A limit of its own is an outage however short.
    (0.1, {}, SLOW, True),
]


@pytest.mark.parametrize(("had_s", "limits", "failure", "is_to_blame"), ROWS)
def test_who_had_no_share_of_the_time_is_not_blamed_for_its_end(
    clock, had_s: float, limits: dict[str, Any], failure, is_to_blame: bool
) -> None:
    attempt, told = attempt_of(clock, had_s, **limits), replace(failure)
    call, last = call_to(endpoint("slow"), attempt.endpoint), attempt.endpoint.pk
    call.context = call.context._replace(started=clock.now - TOTAL_S, deadline=clock.now)

    Attempts(call).record_failure(attempt, told)

    blamed = frozenset({last} if is_to_blame else ())
    assert process.health().snapshot(clock.now) == HealthSnapshot(unstable=blamed)
    seen = observation.observer()
    refresh_all(seen)
    assert set(seen.recent.totals) == blamed
    # The caller is told of the deadline either way.
    assert told.deadline is failure.deadline


@pytest.mark.parametrize(("wish_s", "is_to_blame"), [(0.5, False), (39.9, False), (50.0, True)])
def test_an_endpoint_too_slow_for_one_caller_is_well_for_all_others(
    clock, wish_s: float, is_to_blame: bool
) -> None:
    attempt = attempt_of(clock, wish_s)
    call = call_to(attempt.endpoint, provider={"max_first_byte_s": wish_s})
    attempt.first_byte = find_first_byte_limit(call, attempt.endpoint, has_others=False)

    Attempts(call).record_failure(attempt, replace(SLOW))

    blamed = frozenset({attempt.endpoint.pk} if is_to_blame else ())
    assert process.health().snapshot(clock.now) == HealthSnapshot(unstable=blamed)
    refresh_all(observation.observer())
    assert set(observation.observer().recent.totals) == blamed


QUOTED = "canary-prompt"


@pytest.mark.parametrize(("status", "level"), [(503, "WARNING"), (429, "WARNING"), (400, "INFO")])
def test_a_failed_upstream_request_is_one_line_of_the_log(clock, caplog, status, level) -> None:
    attempt = attempt_of(clock, 0.25)
    body = json.dumps({"error": {"message": f"Bad {QUOTED}", "code": QUOTED}}).encode()
    failure = from_status(status, {}, body)

    with caplog.at_level("INFO", logger="routing.upstreams"):
        Attempts(call_to(attempt.endpoint)).record_failure(attempt, failure)

    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == (
        level,
        "Upstream request failed: generation gen-1-test, model acme/small, provider alpha, "
        f"endpoint alpha/turbo: {failure.error_type}, status {status}, after 250 ms",
    )


@pytest.mark.parametrize(("action", "is_told"), [("redact", False), ("flag", True)])
def test_a_failure_quotes_no_answer_that_filters_would_have_changed(
    clock, action: Any, is_told: bool
) -> None:
    attempt = attempt_of(clock, 0.25)
    call = call_to(attempt.endpoint)
    call.output_guard = OutputGuard((place_filter(action, "email"),), call.context.chat, ID)
    error = {"message": "Bad call", "failed_generation": f"Ask {MAIL}"}
    failure = from_status(400, {}, json.dumps({"error": error}).encode())

    Attempts(call).record_failure(attempt, failure)

    assert [MAIL in (text or "") for text in (failure.raw, failure.failed_generation)] == (
        [is_told] * 2
    )


# --- The retry budget, on a clock of the test's own -----------------------------------------------


ALICE, BOB, CAROL = (uuid.UUID(int=number) for number in range(3))


def budget_of(share: float, floor: int, *, firsts: int = 0) -> RetryBudget:
    budget = RetryBudget(share=share, floor=floor)
    for _ in range(firsts):
        budget.first(ALICE, 0)
    return budget


def draw_all(budget: RetryBudget, now: float, account: uuid.UUID = ALICE) -> int:
    return sum(budget.draw(account, now) for _ in range(100))


def test_retries_are_a_share_of_first_attempts_and_a_floor() -> None:
    assert draw_all(budget_of(0.2, 3, firsts=50), 0) == 13
    assert draw_all(budget_of(0.2, 3), 0) == 3
    assert draw_all(budget_of(0, 0, firsts=1), 0) == 0
    # A share of few calls is no whole retry.
    assert [draw_all(budget_of(0.2, 0, firsts=n), 0) for n in (4, 5)] == [0, 1]


def test_one_account_s_storm_leaves_the_others_their_retries() -> None:
    budget = budget_of(0.2, 8, firsts=50)
    assert draw_all(budget, 0) == 10 + 8
    budget.first(BOB, 1)
    assert (draw_all(budget, 1, BOB), draw_all(budget, 1)) == (4, 0)
    # Among many the floor is one retry for each.
    for number in range(100, 120):
        budget.first(uuid.UUID(int=number), 2)
    budget.first(CAROL, 2)
    assert draw_all(budget, 2, CAROL) == 1


def test_what_is_older_than_the_window_counts_no_more() -> None:
    budget = budget_of(1, 0)
    for now in range(5):
        budget.first(ALICE, now)
    # The retries of second 4 and all first attempts are forgotten after their ten seconds.
    assert [draw_all(budget, now) for now in (4, 10, 14.1)] == [5, 0, 0]
    budget.first(ALICE, 14.1)
    assert draw_all(budget, 14.1) == 1


@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.sampled_from([ALICE, BOB]), st.floats(0, 2)), max_size=80
    ),
    share=st.sampled_from([0.0, 0.2, 1.0]),
    floor=st.integers(0, 4),
)
def test_no_window_of_an_account_holds_more_than_share_and_floor(
    steps, share: float, floor: int
) -> None:
    budget, now = RetryBudget(share=share, floor=floor), 0.0
    firsts, drawn = list[tuple[uuid.UUID, float]](), list[tuple[uuid.UUID, float]]()
    for is_first, account, pause_s in steps:
        now += pause_s
        if is_first:
            budget.first(account, now)
            firsts.append((account, now))
        elif budget.draw(account, now):
            drawn.append((account, now))
            first, again = (
                sum(own == account and now - moment <= WINDOW_S for own, moment in moments)
                for moments in (firsts, drawn)
            )
            assert again <= share * first + floor
