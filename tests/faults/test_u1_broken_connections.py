"""U1: connections that end before there is an answer, byte by byte. The next endpoint answers,
every attempt is listed in both places, and the failed one costs nothing."""

import time
from typing import Any

import pytest

from tests.conformance.desk import exact, read_stream
from tests.support.promptness import in_time
from tests.support.raw_desk import REST_S, RawDesk, error_of
from tests.support.raw_upstream import JSON, Script, Visit, answer_json, content, event, head

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.support.raw_fixtures"]
METADATA = {"X-Router-Metadata": "enabled"}


def resets_on_request(visit: Visit) -> None:
    visit.reset()


def ends_without_a_byte(visit: Visit) -> None:
    visit.end()
    visit.silence()


def ends_in_the_status_line(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 2")
    visit.reset()


def ends_in_the_head(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    visit.end()
    visit.silence()


def is_no_http(visit: Visit) -> None:
    visit.send(b"\x16\x03\x01\x02\x00 ssh? smtp? 220 ready\r\n\r\n")
    visit.silence()


def speaks_http_0_9(visit: Visit) -> None:
    visit.send(answer_json("Without a head."))
    visit.end()
    visit.silence()


def resets_in_the_body(visit: Visit) -> None:
    body = answer_json("Most of it.")
    visit.send(head(JSON, b"Content-Length: %d" % len(body)) + body[:-5])
    visit.reset()


def resets_before_the_first_event(visit: Visit) -> None:
    visit.send(head() + event(content("Cut short."))[:-20])
    visit.reset()


WHOLE = [
    resets_on_request,
    ends_without_a_byte,
    ends_in_the_status_line,
    ends_in_the_head,
    is_no_http,
    speaks_http_0_9,
    resets_in_the_body,
]
STREAMS = [*WHOLE[:-1], resets_before_the_first_event]
WAYS = [(way, False) for way in WHOLE] + [(way, True) for way in STREAMS]


@pytest.mark.parametrize(("way", "stream"), WAYS)
def test_the_next_endpoint_answers_at_once(raw: RawDesk, way: Script, stream: bool) -> None:
    began = time.monotonic()

    response = raw.ask(way, kind="pair", stream=stream, headers=METADATA)

    in_time(time.monotonic() - began, REST_S)
    told: Any = read_stream(response).chunks[-1] if stream else exact(response)
    assert told["provider"] == "Second"
    attempts = told["router_metadata"]["attempts"]
    assert [(each["provider"], each["status"]) for each in attempts] == [
        ("Raw", 502),
        ("Second", 200),
    ]
    recorded = raw.desk.generation(told["id"])["provider_responses"]
    assert [(each["provider_name"], each["status"]) for each in recorded] == [
        ("Raw", 502),
        ("Second", 200),
    ]
    assert raw.desk.paid_nano(told) > 0


@pytest.mark.parametrize(("way", "stream"), WAYS)
def test_without_another_endpoint_nothing_is_paid(raw: RawDesk, way: Script, stream: bool) -> None:
    response = raw.ask(way, stream=stream)

    error = error_of(response)
    assert (error["code"], error["metadata"]["error_type"]) == (502, "provider_unavailable")
    assert raw.desk.charged_nano(response.headers["X-Generation-Id"]) == 0
