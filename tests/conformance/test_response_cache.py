"""The response cache, in every caller format over every wire kind."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk, Serve, exact, nano
from tests.conformance.pairs import Pair
from tests.conformance.test_management_rows_presets import made
from tests.support.gateways import SeededAccount, seed_account
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS, Said, read_stream

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
ON = {"X-Router-Cache": "true"}
CALL = {"name": "weather", "arguments": {"city": "Bern"}}


@pytest.fixture(params=["openai"])
def kind(request: pytest.FixtureRequest) -> str:
    """One wire kind is enough for most of it."""
    name: str = request.param
    return name


@pytest.fixture(params=SPEAKERS)
def pair(request: pytest.FixtureRequest, wire_desk: Desk, kind: str) -> Pair:
    return Pair(SPEAKERS[request.param], kind, wire_desk)


@pytest.fixture
def desk(wire_desk: Desk) -> Desk:
    return wire_desk


def post(pair: Pair, *, headers: dict[str, str] = ON, **options: Any) -> requests.Response:
    server, key = pair.desk.server, pair.desk.account.api_key
    body = pair.body(**options)
    response = server.post(pair.speaker.path, key=key, json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response


def heard(pair: Pair, response: requests.Response, *, stream: bool) -> Said:
    if stream:
        streamed = read_stream(response)
        assert streamed.done
        return pair.speaker.heard_stream(streamed)
    return pair.speaker.heard(exact(response))


def status(response: requests.Response) -> str | None:
    return response.headers.get("X-Router-Cache-Status")


@STREAMED
@pytest.mark.parametrize("kind", ["openai", "anthropic", "responses"], indirect=True)
def test_the_same_request_is_answered_from_the_cache(pair: Pair, stream: bool) -> None:
    pair.script({"reasoning": "Hm.", "text": "Once.", "tool_calls": [CALL]}, {"text": "Twice."})
    metadata = {**ON, "X-Router-Metadata": "enabled"}
    first, second = (post(pair, headers=metadata, stream=stream) for _ in range(2))

    assert (status(first), status(second)) == ("MISS", "HIT")
    assert "X-Router-Cache-Age" not in first.headers
    assert 0 <= int(second.headers["X-Router-Cache-Age"]) <= 60
    assert 240 <= int(second.headers["X-Router-Cache-TTL"]) <= 300
    source = second.headers["X-Router-Cache-Source-Id"]
    assert source == first.headers["X-Generation-Id"] != second.headers["X-Generation-Id"]
    assert len(pair.sent()) == 1
    one, other = (heard(pair, each, stream=stream) for each in (first, second))
    assert (one.text, one.reasoning, one.calls) == (other.text, other.reasoning, other.calls)
    assert (one.finish, one.model, one.provider) == (other.finish, other.model, other.provider)
    assert other.cost_nano == 0
    assert other.usage is not None
    assert tuple(other.usage) == (0, 0, 0, 0)
    assert "router_metadata" in first.text
    assert "router_metadata" not in second.text
    assert ids(pair, first).isdisjoint(ids(pair, second))


def ids(pair: Pair, response: requests.Response) -> set[str]:
    """Every id of the answer's own, of all its events where it is a stream."""
    blocks = [line.removeprefix("data: ") for line in response.text.split("\n") if "{" in line]
    values = [json.loads(block) for block in blocks]
    holders = [
        each for value in values for each in (value, value.get("response"), value.get("message"))
    ]
    kinds = {"chat.completion", "chat.completion.chunk", "response"}
    found = {
        each["id"]
        for each in holders
        if isinstance(each, dict) and (each.get("object") in kinds or each.get("role"))
    }
    assert len(found) == 1
    return found


def test_a_hit_is_recorded_and_charged_nothing(desk: Desk) -> None:
    first = desk.post(headers=ON)
    second = desk.post(headers=ON)

    paid = nano(exact(first)["usage"]["cost"])
    answer = exact(second)
    assert paid > 0
    assert answer["id"] == second.headers["X-Generation-Id"]
    assert desk.charged_nano(first.headers["X-Generation-Id"]) == paid
    assert desk.charged_nano(answer["id"]) == 0
    record, source = desk.generation(answer["id"]), desk.generation(exact(first)["id"])
    assert record["response_cache_source_id"] == exact(first)["id"]
    assert source["response_cache_source_id"] is None
    assert (record["model"], record["provider_name"]) == (source["model"], source["provider_name"])
    assert record["tokens_prompt"] == record["tokens_completion"] == 0
    assert record["finish_reason"] == source["finish_reason"]


def test_what_is_not_asked_for_is_not_cached(desk: Desk) -> None:
    for headers in ({}, {"X-Router-Cache": "false"}, {"X-Router-Cache": "yes"}):
        answers = [desk.post(headers=headers) for _ in range(2)]
        assert [status(answer) for answer in answers] == [None, None]
    assert len(desk.upstream.requests()) == 6


