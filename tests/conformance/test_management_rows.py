"""Rows 1 to 5, 13, 40, 42 to 44, 68 to 70 and 82 to 84 of the management reference's section 19."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from tests.conformance.desk import CHAT, HELLO, PATIENCE_S, Desk, changed_workspace, exact, nano
from tests.conformance.money import book_usage
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
KEY_FIELDS = {
    *("label", "limit", "limit_remaining", "limit_reset", "include_byok_in_limit"),
    *("usage", "usage_daily", "usage_weekly", "usage_monthly"),
    *("byok_usage", "byok_usage_daily", "byok_usage_weekly", "byok_usage_monthly"),
    *("is_free_tier", "is_management_key", "is_provisioning_key", "creator_user_id", "rate_limit"),
}


def error_of(response: requests.Response, status: int) -> Any:
    """The error object; it must be JSON and repeat the status."""
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/json"
    error = as_json(response)["error"]
    assert error["code"] == status
    return error


def test_credits_are_for_management_keys(desk: Desk) -> None:
    for key, status, message in (
        ("", 401, "Missing Authentication header"),
        ("nope", 401, "Invalid API key"),
        (desk.account.api_key, 403, "Only management keys can perform this operation"),
    ):
        error = error_of(desk.server.get("/api/v1/credits", key=key), status)
        assert error["message"] == message


def test_credits_bought_and_used(
    gateway: GatewayServer, account: Callable[..., SeededAccount], orm_of: OrmOf
) -> None:
    mine = account(credits_usd="100.5")
    with orm_of(gateway):
        book_usage(mine.account_id, amount_nano=25_750_000_000)

    answer = gateway.get("/api/v1/credits", key=mine.management_key)

    assert answer.status_code == 200
    assert answer.text == '{"data":{"total_credits":100.5,"total_usage":25.75}}'


def test_the_crypto_charge_api_is_gone(gateway: GatewayServer) -> None:
    for key in ("", "nope"):
        error_of(gateway.post("/api/v1/credits/coinbase", key=key, json={"amount": 1}), 410)


def test_a_key_asks_about_itself(own_desk: Desk) -> None:
    desk = own_desk
    cost = desk.paid_nano(desk.ok())

    data = exact(desk.server.get("/api/v1/key", key=desk.account.api_key))["data"]

    assert data.keys() >= KEY_FIELDS
    assert data["is_management_key"] is data["is_provisioning_key"] is False
    assert data["rate_limit"]["requests"] == -1
    assert data["creator_user_id"] == desk.account.user_id
    assert re.fullmatch(r"sk-rt-v1-[0-9a-f]{3}\.\.\.[0-9a-f]{3}", data["label"])
    assert {nano(data[name]) for name in KEY_FIELDS if name.startswith("usage")} == {cost}
    assert desk.account.api_key not in json.dumps(data, default=str)
    other = as_json(desk.server.get("/api/v1/key", key=desk.account.management_key))["data"]
    assert other["is_management_key"] is other["is_provisioning_key"] is True


@pytest.mark.parametrize("stream", [False, True])
def test_more_output_than_can_be_paid(
    own_desk: Desk, account: Callable[..., SeededAccount], stream: bool
) -> None:
    desk = own_desk
    desk.account = account(credits_usd="0.001")

    error = desk.expect_refusal(402, "payment_required", max_tokens=65_536, stream=stream)

    assert error["message"].startswith("This request requires more credits, or fewer max_tokens.")
    assert error["metadata"]["provider_name"] is None
    assert error["metadata"]["limit_source"] == "router_credits"
    told = re.search(r"up to (\d+) tokens, but can only afford (\d+)\.", error["message"])
    assert told
    asked, affordable = map(int, told.groups())
    assert affordable < asked
    assert desk.paid_nano(desk.ok(max_tokens=affordable // 2)) > 0


def test_chat_with_a_management_key(desk: Desk) -> None:
    body = {"model": "acme/solo", "messages": HELLO}

    error = error_of(desk.server.post(CHAT, key=desk.account.management_key, json=body), 401)

    assert error["message"] == "Management keys cannot be used for inference"
    assert desk.upstream.requests() == []


def test_the_model_list_needs_no_key_but_a_good_one(gateway: GatewayServer) -> None:
    answer = gateway.get("/api/v1/models")

    assert answer.status_code == 200
    prices = [model["pricing"]["prompt"] for model in as_json(answer)["data"]]
    assert prices
    assert all(re.fullmatch(r"\d+(\.\d+)?", price) for price in prices)
    error_of(gateway.get("/api/v1/models", key="nope"), 401)
    error_of(gateway.get("/api/v1/models/x/unknown/endpoints"), 404)
    for query in ("limit=1001", "limit=0", "limit=x", "offset=-1"):
        error_of(gateway.get(f"/api/v1/models?{query}"), 400)


def test_a_generation_is_its_accounts_own(
    desk: Desk, account: Callable[..., SeededAccount]
) -> None:
    answer = desk.ok()
    mine, stranger = desk.account, account()
    path = f"/api/v1/generation?id={answer['id']}"

    record = exact(desk.server.get(path, key=mine.api_key))["data"]
    error_of(desk.server.get(path, key=stranger.api_key), 404)
    error_of(desk.server.get(path, key=stranger.management_key), 404)
    error_of(desk.server.get("/api/v1/generation", key=mine.api_key), 400)
    error_of(desk.server.get("/api/v1/generation?id=", key=mine.api_key), 400)
    error_of(desk.server.get("/api/v1/generation?id=%00", key=mine.api_key), 404)
    error_of(desk.server.get(path), 401)

    assert nano(record["usage"]) == desk.paid_nano(answer)
    assert record["model"] == "acme/solo"
    assert [each["status"] for each in record["provider_responses"]] == [200]


def test_a_trailing_slash_changes_nothing(desk: Desk) -> None:
    key = desk.account.management_key
    lists = ("models", "models/count", "models/acme/small/endpoints", "providers", "endpoints/zdr")
    asked = [("GET", f"/api/v1/{path}") for path in (*lists, "model/acme/small", "key", "credits")]
    asked += [("GET", "/api/v1/generation"), ("GET", "/api/v1/nope")]
    asked += [("POST", "/api/v1/credits/coinbase"), ("PUT", "/api/v1/credits")]

    def answer(method: str, path: str) -> tuple[int, str]:
        response = desk.server.request(method, path, key=key, allow_redirects=False)
        its_id = response.headers["X-Request-Id"]
        return response.status_code, response.text.replace(its_id, "the request's id")

    for method, path in asked:
        assert answer(method, f"{path}/") == answer(method, path), path


def test_a_chat_with_a_trailing_slash_keeps_its_body(desk: Desk) -> None:
    body = {"model": "acme/solo", "messages": HELLO, "temperature": 0.5}

    answer = desk.server.post(CHAT + "/", key=desk.account.api_key, json=body)

    assert answer.status_code == 200
    assert desk.the_one_sent()["temperature"] == 0.5
    assert desk.paid_nano(exact(answer)) > 0


def test_a_body_that_is_no_json(gateway: GatewayServer, account: Any) -> None:
    answer = gateway.post("/api/v1/keys", key=account().management_key, data=b"{bad")

    assert error_of(answer, 400)["message"] == "Invalid JSON in request body"


def test_a_wrong_method_and_an_unknown_path(gateway: GatewayServer) -> None:
    for method, path, allowed in (
        ("PUT", "/api/v1/credits", "GET, HEAD"),
        ("GET", "/api/v1/chat/completions", "POST"),
        ("DELETE", "/api/v1/models", "GET, HEAD"),
        ("PATCH", "/api/v1/generation", "GET, HEAD"),
        ("BREW", "/api/v1/key", "GET, HEAD"),
    ):
        answer = gateway.request(method, path)
        assert error_of(answer, 405)["message"] == "Method Not Allowed"
        assert answer.headers["Allow"] == allowed
    for path in ("/nope", "/api/v1/nope", "/api/nope/", "/api", "//nope", "/api/v1/%00"):
        assert error_of(gateway.get(path), 404)["message"] == "Not Found"


def test_a_tool_that_is_switched_off(own_desk: Desk) -> None:
    desk, search = own_desk, "router:web_search"
    assert desk.post(tools=[{"type": search}]).status_code == 400  # Nothing here could run it.

    changed_workspace(desk, disabled_server_tools=[search])
    asked: dict[str, Any] = {"tools": [{"type": search}]}
    desk.server.wait_until(lambda: desk.post(**asked).status_code == 403, within_s=PATIENCE_S)
    for kind in (search, "web_search"):
        error = desk.expect_refusal(403, "permission_denied", tools=[{"type": kind}])
        assert error["message"] == f'Server tool "{search}" is disabled in this workspace'
    assert desk.paid_nano(desk.ok()) > 0
