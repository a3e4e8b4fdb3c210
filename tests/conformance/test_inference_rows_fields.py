"""Rows 23 to 27, 55, 57, 58, 82 and 83: tools, formats, unknown fields, money, the model list."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.conformance.desk import CHAT, HELLO, Desk, issue_paths
from tests.conformance.money import book_usage
from tests.support.server import GatewayServer, as_json

MIB = 1024 * 1024
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def function(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize("tools", [{}, {"tools": [function("y")]}])
def test_a_choice_of_a_tool_that_is_not_there(desk: Desk, tools: dict[str, Any]) -> None:
    error = desk.refused(400, "invalid_request", tool_choice=choice("x"), **tools)

    assert issue_paths(error) == ["tool_choice.function.name"]


def test_a_choice_of_a_tool_that_is_there(desk: Desk) -> None:
    answer = desk.ok(tools=[function("weather")], tool_choice=choice("weather"))

    assert desk.the_one_sent()["tool_choice"] == choice("weather")
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert answer["choices"][0]["message"]["content"] is None
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    assert desk.paid_nano(answer) > 0


@pytest.mark.parametrize("name", ["bad name!", "", "n" * 65])
def test_a_tool_name_that_is_none(desk: Desk, name: str) -> None:
    error = desk.refused(400, "invalid_request", tools=[function(name)])

    assert issue_paths(error) == ["tools.0.function.name"]


def test_a_schema_format_without_its_schema(desk: Desk) -> None:
    missing = desk.refused(400, "invalid_request", response_format={"type": "json_schema"})
    unknown = desk.refused(400, "invalid_request", response_format={"type": "yaml"})

    assert issue_paths(missing) == ["response_format.json_schema"]
    assert issue_paths(unknown) == ["response_format.type"]


def test_an_unknown_plugin(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", plugins=[{"id": "unknown"}])

    assert issue_paths(error) == ["plugins.0.id"]


NATIVE_BASH = {"type": "router:bash", "parameters": {"engine": "native"}}


@pytest.mark.parametrize(
    "asked",
    [
        {"plugins": [{"id": "web"}]},
        {"plugins": [{"id": "file-parser", "pdf": {"engine": "mistral-ocr"}}]},
        {"tools": [NATIVE_BASH]},
        {"tools": [{"type": "router:web_search"}], "stream": True},
        {"tools": [{"type": "router:subagent", "parameters": {"tools": [NATIVE_BASH]}}]},
    ],
)
def test_what_nothing_here_runs_is_refused_and_never_ignored(
    desk: Desk, asked: dict[str, Any]
) -> None:
    desk.refused(400, "invalid_request", **asked)


def test_an_unknown_provider_preference(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", provider={"foo": 1})
    desk.ok(provider=None)

    assert 'Unrecognized key: "foo"' in error["message"]
    assert "provider" not in desk.the_one_sent()


@pytest.fixture
def set_balance(desk: Desk, orm_of: OrmOf) -> Callable[[int], None]:
    """Bring the desk's account to this balance, by its books."""

    def change(balance_nano: int) -> None:
        with orm_of(desk.server):
            book_usage(desk.account.account_id, until_balance_nano=balance_nano)
        desk.spent_nano = desk.total_usage_nano()

    return change


def test_an_overdrawn_account_gets_no_free_answer_either(
    desk: Desk, set_balance: Callable[[int], None]
) -> None:
    set_balance(-1_000_000_000)

    error = desk.refused(402, "payment_required", model="acme/small:free")

    assert error["metadata"]["limit_source"] == "router_credits"
    assert error["message"].startswith("Insufficient credits.")


def test_an_empty_account_gets_free_answers_only(
    desk: Desk, set_balance: Callable[[int], None]
) -> None:
    set_balance(0)

    error = desk.refused(402, "payment_required", model="acme/small")
    free = desk.ok(model="acme/small:free")

    assert error["metadata"]["limit_source"] == "router_credits"
    assert error["metadata"]["remedy_hint"]
    assert desk.paid_nano(free) == 0


@pytest.mark.parametrize("counted", [True, False], ids=["Content-Length", "chunked"])
def test_a_body_of_33_mib(desk: Desk, counted: bool) -> None:
    start = json.dumps({"model": "acme/solo", "messages": HELLO}).encode()
    body = start + b" " * (33 * MIB - len(start))
    pieces = (body[at : at + MIB] for at in range(0, len(body), MIB))

    answer = desk.server.post(CHAT, key=desk.account.api_key, data=body if counted else pieces)

    error = desk.check_refused(answer, 413, "payload_too_large")
    assert error["message"] == "Request payload too large"


def test_unknown_fields_are_dropped_for_endpoints_that_do_not_list_them(desk: Desk) -> None:
    answer = desk.ok(foo=1, api_base="http://127.0.0.1:9", top_k=5)

    sent = desk.the_one_sent()
    assert sent.keys() <= {"model", "messages", "stream", "max_tokens"}
    assert desk.paid_nano(answer) > 0


def test_the_model_list_by_pages(desk: Desk) -> None:
    everything = as_json(desk.server.get("/api/v1/models"))
    seen, path = [], "/api/v1/models?limit=1"
    while path:
        page = as_json(desk.server.get(path))
        assert len(page["data"]) == 1
        assert page["total_count"] == everything["total_count"] == len(everything["data"])
        seen += page["data"]
        path = page["links"]["next"]

    assert [model["id"] for model in seen] == [model["id"] for model in everything["data"]]
    assert {"acme/small", "acme/solo", "acme/text"} <= {model["id"] for model in seen}


def test_the_endpoints_of_a_model(desk: Desk) -> None:
    answer = desk.server.get("/api/v1/models/acme/small/endpoints")

    data = as_json(answer)["data"]
    assert data["id"] == "acme/small"
    assert sorted(each["tag"] for each in data["endpoints"]) == ["alpha", "beta", "beta/turbo"]
    prices = {each["tag"]: each["pricing"]["prompt"] for each in data["endpoints"]}
    assert prices == {"alpha": "0.000001", "beta": "0.000002", "beta/turbo": "0.000005"}


def test_the_endpoints_of_no_model(desk: Desk) -> None:
    missing = desk.server.get("/api/v1/models/acme/none/endpoints")

    assert missing.status_code == 404
    assert as_json(missing)["error"]["metadata"]["error_type"] == "not_found"
