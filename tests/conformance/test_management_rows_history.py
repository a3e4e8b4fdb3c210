"""Rows 71 to 73 of the management reference's section 19, and what its section 11 says of contents,
sessions and figures."""

from dataclasses import replace
from typing import Any

import pytest
import requests

from tests.conformance.desk import HELLO, TEXT, Desk, exact, nano
from tests.conformance.test_management_rows import error_of
from tests.support.server import as_json

pytestmark = pytest.mark.both
QUERY = "/api/v1/analytics/query"
LOGGING = {"name": "Logged", "slug": "logged", "is_observability_io_logging_enabled": True}


def manage(desk: Desk, method: str, path: str, body: Any = None) -> requests.Response:
    options = {} if body is None else {"json": body}
    key = desk.account.management_key
    return desk.server.request(method, f"/api/v1{path}", key=key, **options)


def in_workspace(desk: Desk, **settings: Any) -> Desk:
    """A caller with a new key of a new workspace, whose contents are kept unless said otherwise."""
    made = manage(desk, "POST", "/workspaces", LOGGING | settings)
    assert made.status_code == 201, made.text
    wanted = {"name": "logged", "workspace_id": as_json(made)["data"]["id"]}
    key = manage(desk, "POST", "/keys", wanted)
    assert key.status_code == 201, key.text
    return replace(desk, account=replace(desk.account, api_key=as_json(key)["key"]))


def content_response(desk: Desk, generation_id: str) -> requests.Response:
    path = f"/api/v1/generation/content?id={generation_id}"
    return desk.server.get(path, key=desk.account.api_key)


def content(desk: Desk, generation_id: str) -> Any:
    response = content_response(desk, generation_id)
    assert response.status_code == 200, response.text
    return as_json(response)["data"]


def test_no_content_without_logging(desk: Desk) -> None:
    answer = desk.ok()

    error_of(content_response(desk, answer["id"]), 404)
    error_of(content_response(desk, "gen-nowhere"), 404)
    error_of(content_response(desk, ""), 400)


def test_activity_of_a_day_long_ago(desk: Desk) -> None:
    long_ago = manage(desk, "GET", "/activity?date=1999-01-01")
    by_inference = desk.server.get("/api/v1/activity", key=desk.account.api_key)

    assert error_of(long_ago, 400)["metadata"]["issues"][0]["path"] == "date"
    said = error_of(by_inference, 403)["message"]
    assert said == "Only management keys can perform this operation"


def test_more_dimensions_than_two(desk: Desk) -> None:
    asked = {"metrics": ["request_count"], "dimensions": ["model", "app", "user"]}

    error = error_of(manage(desk, "POST", "/analytics/query", asked), 400)

    assert error["message"] == "dimensions: Too big: expected array to have <=2 items"


def test_content_is_there_right_after_the_answer(desk: Desk) -> None:
    desk = in_workspace(desk)
    answer = desk.ok()

    kept = content(desk, answer["id"])

    assert kept["input"] == {"messages": HELLO}
    assert kept["output"]["completion"] == answer["choices"][0]["message"]["content"]
    assert kept["error"] is None
    assert "truncated" not in kept


def test_content_of_a_stream(desk: Desk) -> None:
    desk = in_workspace(desk)
    stream = desk.stream()

    kept = content(desk, stream.response.headers["X-Generation-Id"])

    assert kept["output"]["completion"] == stream.text


@pytest.mark.parametrize("stream", [False, True])
def test_content_of_a_failure(desk: Desk, stream: bool) -> None:
    desk = in_workspace(desk)
    desk.upstream.script("gamma", {"status": 500, "json": {"error": {"message": "broken"}}})

    failed = desk.post(stream=stream)

    assert failed.status_code == 502
    kept = content(desk, failed.headers["X-Generation-Id"])
    assert kept["output"] == {"completion": None, "reasoning": None}
    assert kept["error"]["status"] == 502
    assert kept["error"]["provider_name"] == "Gamma"
    assert kept["error"]["previous_errors"] == []
    assert kept["error"]["message"] == as_json(failed)["error"]["message"]


def test_content_of_a_stream_that_broke(desk: Desk) -> None:
    desk = in_workspace(desk)
    desk.upstream.script("gamma", {"events": [{"text": "So far"}, {"cut": "close"}]})

    response = desk.post(stream=True)
    assert "So far" in response.text

    kept = content(desk, response.headers["X-Generation-Id"])
    assert kept["output"]["completion"] == "So far"
    assert kept["error"]["status"] == 502


