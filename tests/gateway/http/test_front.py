"""The straight way in answers what the long way would."""

from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory
from django.urls import resolve

from gateway.http.front import FrontDoor

Answer = tuple[str, bytes]


@pytest.fixture(scope="module")
def door() -> FrontDoor:
    return FrontDoor()


def answer(door: FrontDoor, path: str) -> Answer:
    """Status line and body."""
    statuses: list[str] = []
    environ = RequestFactory().post(path).environ

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        statuses.append(status)

    response = door(environ, start_response)
    body = b"".join(response)
    response.close()
    return statuses[0], body


def test_every_straight_path_leads_where_the_url_map_leads(door: FrontDoor) -> None:
    straight = door._straight

    assert "/api/v1/chat/completions" in straight
    assert all(resolve(path).func is view for path, view in straight.items())


def test_only_paths_that_answer_their_own_failures_go_straight(door: FrontDoor) -> None:
    assert not {"/admin", "/docs", "/healthz", "/readyz"} & set(door._straight)
    assert not any(path.startswith("/admin") for path in door._straight)


@pytest.mark.parametrize("path", ["/api/v1/chat/completions", "/api/v1/credits"])
def test_both_ways_give_the_same_answer(door: FrontDoor, path: str) -> None:
    assert answer(door, path) == answer(door, f"{path}/")


def test_a_request_is_closed_with_its_response(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[WSGIRequest] = []
    monkeypatch.setattr(WSGIRequest, "close", lambda request: closed.append(request))

    answer(door, "/api/v1/chat/completions")

    assert len(closed) == 1


def test_a_path_nobody_knows_is_told_in_json(door: FrontDoor) -> None:
    status, body = answer(door, "/api/v1/nowhere")

    assert status == "404 Not Found"
    assert b'"error"' in body
