"""Who is to blame where the time of the whole request runs out, and what the log says of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from routing.selection.ask import Standing
from routing.serving import observing, process
from routing.serving.attempts import Attempts
from routing.upstreams.door_errors import DeadlineExceeded, FirstByteTimeout
from routing.upstreams.failures import from_door, from_status
from tests.routing.selection.entries import endpoint, provider
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.learning import Clock, observer, refreshed

TOTAL_S = 60.0
LATE = DeadlineExceeded("the call's deadline passed", phase="head")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Clock]:
    settings.ROUTER_FIRST_BYTE_TIMEOUT = 40
    clock = Clock(1000.0)
    seen = observer(clock)
    monkeypatch.setattr(observing, "observer", lambda: seen)
    monkeypatch.setattr(process, "now", clock)
    for memory in (process.health, process._limits):
        memory.cache_clear()
    yield clock
    for memory in (process.health, process._limits):
        memory.cache_clear()


# How long the last attempt had, its provider's own limits, and whether it is to blame.
ROWS: list[tuple[float, dict[str, Any], bool]] = [
    (1, {}, False),
    (20, {}, False),
    (29.9, {}, False),
    (30, {}, True),
    (59, {}, True),
    (5, {"first_byte_s": 5.0}, True),
    (4.9, {"first_byte_s": 5.0}, False),
    (9, {"total_s": 9.0}, True),
    (8, {"total_s": 9.0}, False),
]


@pytest.mark.parametrize(("had_s", "limits", "is_to_blame"), ROWS)
def test_who_had_no_share_of_the_time_is_not_blamed_for_its_end(
    clock: Clock, had_s: float, limits: dict[str, Any], is_to_blame: bool
) -> None:
    last = endpoint(provider=provider(**limits))
    call = call_to(endpoint("slow"), last)
    call.started, call.deadline = clock.now, clock.now + TOTAL_S
    clock.now = call.deadline
    attempt = attempt_at(last)
    attempt.started = clock.now - had_s
    failure = from_door(LATE)

    Attempts(call).failed(attempt, failure)

    standing = process.health().standing(clock.now)
    assert standing == Standing(unstable=frozenset({last.pk} if is_to_blame else ()))
    seen = observing.observer()
    refreshed(seen)
    assert (last.pk in seen.recent.totals) is is_to_blame
    # The caller is told of the deadline either way.
    assert failure.deadline


QUOTED = "canary-prompt"


@pytest.mark.parametrize(("status", "level"), [(503, "WARNING"), (429, "WARNING"), (400, "INFO")])
def test_a_failed_upstream_request_is_one_line_of_the_log(
    clock: Clock, caplog: pytest.LogCaptureFixture, status: int, level: str
) -> None:
    served = endpoint("alpha/turbo", provider=provider(slug="alpha"))
    attempt = replace(attempt_at(served), started=clock.now - 0.25)
    body = json.dumps({"error": {"message": f"Bad {QUOTED}", "code": QUOTED}}).encode()
    failure = from_status(status, {}, body)

    with caplog.at_level("INFO", logger="routing.upstreams"):
        Attempts(call_to(served)).failed(attempt, failure)

    (line,) = caplog.records
    assert line.levelname == level
    assert line.getMessage() == (
        "Upstream request failed: generation gen-1-test, model acme/small, provider alpha, "
        f"endpoint alpha/turbo: {failure.error_type}, status {status}, after 250 ms"
    )


def test_a_limit_of_its_own_is_an_outage_however_short(clock: Clock) -> None:
    slow = endpoint()
    call = call_to(slow)
    call.started, call.deadline = clock.now, clock.now + TOTAL_S
    attempt = replace(attempt_at(slow), started=clock.now - 0.1)

    Attempts(call).failed(attempt, from_door(FirstByteTimeout("no head", phase="head")))

    assert process.health().standing(clock.now).unstable == {slow.pk}