@pytest.mark.parametrize("path", ["messages", "responses"])
def test_content_of_other_formats(desk: Desk, path: str) -> None:
    desk = in_workspace(desk)
    body: dict[str, Any] = {"model": desk.model, "max_tokens": 50, "messages": HELLO}
    if path == "responses":
        body = {"model": desk.model, "input": TEXT}

    answer = desk.server.post(f"/api/v1/{path}", key=desk.account.api_key, json=body)

    assert answer.status_code == 200, answer.text
    kept = content(desk, answer.headers["X-Generation-Id"])
    (asked,) = kept["input"]["messages"]
    assert asked["role"] == "user"
    assert TEXT in str(asked["content"])
    assert kept["output"]["completion"] in answer.text


@pytest.mark.parametrize(
    ("settings", "body"),
    [
        ({"is_observability_io_logging_enabled": False}, {}),
        ({"io_logging_api_key_ids": []}, {}),
        # By the hash of the session: this one is far from the first thousandth.
        ({"io_logging_sampling_rate": 0.001}, {"session_id": "b"}),
        ({}, {"model": "acme/small", "provider": {"zdr": True}}),
    ],
)
def test_what_is_not_kept(desk: Desk, settings: dict[str, Any], body: dict[str, Any]) -> None:
    desk = in_workspace(desk, **settings)
    answer = desk.ok(**body)

    assert desk.generation_response(answer["id"]).status_code == 200
    error_of(content_response(desk, answer["id"]), 404)


def test_content_of_other_accounts_is_not_there(desk: Desk, account: Any) -> None:
    desk, stranger = in_workspace(desk), account()
    answer = desk.ok()
    path = f"/api/v1/generation/content?id={answer['id']}"

    for key in (stranger.api_key, stranger.management_key):
        error_of(desk.server.get(path, key=key), 404)
    assert desk.server.get(path, key=desk.account.management_key).status_code == 200


def test_feedback(desk: Desk, account: Any) -> None:
    answer, stranger = desk.ok(), account()
    said = {"generation_id": answer["id"], "category": "latency", "comment": "slow"}

    given = manage(desk, "POST", "/generation/feedback", said)

    assert given.status_code == 200, given.text
    assert as_json(given) == {"data": {"success": True}}
    path = "/api/v1/generation/feedback"
    error_of(desk.server.post(path, key=stranger.management_key, json=said), 404)
    for wrong in ({"category": "cost"}, {"comment": "c" * 1001}, {"generation_id": ""}):
        error_of(manage(desk, "POST", "/generation/feedback", said | wrong), 400)


def test_a_record_tells_who_asked(desk: Desk) -> None:
    headers = {
        "HTTP-Referer": "https://app.example/chat?q=1",
        "X-Router-Title": "Chatty",
        "User-Agent": "tests/1",
        "x-session-id": "s",
    }
    answer = desk.ok(user="alice", headers=headers)

    record = desk.generation(answer["id"])

    assert record["app_id"] == "https://app.example/chat"
    assert record["origin"] == "https://app.example"
    assert record["http_referer"] == headers["HTTP-Referer"]
    assert record["user_agent"] == "tests/1"
    assert record["session_id"] == "s"
    assert record["data_region"] == "global"
    assert record["workspace_id"] == desk.account.workspace_id
    # As providers are told of the same user.
    assert record["external_user"] not in {None, "alice"}
    assert len(record["external_user"]) == 64


def test_figures_are_exact_at_once(desk: Desk) -> None:
    headers = {"HTTP-Referer": "https://app.example/", "X-Router-Title": "Chatty"}
    answer = desk.ok(user="alice", headers=headers)
    asked = {
        "metrics": ["request_count", "credits_usage", "tokens_total", "p50_latency"],
        "dimensions": ["app", "external_user"],
    }

    found = manage(desk, "POST", "/analytics/query", asked)

    assert found.status_code == 200, found.text
    data = exact(found)["data"]
    (row,) = data["data"]
    record = desk.generation(answer["id"])
    assert row["app"] == "Chatty"
    assert row["app_id"] == record["app_id"] == "https://app.example"
    assert row["external_user"] == record["external_user"]
    assert row["request_count"] == 1
    assert nano(row["credits_usage"]) == desk.paid_nano(answer)
    assert row["tokens_total"] == answer["usage"]["total_tokens"]
    assert row["p50_latency"] == record["latency"]
    assert (data["metadata"]["row_count"], data["metadata"]["truncated"]) == (1, False)
