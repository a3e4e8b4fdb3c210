"""What is answered: JSON without Django's constructor, refusals byte for byte, bugs seen from
outside. The straight way in answers what the long way would."""

import json
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import BadHeaderError, HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import resolve
from gunicorn.http import errors as http_errors

from gateway.http.errors import NotFound
from gateway.http.handlers import handle_server_error
from gateway.http.refusal_lines import LINES_PER_S, RefusalLines
from gateway.http.responses import raw_json_response
from gateway.http.viewset import LeanViewSet
from gateway.server import front
from gateway.server.connection import HeadTooSlow, describe_failure, write_failure
from gateway.server.front import FrontDoor, limit_port

CHAT = "/api/v1/chat/completions"


def parts(response: HttpResponse) -> dict[str, object]:
    """Everything it is made of."""
    return {**vars(response), "headers": dict(response.headers)}


@pytest.mark.parametrize("headers", [None, {"X-Generation-Id": "gen-1", "Retry-After": "2"}])
def test_it_is_what_django_would_have_made(headers: dict[str, str] | None) -> None:
    ours = raw_json_response(b'{"a":1}', status=201, headers=headers)

    theirs = HttpResponse(b'{"a":1}', status=201, content_type="application/json", headers=headers)
    theirs["Content-Length"] = "7"

    assert parts(ours) == parts(theirs)
    assert ours.reason_phrase == theirs.reason_phrase == "Created"
    assert sorted(ours.serialize().splitlines()) == sorted(theirs.serialize().splitlines())


def test_no_header_breaks_into_two() -> None:
    with pytest.raises(BadHeaderError, match="X-Bad"):
        raw_json_response(b"{}", headers={"X-Bad": "1\r\nSet-Cookie: a=b"})


MALFORMED = (400, "Malformed HTTP request")
REFUSALS: list[tuple[BaseException, tuple[int, str]]] = [
    (http_errors.LimitRequestHeaders("too many"), (431, "Request header fields too large")),
    (http_errors.LimitRequestLine(5000, 4094), (400, "Request line too long")),
    (http_errors.InvalidHeader("x"), MALFORMED),
    (http_errors.InvalidRequestLine("x"), MALFORMED),
    (http_errors.InvalidHTTPVersion("x"), MALFORMED),
    (http_errors.InvalidRequestMethod("x"), MALFORMED),
    (http_errors.InvalidHeaderName("x"), MALFORMED),
    (http_errors.InvalidChunkSize(b"x"), MALFORMED),
    (HeadTooSlow(), (408, "The request head took too long")),
    (ValueError("a secret of ours"), (500, "Internal Server Error")),
]


@pytest.mark.parametrize(("error", "told"), REFUSALS)
def test_a_refusal_of_gunicorn_s_is_a_whole_json_response_that_ends_the_connection(
    error: BaseException, told: tuple[int, str]
) -> None:
    status, message = describe_failure(error)
    assert (status, message) == told

    head, body = write_failure(status, message, "of-my-own").split(b"\r\n\r\n", 1)

    first, *lines = head.decode().split("\r\n")
    assert first.startswith(f"HTTP/1.1 {status} ")
    content_type, its_id, length, closes = lines
    assert its_id == "X-Request-Id: of-my-own"
    assert (content_type, closes) == ("Content-Type: application/json", "Connection: close")
    assert length == f"Content-Length: {len(body)}"
    metadata = {
        "error_type": {408: "timeout", 500: "server"}.get(status, "invalid_request"),
        "request_id": "of-my-own",
    }
    shown = {"code": status, "message": message, "metadata": metadata}
    assert json.loads(body) == {"error": shown}


class Refusing(LeanViewSet):
    def create(self, request: HttpRequest) -> HttpResponse:
        raise NotFound


def test_a_refusal_has_a_line_in_which_no_path_begins_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    view: Any = Refusing.as_view({"post": "create"})
    with caplog.at_level("INFO", logger="gateway.refusals"):
        view(RequestFactory().post("/keys/a%0Ab"))
        view(RequestFactory().get("/keys"))
    assert [record.getMessage() for record in caplog.records] == [
        "POST /keys/a\\nb: 404 not_found",
        "GET /keys: 405 invalid_request",
    ]


