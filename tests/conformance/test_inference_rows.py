"""Rows 1 to 16 of the inference reference's section 12: who asks, and with which parameters."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pytest

from routing.simulator.testing import Wire
from tests.conformance.desk import CHAT, Desk, issue_paths
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both


@pytest.mark.parametrize("header", ["", "Authorization: Basic x\r\n"])
def test_no_bearer_key_is_401_and_the_body_is_never_read(desk: Desk, header: str) -> None:
    wire = Wire(int(desk.server.env["PORT"]))
    # The announced body never comes: whoever answers has not waited for it.
    head = f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\n{header}Content-Length: 1000000\r\n\r\n"
    wire.send(head.encode())

    status, headers = wire.head()
    body = json.loads(wire.body(headers))

    wire.close()
    assert status == 401
    assert body["error"]["code"] == 401
    assert body["error"]["message"] == "Missing Authentication header"
    assert "user_id" not in body
    assert desk.upstream.requests() == []


def test_a_key_nobody_has_is_401(desk: Desk) -> None:
    wrong = desk.account.api_key[:-1] + ("0" if desk.account.api_key[-1] != "0" else "1")

    answer = desk.server.post(CHAT, key=wrong, json={"messages": 5})

    assert answer.status_code == 401
    assert as_json(answer)["error"]["message"] == "Invalid API key"


def test_no_messages(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", messages=[])

    assert issue_paths(error) == ["messages"]


@pytest.mark.parametrize("body", [b"[1]", b"{", b"", b"null", b'"x"'])
def test_a_body_that_is_no_json_object(desk: Desk, body: bytes) -> None:
    desk.check_refused(desk.raw(body), 400, "invalid_request")


def test_an_unknown_role_is_named(desk: Desk) -> None:
    messages = [{"role": "wizard", "content": "x"}]

    error = desk.refused(400, "invalid_request", messages=messages)

    assert issue_paths(error) == ["messages.0.role"]
    assert error["message"].startswith("messages.0.role: ")


@pytest.mark.parametrize("value", [2.01, -0.01, "0.5", True])
def test_temperature_bounds(desk: Desk, value: Any) -> None:
    error = desk.refused(400, "invalid_request", temperature=value)

    assert issue_paths(error) == ["temperature"]


def test_null_temperature_is_absent_and_the_bounds_belong_to_the_range(desk: Desk) -> None:
    for value in (None, 0, 2, 0.7):
        desk.paid_nano(desk.ok(temperature=value))

    absent, low, high, between = desk.sent()
    assert "temperature" not in absent
    assert (low["temperature"], high["temperature"], between["temperature"]) == (0, 2, 0.7)


def test_too_many_top_logprobs(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", top_logprobs=21, logprobs=True)

    assert issue_paths(error) == ["top_logprobs"]


def test_top_logprobs_alone_are_not_sent_upstream(desk: Desk) -> None:
    alone = desk.ok(top_logprobs=5)
    both = desk.ok(top_logprobs=5, logprobs=True)

    assert alone["choices"][0]["logprobs"] is None
    assert len(both["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 5
    first, second = desk.sent()
    assert "top_logprobs" not in first
    assert (second["logprobs"], second["top_logprobs"]) == (True, 5)


def test_at_most_four_stop_strings(desk: Desk) -> None:
    assert issue_paths(desk.refused(400, "invalid_request", stop=list("abcde"))) == ["stop"]

    answer = desk.ok(stop="to", messages=[{"role": "user", "content": "say hello"}])

    assert desk.the_one_sent()["stop"] == "to"
    assert desk.paid_nano(answer) > 0


def test_frequency_penalty_bounds(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", frequency_penalty=-2.5)

    assert issue_paths(error) == ["frequency_penalty"]


@pytest.mark.parametrize(
    "metadata",
    [{f"k{n}": "v" for n in range(17)}, {"k" * 65: "v"}, {"k": "v" * 513}],
    ids=["17 pairs", "a key of 65", "a value of 513"],
)
def test_metadata_bounds(desk: Desk, metadata: dict[str, str]) -> None:
    error = desk.refused(400, "invalid_request", metadata=metadata)

    assert error["message"].startswith("metadata")


def test_metadata_at_its_bounds_stays_here(desk: Desk) -> None:
    metadata = {"k" * 62 + f"{n:02}": "\U0001f98a" * 512 for n in range(16)}

    desk.paid_nano(desk.ok(metadata=metadata))

    assert "metadata" not in desk.the_one_sent()


def test_a_long_session_id_in_body_or_header(desk: Desk) -> None:
    in_body = desk.refused(400, "invalid_request", session_id="s" * 257)
    in_header = desk.refused(400, "invalid_request", headers={"x-session-id": "s" * 257})

    assert issue_paths(in_body) == ["session_id"]
    assert issue_paths(in_header) == ["x-session-id"]


def test_the_bodys_session_id_wins(desk: Desk) -> None:
    headers = {"x-session-id": "h"}
    both = desk.ok(session_id="b", headers=headers)
    header_only = desk.ok(headers=headers)

    assert desk.generation(both["id"])["session_id"] == "b"
    assert desk.generation(header_only["id"])["session_id"] == "h"
    for entry in desk.upstream.requests("gamma"):
        assert "session_id" not in entry["body"]
        assert "x-session-id" not in entry["headers"]


def test_two_different_efforts(desk: Desk) -> None:
    different = desk.refused(
        400, "invalid_request", reasoning={"effort": "low"}, reasoning_effort="high"
    )
    desk.ok(reasoning={"effort": "low"}, reasoning_effort="low")

    assert issue_paths(different) == ["reasoning_effort"]
    sent = desk.the_one_sent()
    told = [sent.get("reasoning_effort"), (sent.get("reasoning") or {}).get("effort")]
    assert sorted(told, key=str) == [None, "low"]


def test_at_most_three_fallback_models(desk: Desk) -> None:
    error = desk.refused(400, "invalid_request", models=["a/1", "a/2", "a/3", "a/4"])

    assert issue_paths(error) == ["models"]


@pytest.mark.parametrize("extra", [{}, {"model": "acme/solo", "models": ["nope/none"]}])
def test_an_unknown_model(desk: Desk, extra: dict[str, Any]) -> None:
    error = desk.refused(400, "invalid_request", **({"model": "nope/none"} | extra))

    assert error["message"] == "nope/none is not a valid model ID"


def test_the_workspaces_default_model(
    desk: Desk, orm_of: Callable[[GatewayServer], AbstractContextManager[None]]
) -> None:
    from accounts.models import Workspace

    with orm_of(desk.server):
        mine = Workspace.objects.filter(pk=desk.account.workspace_id)
        mine.update(default_text_model="acme/small")
    body = {"messages": [{"role": "user", "content": "Hello"}]}

    response = desk.server.chat(key=desk.account.api_key, **body)

    answer = json.loads(response.text, parse_float=Decimal)
    assert response.status_code == 200
    assert answer["model"] == "acme/small"
    assert desk.generation(answer["id"])["model"] == "acme/small"
    assert desk.paid_nano(answer) > 0


def test_no_model_and_no_default(desk: Desk) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()

    error = desk.check_refused(desk.raw(body), 400, "invalid_request")

    assert error["message"].startswith("model: ")
