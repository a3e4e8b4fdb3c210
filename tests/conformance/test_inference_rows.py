"""Rows 1 to 16, 23 to 27, 55, 57, 58, 82 and 83 of the inference reference's section 12. They are
about who asks, with which parameters, tools, formats and money, and about the model list."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from routing.simulator.testing import RawConnection
from tests.conformance.desk import CHAT, HELLO, Desk, issue_paths
from tests.conformance.money import book_usage
from tests.support.server import GatewayServer, as_json

MIB = 1024 * 1024
ONLINE = "acme/solo:online"
ONLINE_PANEL = {"type": "router:fusion", "parameters": {"analysis_models": [ONLINE]}}
NATIVE_BASH = {"type": "router:bash", "parameters": {"engine": "native"}}
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def function(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize("header", ["", "Authorization: Basic x\r\n"])
def test_no_bearer_key_is_401_and_the_body_is_never_read(desk: Desk, header: str) -> None:
    wire = RawConnection(int(desk.server.env["PORT"]))
    # The announced body never comes: whoever answers has not waited for it.
    head = f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\n{header}Content-Length: 1000000\r\n\r\n"
    wire.send(head.encode())

    status, headers = wire.head()
    body = json.loads(wire.body(headers))

    wire.close()
    assert (status, body["error"]["code"]) == (401, 401)
    assert body["error"]["message"] == "Missing Authentication header"
    assert "user_id" not in body
    assert desk.upstream.requests() == []


def test_a_key_nobody_has_is_401(desk: Desk) -> None:
    wrong = desk.account.api_key[:-1] + ("0" if desk.account.api_key[-1] != "0" else "1")

    answer = desk.server.post(CHAT, key=wrong, json={"messages": 5})

    assert answer.status_code == 401
    assert as_json(answer)["error"]["message"] == "Invalid API key"


@pytest.mark.parametrize("body", [b"[1]", b"{", b""])
def test_a_body_that_is_no_json_object(desk: Desk, body: bytes) -> None:
    desk.check_refused(desk.raw(body), 400, "invalid_request")


# What a body says, and the field that its refusal names. Each field's bounds are `test_fields`'s.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages"),
    "a role": ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
    "session header": ({"headers": {"x-session-id": "s" * 257}}, "x-session-id"),
    "format without schema": (
        {"response_format": {"type": "json_schema"}},
        "response_format.json_schema",
    ),
    "preference": ({"provider": {"max_price": {"prompt": "x"}}}, "provider.max_price.prompt"),
}


@pytest.mark.parametrize(("body", "path"), WRONG.values(), ids=list(WRONG))
def test_a_field_out_of_bounds_is_named(desk: Desk, body: dict[str, Any], path: str) -> None:
    error = desk.expect_refusal(400, "invalid_request", **body)

    assert issue_paths(error) == [path]
    assert error["message"].startswith(path.split(".")[0])


def test_the_bodys_session_id_wins(desk: Desk) -> None:
    headers = {"x-session-id": "h"}
    both = desk.ok(session_id="b", headers=headers)
    header_only = desk.ok(headers=headers)

    assert desk.generation(both["id"])["session_id"] == "b"
    assert desk.generation(header_only["id"])["session_id"] == "h"
    for entry in desk.upstream.requests("gamma"):
        assert "session_id" not in entry["body"]
        assert "x-session-id" not in entry["headers"]


def test_a_request_s_id_and_trace_lead_from_the_caller_to_the_provider(desk: Desk) -> None:
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    headers = {"X-Request-Id": "mine-1", "traceparent": f"00-{trace}-{span}-01"}
    own, other = desk.post(headers=headers), desk.post()

    assert own.headers["X-Request-Id"] == "mine-1"
    ids = ["mine-1", other.headers["X-Request-Id"]]
    sent, without = (entry["headers"] for entry in desk.upstream.requests("gamma"))
    assert [each["x-client-request-id"] for each in (sent, without)] == ids
    version, sent_trace, sent_span, flags = sent["traceparent"].split("-")
    assert (version, sent_trace, flags) == ("00", trace, "01")
    assert sent_span != span
    assert "traceparent" not in without
    assert [desk.generation(as_json(each)["id"])["request_id"] for each in (own, other)] == ids
    assert desk.stream(headers=headers).chunks
    refused = desk.post(headers=headers, model=1)
    assert desk.check_error(refused, 400, "invalid_request")["metadata"]["request_id"] == "mine-1"


@pytest.mark.parametrize(
    "asked",
    [
        {"plugins": [{"id": "web"}]},
        {"plugins": [{"id": "file-parser", "pdf": {"engine": "mistral-ocr"}}]},
        {"tools": [NATIVE_BASH]},
        {"tools": [{"type": "router:web_search"}], "stream": True},
        {"tools": [{"type": "router:subagent", "parameters": {"tools": [NATIVE_BASH]}}]},
        {"tools": [{"type": "router:advisor", "parameters": {"model": ONLINE}}]},
        {"tools": [{"type": "router:subagent", "parameters": {"tools": [ONLINE_PANEL]}}]},
        {"plugins": [{"id": "fusion", "analysis_models": [ONLINE]}]},
    ],
)
def test_what_nothing_here_runs_is_refused_and_never_ignored(
    desk: Desk, asked: dict[str, Any]
) -> None:
    desk.expect_refusal(400, "invalid_request", **asked)


@pytest.mark.parametrize("balance_nano", [-1_000_000_000, 0], ids=["overdrawn", "empty"])
def test_without_money_there_are_free_answers_at_most(
    own_desk: Desk, orm_of: OrmOf, balance_nano: int
) -> None:
    desk = own_desk
    with orm_of(desk.server):
        book_usage(desk.account.account_id, until_balance_nano=balance_nano)
    desk.spent_nano = desk.total_usage_nano()

    paid = desk.expect_refusal(402, "payment_required", model="acme/small")

    assert paid["metadata"]["limit_source"] == "router_credits"
    assert paid["metadata"]["remedy_hint"]
    if balance_nano < 0:
        free = desk.expect_refusal(402, "payment_required", model="acme/small:free")
        page = f"/admin/accounts/account/{desk.account.account_id}/change/"
        assert free["message"] == (
            "Insufficient credits. Whoever runs this gateway can add credits, using "
            f"{desk.server.root_url}{page}"
        )
        # It asks who wants to see it.
        assert desk.server.get(page).url.endswith(f"/console/sign-in?next={page}")
    else:
        assert desk.paid_nano(desk.ok(model="acme/small:free")) == 0


@pytest.mark.parametrize("counted", [True, False], ids=["Content-Length", "chunked"])
def test_a_body_of_33_mib(desk: Desk, counted: bool) -> None:
    start = json.dumps({"model": "acme/solo", "messages": HELLO}).encode()
    body = start + b" " * (33 * MIB - len(start))
    pieces = (body[at : at + MIB] for at in range(0, len(body), MIB))

    answer = desk.server.post(CHAT, key=desk.account.api_key, data=body if counted else pieces)

    error = desk.check_refused(answer, 413, "payload_too_large")
    assert error["message"] == "Request payload too large"