def test_a_flood_of_refusals_has_so_many_lines_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = [10.0]
    lines = RefusalLines(lambda: clock[0])
    with caplog.at_level("INFO", logger="gateway.refusals"):
        for _ in range(LINES_PER_S + 3):
            lines.write("GET /", 401, "invalid_key")
        clock[0] = 11.0
        lines.write("GET /", 401, "invalid_key")
        lines.write("GET /", 401, "invalid_key", request_id="req-1")
    *_, first, second = (record.getMessage() for record in caplog.records)
    assert len(caplog.records) == LINES_PER_S + 2
    assert first == "GET /: 401 invalid_key; 3 others were left out"
    assert second == "GET /: 401 invalid_key [req-1]"


class Broken(LeanViewSet):
    def create(self, request: HttpRequest) -> HttpResponse:
        self.beside = {"user_id": "user_1", "router_metadata": {"attempt": 1}}
        raise RuntimeError("a secret of ours")


def test_a_500_says_whose_it_was_and_nothing_of_routing(caplog: pytest.LogCaptureFixture) -> None:
    view: Any = Broken.as_view({"post": "create"})

    response = view(RequestFactory().post("/"))

    assert response.status_code == 500
    error = {"code": 500, "message": "Internal Server Error", "metadata": {"error_type": "server"}}
    assert json.loads(response.content) == {"error": error, "user_id": "user_1"}
    assert "a secret of ours" in caplog.text


@pytest.mark.parametrize(("path", "type"), [("/console/keys", "text/html"), ("/api/x", "json")])
def test_what_fails_beside_viewsets_is_logged_too(
    caplog: pytest.LogCaptureFixture, path: str, type: str
) -> None:
    try:
        raise RuntimeError("a secret of ours")
    except RuntimeError:
        response = handle_server_error(RequestFactory().get(path))

    assert (response.status_code, type in response["Content-Type"]) == (500, True)
    assert "Internal Server Error" in response.text
    assert "a secret" not in response.text
    (line,) = caplog.records
    assert (line.getMessage(), line.levelname) == (f"GET {path} failed", "ERROR")
    assert "a secret of ours" in caplog.text


# --- The straight way in --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def door() -> FrontDoor:
    return FrontDoor()


def answer(door: FrontDoor, path: str, **sent: str) -> tuple[str, bytes]:
    """Status line and body."""
    statuses: list[str] = []
    environ = RequestFactory(headers={"X-Request-Id": "mine-1"}).post(path).environ | sent

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        statuses.append(status)

    response = door(environ, start_response)
    body = b"".join(response)
    response.close()
    return statuses[0], body


def test_only_paths_that_answer_their_own_failures_go_straight(door: FrontDoor) -> None:
    straight = door._straight
    assert CHAT in straight
    assert all(resolve(path).func is view for path, view in straight.items())
    assert not {"/docs", "/healthz", "/readyz"} & set(straight)
    assert not any(path.startswith("/admin") for path in straight)


def test_a_port_that_is_limited_answers_nothing_else(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ports of the process, which other tests share.
    monkeypatch.setattr(front, "_limited_ports", {})
    limit_port(8001, [("POST", CHAT)])
    limited, there = FrontDoor(), {"SERVER_PORT": "8001"}

    assert answer(limited, CHAT, **there) == answer(door, CHAT)
    elsewhere = {"HTTP_HOST": f"x{door._host_part}"}
    assert answer(limited, CHAT, **there, **elsewhere) == answer(door, CHAT)
    for path, sent in (
        (CHAT, {"REQUEST_METHOD": "GET"}),
        (f"{CHAT}/", {}),
        ("/api/v1/credits", {}),
        ("/admin/", {}),
        ("/", elsewhere),
    ):
        assert answer(limited, path, **there, **sent)[0] == "404 Not Found"
    assert answer(limited, "/api/v1/credits") == answer(door, "/api/v1/credits")


def test_both_ways_give_the_same_answer_and_close_their_request(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (CHAT, "/api/v1/credits"):
        assert answer(door, path) == answer(door, f"{path}/")
    status, body = answer(door, "/api/v1/nowhere")
    assert (status, set(json.loads(body))) == ("404 Not Found", {"error"})
    closed: list[WSGIRequest] = []
    monkeypatch.setattr(WSGIRequest, "close", lambda request: closed.append(request))
    answer(door, CHAT)
    assert len(closed) == 1
