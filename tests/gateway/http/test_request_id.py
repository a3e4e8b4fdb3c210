"""The id of a request: whose it is, and that every answer says it."""

import json
from collections.abc import Callable
from typing import Any
from wsgiref.util import FileWrapper

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.request_id import (
    TraceParent,
    begin_request,
    end_request,
    get_request_id,
    read_request_time,
)
from gateway.server.front import FrontDoor

VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@given(VISIBLE)
def test_a_sane_id_of_the_caller_s_is_kept(given_id: str) -> None:
    assert begin_request({"HTTP_X_REQUEST_ID": given_id}).id == given_id == get_request_id()
    end_request()
    assert get_request_id() is None


@pytest.mark.parametrize("odd", ["", " ", "a b", "ü", "a\n", "x" * 129, "\x7f"])
def test_another_is_replaced_by_one_of_our_own(odd: str) -> None:
    ids = {begin_request({"HTTP_X_REQUEST_ID": odd}).id, begin_request({}).id}
    assert len(ids) == 2
    assert all(each.startswith("req-") and len(each) == 28 for each in ids)
    assert len({read_request_time(each) for each in ids} - {None}) in (1, 2)
    assert read_request_time("req-1") is None
    end_request()


@pytest.mark.parametrize(
    ("given_trace", "read"),
    [
        (f"00-{TRACE}-{SPAN}-01", TraceParent(TRACE, SPAN, "01")),
        (f"01-{TRACE}-{SPAN}-00-more", TraceParent(TRACE, SPAN, "00")),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        ("", None),
    ],
)
def test_a_trace_is_read_as_the_standard_has_it(given_trace: str, read: TraceParent | None) -> None:
    assert begin_request({"HTTP_TRACEPARENT": given_trace}).trace == read
    end_request()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/chat/completions"),
        ("POST", "/api/v1/messages"),
        ("PUT", "/api/v1/chat/completions"),
        ("GET", "/api/v1/keys/none"),
        ("GET", "/api/v1/nowhere"),
        ("GET", "/healthz"),
        ("GET", "/docs"),
        ("GET", "/static/gateway/docs.css"),
        ("OPTIONS", "/api/v1/chat/completions"),
    ],
)
@pytest.mark.django_db
def test_every_answer_says_it_and_so_does_every_error(method: str, path: str) -> None:
    sent: list[tuple[str, list[tuple[str, str]]]] = []
    headers = {"X-Request-Id": "mine-1", "Origin": "https://elsewhere.test"}
    environ = RequestFactory(headers=headers).generic(method, path).environ
    environ["HTTP_ACCESS_CONTROL_REQUEST_METHOD"] = "POST"
    # As gunicorn does, which sends files by itself.
    environ["wsgi.file_wrapper"] = FileWrapper

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Callable[..., Any]:
        sent.append((status, headers))
        return lambda data: None

    response = FrontDoor()(environ, start_response)
    body = b"".join(response)
    response.close()

    ((status, answered),) = sent
    assert [value for name, value in answered if name.lower() == "x-request-id"] == ["mine-1"]
    if status >= "4" and path.startswith("/api"):
        assert json.loads(body)["error"]["metadata"]["request_id"] == "mine-1"
    assert get_request_id() is None