def test_who_asks_what_is_told_apart(desk: Desk) -> None:
    other = Desk(desk.server, desk.upstream, seed_account(desk.server), desk.model)
    asked: list[dict[str, Any]] = [
        {},
        {"temperature": 0.5},
        {"model": "acme/both-openai"},
        {"messages": [{"content": "Hello there", "role": "user"}]},
        {"stream": True},
    ]

    for body in asked:
        assert status(desk.post(headers=ON, **body)) == "MISS"
    assert status(other.post(headers=ON)) == "MISS"
    for body in asked:
        assert status(desk.post(headers=ON, **body)) == "HIT"


def test_a_refresh_takes_the_place(desk: Desk) -> None:
    desk.upstream.script("chat-a", {"text": "Old."}, {"text": "New."})
    said = []
    for headers in (ON, {**ON, "X-Router-Cache-Clear": "true"}, ON):
        response = desk.post(headers=headers)
        said.append((status(response), exact(response)["choices"][0]["message"]["content"]))

    assert said == [("MISS", "Old."), ("MISS", "New."), ("HIT", "New.")]


def test_an_answer_is_kept_for_its_time(desk: Desk) -> None:
    headers = {**ON, "X-Router-Cache-TTL": "1"}
    first = desk.post(headers=headers)
    assert first.headers["X-Router-Cache-TTL"] == "1"
    desk.server.wait_until(lambda: status(desk.post(headers=headers)) == "MISS", within_s=10)
    assert time.time() > exact(first)["created"]


def test_what_fails_or_breaks_is_not_kept(desk: Desk) -> None:
    desk.upstream.script("chat-a", {"fault": "422"}, {"text": "Good."})
    assert desk.post(headers=ON).status_code == 422
    assert status(desk.post(headers=ON)) == "MISS"
    assert status(desk.post(headers=ON)) == "HIT"


def test_nothing_is_kept_of_those_who_want_nothing_retained(serve: Serve) -> None:
    desk = serve(ROUTER_RESPONSE_CACHE_ENABLED="true")()
    plain = [desk.post(headers=ON) for _ in range(2)]
    private = [desk.post(headers=ON, provider={"zdr": True}) for _ in range(2)]

    assert [status(answer) for answer in plain] == ["MISS", "HIT"]
    assert {answer.status_code for answer in private} == {200}
    assert [status(answer) for answer in private] == [None, None]


def test_what_was_sent_upstream_is_not_kept(desk: Desk) -> None:
    echo: dict[str, Any] = {"stream": True, "debug": {"echo_upstream_body": True}}

    assert [status(desk.post(headers=ON, **echo)) for _ in range(2)] == [None, None]


def test_presets_say_whether_and_for_how_long(desk: Desk) -> None:
    body = {"model": desk.model}
    made(desk, "/on/chat/completions", body | {"cache_enabled": True, "cache_ttl_seconds": 77})
    made(desk, "/off/chat/completions", body | {"cache_enabled": False})

    on = [desk.post(model="@preset/on") for _ in range(2)]
    off = [desk.post(model="@preset/off", headers=ON) for _ in range(2)]
    never = [desk.post(model="@preset/on", headers={"X-Router-Cache": "false"})]

    assert [status(answer) for answer in on] == ["MISS", "HIT"]
    assert on[0].headers["X-Router-Cache-TTL"] == "77"
    assert [status(answer) for answer in off + never] == [None] * 3
    sent = [entry["body"] for entry in desk.upstream.requests()]
    assert not any("cache_enabled" in body or "cache_ttl_seconds" in body for body in sent)


def test_loops_are_kept_with_what_their_tools_did(desk: Desk) -> None:
    look = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
    desk.upstream.script("chat-a", look, {"text": "It is late."})
    asked: dict[str, Any] = {"headers": ON, "tools": [{"type": "router:datetime"}]}
    first, second = exact(desk.post(**asked)), exact(desk.post(**asked))

    assert first["choices"] == second["choices"]
    use = second["usage"]["server_tool_use_details"]
    assert use == {"tool_calls_requested": 0, "tool_calls_executed": 0}


def test_a_repeated_key_gets_the_answer_it_had(desk: Desk) -> None:
    assert status(desk.post(headers=ON)) == "MISS"
    once = {**ON, "Idempotency-Key": "same"}
    hit, again = (desk.post(headers=once) for _ in range(2))

    assert status(hit) == "HIT"
    assert exact(again) == exact(hit)


def test_an_installation_without_it_knows_no_such_header(
    gateway: GatewayServer, simulator: SimulatedUpstream, account: Callable[..., SeededAccount]
) -> None:
    simulator.clear()
    desk = Desk(gateway, simulator, account())

    assert [status(desk.post(headers=ON)) for _ in range(2)] == [None, None]
    assert len(desk.upstream.requests()) == 2
