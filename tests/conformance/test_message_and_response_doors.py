"""The doors of messages and responses: refusals, token counts, what only one wire can do."""

from typing import Any

import pytest
import requests

from tests.conformance.asking import MESSAGES, PERSONAS, RESPONSES, ok, post
from tests.conformance.desk import HELLO, Desk

COUNT = f"{MESSAGES}/count_tokens"
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@pytest.fixture
def desk(wire_desk: Desk) -> Desk:
    return wire_desk


def read_error(response: requests.Response, status: int, kind: str) -> Any:
    """The `error` of a messages error body; the rest of the body is as it must be."""
    body = response.json()
    assert response.status_code == status, body
    assert (body["type"], body["error"]["type"], body["error"]["code"]) == ("error", kind, status)
    assert body["request_id"] == response.headers.get("X-Generation-Id")
    return body["error"]


def count(desk: Desk, **body: Any) -> requests.Response:
    given = {"model": desk.model, "messages": HELLO, **body}
    return desk.server.post(COUNT, key=desk.account.api_key, json=given)


# --- Refusals and counts --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
def test_messages_tell_what_is_wrong_in_their_own_words(desk: Desk) -> None:
    read_error(post(desk, MESSAGES, model="acme/none"), 400, "invalid_request_error")
    read_error(post(desk, MESSAGES, provider={"only": ["nobody"]}), 404, "not_found_error")
    read_error(desk.server.get(MESSAGES, key=desk.account.api_key), 405, "invalid_request_error")
    huge = "x" * (33 * 1024 * 1024)
    read_error(post(desk, MESSAGES, system=huge), 413, "invalid_request_error")
    read_error(count(desk, messages=[]), 400, "invalid_request_error")
    read_error(count(desk, provider={"only": ["nobody"]}), 404, "not_found_error")
    assert desk.upstream.requests() == []


def test_an_upstreams_refusal_is_told_with_the_generations_id(desk: Desk, kind: str) -> None:
    for upstream, status, word, error_type in (
        ("422", 400, "invalid_request_error", "invalid_request"),
        ("429", 429, "rate_limit_error", "rate_limit_exceeded"),
        ("529", 529, "overloaded_error", "provider_overloaded"),
        ("401", 502, "api_error", "provider_unavailable"),
    ):
        desk.upstream.script(f"{PERSONAS[kind]}-a", {"fault": upstream})
        response = post(desk, MESSAGES, stream=upstream != "422")
        assert response.headers["Content-Type"] == "application/json"
        assert read_error(response, status, word)["error_type"] == error_type
        assert desk.charged_nano(response.headers["X-Generation-Id"]) == 0


def test_a_message_style_upstream_counts_itself(desk: Desk, kind: str) -> None:
    response = count(desk, system="You count.", max_tokens=99, stream=True)

    assert "X-Generation-Id" not in response.headers
    assert desk.total_usage_nano() == desk.spent_nano
    if kind == "anthropic":
        (asked,) = desk.upstream.requests("messages-a")
        assert asked["path"].endswith("/messages/count_tokens")
        assert {"max_tokens", "stream"}.isdisjoint(asked["body"])
        assert response.json() == {"input_tokens": 6}
    else:
        assert desk.upstream.requests() == []
        assert count(desk).json() == {"input_tokens": 2}


# --- What only one wire can do --------------------------------------------------------------------


def test_what_no_endpoint_takes_is_refused_by_its_name(desk: Desk, kind: str) -> None:
    servers = [{"type": "url", "url": "https://mcp.example", "name": "m"}]
    refused = read_error(post(desk, MESSAGES, mcp_servers=servers), 400, "invalid_request_error")
    assert refused["message"].startswith("mcp_servers: ")
    refused = read_error(post(desk, MESSAGES, container="c_1"), 400, "invalid_request_error")
    assert refused["message"] == "container: Invalid input: no endpoint takes it"
    ok(desk, MESSAGES, mcp_servers=[], container=None)
    if kind != "anthropic":
        refused = read_error(post(desk, MESSAGES, tools=[SEARCH]), 400, "invalid_request_error")
        assert refused["message"] == "server tool not available: web_search_20250305"
    if kind == "responses":
        assert post(desk, RESPONSES, conversation="conv_1").status_code == 400


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
def test_what_one_wire_can_do_stays_with_it(desk: Desk) -> None:
    """The model's other endpoint speaks chat, and has neither containers nor a search."""
    desk.model = "acme/boxed"
    beside = post(desk, MESSAGES, container="c_1", tools=[{"type": "router:datetime"}])
    assert "not beside tools" in read_error(beside, 400, "invalid_request_error")["message"]
    ok(desk, MESSAGES, container="c_1")
    (sent,) = desk.list_sent_bodies("messages-a")
    assert sent["container"] == "c_1"

    native: list[dict[str, Any]] = [{"container": "c_1"}, {"tools": [SEARCH]}]
    for asked in native:
        desk.upstream.script("messages-a", {"fault": "503"})
        read_error(post(desk, MESSAGES, **asked), 503, "overloaded_error")
    assert desk.upstream.requests("chat-a") == []
