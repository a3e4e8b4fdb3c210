"""U2: upstreams that are slow in every way there is. Each call ends by the limit it has run into,
its place is free again, and the upstream's connection is closed.

All cases run at once against one gateway; each test then looks at the outcome of its own.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from tests.routing.upstreams.raw_upstream import PATIENCE_S
from tests.support.promptness import in_time
from tests.support.raw_desk import CONCURRENCY_MAX, FIRST_BYTE_S, IDLE_S, TOTAL_S, RawDesk, error_of
from tests.support.raw_upstream import (
    CHUNKED,
    EVENTS,
    JSON,
    Script,
    Visit,
    chunk,
    content,
    event,
    good_stream,
    head,
)

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.support.raw_fixtures"]
# The time in which a part of an error's body is waited for.
ERROR_BODY_S = 2.0
STEP_S = 0.1
NOTHING = event({"choices": [{"index": 0, "delta": {}}]})


def hangs_before_the_head(visit: Visit) -> None:
    visit.silence()


def half_a_head(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    visit.silence()


def a_head_that_drips(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    visit.drip(b"x", every_s=STEP_S)


def interim_answers_for_ever(visit: Visit) -> None:
    visit.drip(b"HTTP/1.1 102 Processing\r\n\r\n", every_s=STEP_S)


def a_head_and_silence(visit: Visit) -> None:
    visit.send(head(_type(visit)))
    visit.silence()


def framing_without_a_body(visit: Visit) -> None:
    visit.send(head(_type(visit), CHUNKED) + b"10;")
    visit.drip(b"x", every_s=STEP_S)


def a_byte_at_a_time_for_ever(visit: Visit) -> None:
    visit.send(head(_type(visit)))
    visit.drip(b"x", every_s=STEP_S)


def spaces_for_ever(visit: Visit) -> None:
    visit.send(head(_type(visit)))
    visit.drip(b" \n", every_s=STEP_S)


def comments_for_ever(visit: Visit) -> None:
    visit.send(head(_type(visit)))
    visit.drip(b": thinking\n\n", every_s=STEP_S)


def empty_events_for_ever(visit: Visit) -> None:
    visit.send(head(_type(visit)))
    visit.drip(NOTHING, every_s=STEP_S)


def a_drip_and_silence(visit: Visit) -> None:
    visit.send(head(_type(visit), CHUNKED))
    for _ in range(5):
        visit.send(chunk(event(content("Drop. "))))
        visit.silence(STEP_S)
    visit.silence()


def content_for_ever(visit: Visit) -> None:
    visit.send(head(_type(visit)))
    visit.drip(event(content("more ")), every_s=STEP_S)


def an_error_whose_body_drips(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\n\r\n")
    visit.drip(b"x", every_s=STEP_S)


def _type(visit: Visit) -> bytes:
    return EVENTS if json.loads(visit.body).get("stream") else JSON


@dataclass(frozen=True)
class Case:
    script: Script
    limit_s: float
    code: int
    stream: bool

    @property
    def id(self) -> str:
        return f"{self.script.__name__}-{'stream' if self.stream else 'whole'}"


BOTH: list[tuple[Script, float, int]] = [
    (hangs_before_the_head, FIRST_BYTE_S, 524),
    (half_a_head, FIRST_BYTE_S, 524),
    (a_head_that_drips, FIRST_BYTE_S, 524),
    (interim_answers_for_ever, FIRST_BYTE_S, 524),
    (a_head_and_silence, IDLE_S, 524),
    (framing_without_a_body, IDLE_S, 524),
    (a_drip_and_silence, IDLE_S + 5 * STEP_S, 524),
    (a_byte_at_a_time_for_ever, TOTAL_S, 408),
    (spaces_for_ever, TOTAL_S, 408),
    (an_error_whose_body_drips, ERROR_BODY_S, 503),
]
STREAMS: list[tuple[Script, float, int]] = [
    (comments_for_ever, TOTAL_S, 408),
    (empty_events_for_ever, TOTAL_S, 408),
    (content_for_ever, TOTAL_S, 408),
]
CASES = [Case(*row, stream) for row in BOTH for stream in (False, True)]
CASES += [Case(*row, stream=True) for row in STREAMS]


@dataclass
class Outcome:
    response: requests.Response
    elapsed_s: float
    visit: Visit
    charged_nano: int

    @property
    def error(self) -> Any:
        return error_of(self.response)


@pytest.fixture(scope="module")
def outcomes(sit_down: Callable[[], RawDesk]) -> dict[str, Outcome]:
    desk = sit_down()
    found: dict[str, Outcome] = {}

    def run(case: Case, model_id: str) -> None:
        started = time.monotonic()
        response = desk.desk.post(model=model_id, stream=case.stream)
        elapsed_s = time.monotonic() - started
        charged_nano = desk.desk.ledger_nano(response.headers["X-Generation-Id"])
        found[case.id] = Outcome(response, elapsed_s, desk.visit(model_id), charged_nano)

    threads = [threading.Thread(target=run, args=(case, desk.model(case.script))) for case in CASES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_slow_upstream_ends_at_its_limit(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]

    assert outcome.error["code"] == case.code
    # All cases run at once, on a machine that may do other things too.
    in_time(outcome.elapsed_s, case.limit_s * 1.1 + 0.75, at_least_s=case.limit_s * 0.9)
    in_time(outcome.elapsed_s, 2 * case.limit_s)
    assert outcome.charged_nano == 0
    assert outcome.visit.closed.wait(1), "the upstream's connection was left open"


def test_every_place_is_free_again(raw: RawDesk, outcomes: dict[str, Outcome]) -> None:
    assert len(outcomes) == len(CASES) == CONCURRENCY_MAX
    gate = threading.Event()

    def held(visit: Visit) -> None:
        visit.wait_open(gate)
        good_stream("Fine.")(visit)

    model_id = raw.model(held)
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(raw.desk.post(model=model_id, stream=True).status_code)
        )
        for _ in CASES
    ]
    for thread in threads:
        thread.start()
    raw.visit(model_id, len(CASES))
    one_more = raw.desk.post(model=model_id, stream=True)
    gate.set()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert statuses == [200] * len(CASES)
    # The twin: the bound counts.
    assert one_more.status_code == 503
    assert one_more.headers["Retry-After"]
