"""Rows 71 to 73 of the management reference's section 19, and what its section 11 says of contents,
sessions and figures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from accounts.identity import own_tokens
from tests.conformance.desk import HELLO, Desk, exact, nano
from tests.conformance.test_management_rows import error_of
from tests.support.server import as_json

pytestmark = pytest.mark.both
LOGGING = {"name": "Logged", "slug": "logged", "is_observability_io_logging_enabled": True}


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


def in_workspace(desk: Desk, **settings: Any) -> Desk:
    """A caller with a new key of a new workspace, whose contents are kept unless said otherwise."""
    made = desk.manage("POST", "/workspaces", LOGGING | settings)
    assert made.status_code == 201, made.text
    wanted = {"name": "logged", "workspace_id": as_json(made)["data"]["id"]}
    key = desk.manage("POST", "/keys", wanted)
    assert key.status_code == 201, key.text
    return replace(desk, account=replace(desk.account, api_key=as_json(key)["key"]))


def content_response(desk: Desk, generation_id: str, *, key: str = "") -> requests.Response:
    path = f"/api/v1/generation/content?id={generation_id}"
    return desk.server.get(path, key=key or desk.account.api_key)


def content(desk: Desk, generation_id: str) -> Any:
    response = content_response(desk, generation_id)
    assert response.status_code == 200, response.text
    return as_json(response)["data"]


def test_no_content_without_logging(desk: Desk) -> None:
    answer = desk.ok()

    error_of(content_response(desk, answer["id"]), 404)
    error_of(content_response(desk, "gen-nowhere"), 404)
    error_of(content_response(desk, ""), 400)


def test_content_is_there_right_after_the_answer(desk: Desk, account: Any) -> None:
    desk, stranger = in_workspace(desk), account()
    answer = desk.ok()

    kept = content(desk, answer["id"])

    assert kept["input"] == {"messages": HELLO}
    assert kept["output"]["completion"] == answer["choices"][0]["message"]["content"]
    assert kept["error"] is None
    assert "truncated" not in kept
    for key in (stranger.api_key, stranger.management_key):
        error_of(content_response(desk, answer["id"], key=key), 404)
    shown = content_response(desk, answer["id"], key=desk.account.management_key)
    assert shown.status_code == 200
    stream = desk.stream()
    kept = content(desk, stream.response.headers["X-Generation-Id"])
    assert kept["output"]["completion"] == stream.text


def test_content_of_failures(desk: Desk) -> None:
    desk = in_workspace(desk)
    broken = {"status": 500, "json": {"error": {"message": "broken"}}}
    for stream in (False, True):
        desk.upstream.script("gamma", broken)
        failed = desk.post(stream=stream)
        assert failed.status_code == 502
        kept = content(desk, failed.headers["X-Generation-Id"])
        assert kept["output"] == {"completion": None, "reasoning": None}
        assert kept["error"]["message"] == as_json(failed)["error"]["message"]
        told = (kept["error"][name] for name in ("status", "provider_name", "previous_errors"))
        assert tuple(told) == (502, "Gamma", [])

    desk.upstream.script("gamma", {"events": [{"text": "So far"}, {"cut": "close"}]})
    response = desk.post(stream=True)
    assert "So far" in response.text
    kept = content(desk, response.headers["X-Generation-Id"])
    assert (kept["output"]["completion"], kept["error"]["status"]) == ("So far", 502)


def test_feedback(desk: Desk, account: Any) -> None:
    path = "/generation/feedback"
    said = {"generation_id": desk.ok()["id"], "category": "latency", "comment": "slow"}

    given = desk.manage("POST", path, said)

    assert (given.status_code, as_json(given)) == (200, {"data": {"success": True}})
    stranger = account().management_key
    error_of(desk.server.post(f"/api/v1{path}", key=stranger, json=said), 404)
    for wrong in ({"category": "cost"}, {"comment": "c" * 1001}, {"generation_id": ""}):
        error_of(desk.manage("POST", path, said | wrong), 400)


def test_what_a_token_says_is_on_record_and_no_header_says_otherwise(
    desk: Desk, settings: Any
) -> None:
    home = Path(desk.server.env["GATEWAY_HOME"])
    settings.VAULT_MASTER_KEY = (home / "secrets" / "vault_master_key").read_text().strip()
    token = own_tokens.issue(desk.account.api_key_hash, tags={"team": "build"})
    program = replace(desk, account=replace(desk.account, api_key=token))

    answer = program.ok(headers={"X-Tags": "team=other,run=7"})

    assert desk.generation(answer["id"])["tags"] == {"team": "build", "run": "7"}


def test_records_and_figures_tell_who_asked_at_once(desk: Desk) -> None:
    headers = {
        "HTTP-Referer": "https://app.example/chat?q=1",
        "X-Router-Title": "Chatty",
        "User-Agent": "tests/1",
        "x-session-id": "s",
    }
    answer = desk.ok(
        user="alice",
        headers=headers | {"X-Tags": "team=blue, cost%20center=4%2C711"},
        metadata={"feature": "search", "team": "red"},
        trace={"trace_id": "t-1", "run": 7, "nested": {"no": "tag"}},
    )
    asked = {
        "metrics": ["request_count", "credits_usage", "tokens_total", "p50_latency"],
        "dimensions": ["app", "external_user"],
    }

    found = desk.manage("POST", "/analytics/query", asked)

    record = desk.generation(answer["id"])
    told = {
        "app_id": "https://app.example/chat",
        "origin": "https://app.example",
        "http_referer": headers["HTTP-Referer"],
        "user_agent": "tests/1",
        "session_id": "s",
        "user": "alice",
        "tags": {"team": "blue", "cost center": "4,711", "feature": "search", "run": "7"},
        "data_region": "global",
        "workspace_id": desk.account.workspace_id,
    }
    assert {name: record[name] for name in told} == told
    others = desk.server.get(
        f"/api/v1/generation?id={answer['id']}", key=desk.account.management_key
    )
    assert as_json(others)["data"]["user"] is None
    # As providers are told of the same user.
    assert record["external_user"] != "alice"
    assert len(record["external_user"]) == 64
    assert found.status_code == 200, found.text
    data = exact(found)["data"]
    (row,) = data["data"]
    assert (row["app"], row["app_id"]) == ("Chatty", record["app_id"])
    assert row["external_user"] == record["external_user"]
    assert row["request_count"] == 1
    assert nano(row["credits_usage"]) == desk.paid_nano(answer)
    assert row["tokens_total"] == answer["usage"]["total_tokens"]
    assert row["p50_latency"] == record["latency"]
    assert (data["metadata"]["row_count"], data["metadata"]["truncated"]) == (1, False)
