"""U1 and U7: providers that break off before there is an answer, or that point elsewhere. The next
endpoint answers in time, every attempt is listed, only the one that answered is paid, and no key
goes to another host. Who cannot be reached is `test_http_client_connecting`'s.

U2: upstreams that are slow in every way there is. Each call ends by the limit it has run into, its
place is free again, and the upstream's connection is closed.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import requests

from routing.simulator.testing import RawConnection
from tests.conformance.desk import read_stream
from tests.faults.desks import attempts
from tests.faults.raw_desk import (
    CONCURRENCY_MAX,
    FIRST_BYTE_S,
    IDLE_S,
    REST_S,
    TOTAL_S,
    RawDesk,
    error_of,
)
from tests.gateway.outbound.conftest import certificate as certificate
from tests.gateway.outbound.raw_upstream import chunk
from tests.support.promptness import in_time
from tests.support.raw_upstream import (
    CHUNKED,
    EVENTS,
    JSON,
    Script,
    Stage,
    Visit,
    answer_json,
    build_answer,
    content,
    event,
    good_stream,
    head,
)
from tests.support.wires import head_bytes

pytestmark = pytest.mark.thorough
pytest_plugins = ["tests.faults.raw_fixtures"]
UNAVAILABLE = (502, "provider_unavailable")


# --- Broken off -----------------------------------------------------------------------------------


def resets_on_request(visit: Visit) -> None:
    visit.reset()


def is_no_http(visit: Visit) -> None:
    visit.send(b"\x16\x03\x01\x02\x00 ssh? smtp? 220 ready\r\n\r\n")
    visit.silence()


def resets_in_the_body(visit: Visit) -> None:
    body = answer_json("Most of it.")
    visit.send(head(JSON, b"Content-Length: %d" % len(body)) + body[:-5])
    visit.reset()


def resets_before_the_first_event(visit: Visit) -> None:
    visit.send(head() + event(content("Cut short."))[:-20])
    visit.reset()


@pytest.mark.parametrize(
    ("way", "stream"),
    [
        *((resets_on_request, False), (resets_on_request, True), (is_no_http, False)),
        *((resets_in_the_body, False), (resets_before_the_first_event, True)),
    ],
)
def test_who_breaks_off_before_an_answer_is_a_failed_attempt(
    raw: RawDesk, way: Script, stream: bool
) -> None:
    began = time.monotonic()
    asked = {"X-Router-Metadata": "enabled"}
    response = raw.ask(way, kind="pair", stream=stream, headers=asked)
    in_time(time.monotonic() - began, REST_S)
    said: Any = read_stream(response).chunks[-1] if stream else response.json()
    tried = [(each["provider"], each["status"]) for each in said["router_metadata"]["attempts"]]
    assert tried == attempts(raw.desk, said["id"]) == [("Raw", 502), ("Second", 200)]
    assert raw.desk.charged_nano(said["id"]) > 0

    response = raw.ask(way, stream=stream)

    error = error_of(response)
    assert (error["code"], error["metadata"]["error_type"]) == UNAVAILABLE
    assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0


# --- U7: pointers elsewhere -----------------------------------------------------------------------

# What a follower of redirects, or of any header that names a place, would go to.
POINTERS = ("Location: {0}", "Refresh: 0; url={0}", "Content-Location: {0}", "Link: <{0}>")
PLACES = (
    *("http://localhost:{0}/v1", "//127.0.0.1:{0}/v1", "http://127.0.0.1.example@127.0.0.1:{0}"),
    "http://169.254.169.254/latest/meta-data/",
)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Stage]:
    """Another host: the same machine on another port, which every redirect here leads to."""
    with Stage() as stage:
        yield stage


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_an_error_and_never_followed(
    raw: RawDesk, elsewhere: Stage, status: int
) -> None:
    for number, place in enumerate(PLACES):
        lines = "\r\n".join(pointer.format(place.format(elsewhere.port)) for pointer in POINTERS)
        reply = f"HTTP/1.1 {status} Elsewhere\r\n{lines}\r\nContent-Length: 0\r\n\r\n".encode()
        model_id = raw.model(lambda visit, reply=reply: visit.send(reply))  # type: ignore[misc]  # The default pins the loop's value.
        response = raw.desk.post(model=model_id, stream=number % 2 == 0)

        error = raw.desk.check_error(response, 502, "unmapped")
        assert "raw-secret" not in response.text
        assert error["metadata"]["provider_name"] == "Raw"
        assert len(raw.visits(model_id)) == 1
    assert elsewhere.connections == 0


def test_an_answer_that_names_another_place_is_only_an_answer(
    raw: RawDesk, elsewhere: Stage
) -> None:
    """Also a cookie, or an alternative service, changes nothing for the next call. The key goes to
    nobody but the provider whose it is."""
    more = f'Alt-Svc: h2="127.0.0.1:{elsewhere.port}"\r\nSet-Cookie: a=b\r\n'.encode()
    reply = build_answer(answer_json("Here.")).replace(b"\r\n", b"\r\n" + more, 1)
    model_id = raw.model(lambda visit: visit.send(reply))

    for _ in range(2):
        assert raw.desk.post(model=model_id).status_code == 200

    assert elsewhere.connections == 0
    assert raw.desk.upstream.requests() == []
    for visit in raw.visits(model_id):
        assert b"cookie" not in visit.head.lower()
        assert b"Authorization: Bearer raw-secret" in visit.head


# --- U2: slow upstreams ---------------------------------------------------------------------------

# The time in which a part of an error's body is waited for.
ERROR_BODY_S = 2.0
STEP_S = 0.1
STATUS = b"HTTP/1.1 200 OK\r\n"
NOTHING = event({"choices": [{"index": 0, "delta": {}}]})


class Slow(NamedTuple):
    """What comes at once, and then again and again, or a few times. The head of `began` None is a
    good one."""

    limit_s: float
    code: int
    stream: bool
    began: bytes | None = None
    again: bytes = b""
    times: int = 1_000_000

    def play(self, visit: Visit) -> None:
        kind = EVENTS if json.loads(visit.body).get("stream") else JSON
        visit.send(head(kind) if self.began is None else self.began)
        for _ in range(self.times if self.again else 0):
            visit.send(self.again)
            visit.silence(STEP_S)
        visit.silence()


DROP = chunk(event(content("Drop. ")))
ERROR = b"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\n\r\n"
CASES = {
    "nothing": Slow(FIRST_BYTE_S, 524, False, b""),
    "nothing of a stream": Slow(FIRST_BYTE_S, 524, True, b""),
    "half a head": Slow(FIRST_BYTE_S, 524, False, STATUS + b"Content-Ty"),
    "a head that drips": Slow(FIRST_BYTE_S, 524, True, STATUS + b"X-Slow: ", b"x"),
    "interim answers": Slow(FIRST_BYTE_S, 524, True, b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "silence behind a head": Slow(IDLE_S, 524, False),
    "silence before a stream": Slow(IDLE_S, 524, True),
    "framing without a body": Slow(IDLE_S, 524, False, head(JSON, CHUNKED) + b"10;", b"x"),
    "silence behind content": Slow(
        IDLE_S + 5 * STEP_S, 524, True, head(EVENTS, CHUNKED), DROP, times=5
    ),
    "a byte at a time": Slow(TOTAL_S, 408, False, None, b"x"),
    "spaces": Slow(TOTAL_S, 408, False, None, b" \n"),
    "comments": Slow(TOTAL_S, 408, True, None, b": thinking\n\n"),
    "empty events": Slow(TOTAL_S, 408, True, None, NOTHING),
    "content": Slow(TOTAL_S, 408, True, None, event(content("more "))),
    "an error that drips": Slow(ERROR_BODY_S, 503, False, ERROR, b"x"),
    "an error of a stream that drips": Slow(ERROR_BODY_S, 503, True, ERROR, b"x"),
}


@dataclass
class Outcome:
    response: requests.Response
    elapsed_s: float
    visit: Visit
    charged_nano: int


@pytest.fixture(scope="module")
def outcomes(sit_down: Callable[[], RawDesk]) -> dict[str, Outcome]:
    raw = sit_down()
    models = {name: raw.model(case.play) for name, case in CASES.items()}

    def run(name: str) -> Outcome:
        began = time.monotonic()
        response = raw.desk.post(model=models[name], stream=CASES[name].stream)
        elapsed_s = time.monotonic() - began
        charged_nano = raw.desk.ledger_nano(response.headers["X-Generation-Id"])
        return Outcome(response, elapsed_s, raw.visit(models[name]), charged_nano)

    with ThreadPoolExecutor(len(CASES)) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_slow_upstream_ends_at_its_limit(outcomes: dict[str, Outcome], name: str) -> None:
    case, outcome = CASES[name], outcomes[name]

    assert error_of(outcome.response)["code"] == case.code
    # All cases run at once, on a machine that may do other things too.
    in_time(outcome.elapsed_s, case.limit_s * 1.1 + 0.75, at_least_s=case.limit_s * 0.9)
    assert outcome.charged_nano == 0
    assert outcome.visit.closed.wait(60), "the upstream's connection was left open"


def test_every_place_is_free_again(raw: RawDesk, outcomes: dict[str, Outcome]) -> None:
    gate = threading.Event()

    def answer_at_gate(visit: Visit) -> None:
        visit.wait_open(gate)
        good_stream("Fine.")(visit)

    model_id = raw.model(answer_at_gate)
    with ThreadPoolExecutor(CONCURRENCY_MAX) as pool:
        asked = [
            pool.submit(raw.desk.post, model=model_id, stream=True) for _ in range(CONCURRENCY_MAX)
        ]
        raw.visit(model_id, CONCURRENCY_MAX)
        one_more = raw.desk.post(model=model_id, stream=True)
        gate.set()

    assert {each.result().status_code for each in asked} == {200}
    # The twin: the bound counts.
    assert one_more.status_code == 503
    assert one_more.headers["Retry-After"]


def test_connections_are_bounded_and_the_next_waits_for_one_to_end(raw: RawDesk) -> None:
    port, ask = int(raw.server.env["PORT"]), head_bytes(method="GET", path="/healthz")
    with ExitStack() as stack:
        # Four connections for each request in progress.
        wires = [
            stack.enter_context(closing(RawConnection(port)))
            for _ in range(4 * CONCURRENCY_MAX + 1)
        ]
        *others, last = wires
        for wire in others:
            wire.send(ask[:-2])
        last.send(ask)
        last.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            last.more()

        others[0].send(ask[-2:])
        assert others[0].body(others[0].head()[1])
        others[0].close()

        last.socket.settimeout(20)
        assert last.head()[0] == 200
