"""The doors of messages and responses: keys, refusals, token counts, what only one wire can do."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from routing.simulator.testing import SimulatedUpstream
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.kinds import CHAT, MESSAGES, PROVIDERS, RESPONSES, KindsDesk, catalogue_of

COUNT = f"{MESSAGES}/count_tokens"
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
BROKEN = {"text": "Half of", "finish_reason": "error"}
LIMIT = {"error": {"code": "context_length_exceeded", "message": "Too long"}}


@pytest.fixture(scope="module")
def desks(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[KindsDesk]:
    folder = tmp_path_factory.mktemp("kinds")
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(catalogue_of(simulator.url), encoding="utf-8")
    with StartGateway(stores, folder) as starter:
        server = starter.build(ROUTER_OUTAGE_WINDOW_SECONDS="0.001")
        server.manage("load_catalogue", str(catalogue))
        server.start()
        yield KindsDesk(server, simulator, seed_account(server))


@pytest.fixture
def desk(desks: KindsDesk) -> KindsDesk:
    desks.upstream.clear()
    return desks


def told(response: requests.Response, status: int, kind: str) -> Any:
    """The `error` of a messages error body; the rest of the body is as it must be."""
    body = response.json()
    assert response.status_code == status, body
    assert (body["type"], body["error"]["type"], body["error"]["code"]) == ("error", kind, status)
    assert body["request_id"] == response.headers.get("X-Generation-Id")
    return body["error"]


def events(response: requests.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    lines = [line for line in response.text.split("\n") if line.startswith("data: {")]
    return [json.loads(line[6:]) for line in lines]


# --- Keys ---------------------------------------------------------------------------------------


def test_message_style_clients_may_send_their_key_in_a_header_of_its_own(desk: KindsDesk) -> None:
    key = {"x-api-key": desk.account.api_key}

    assert desk.ask(MESSAGES, key="", headers=key).status_code == 200
    assert desk.ask(COUNT, key="", headers=key).status_code == 200
    assert desk.ask(CHAT, key="", headers=key).status_code == 401
    assert desk.ask(RESPONSES, key="", headers=key).status_code == 401


def test_a_wrong_bearer_is_not_made_good_by_another_header(desk: KindsDesk) -> None:
    key = {"x-api-key": desk.account.api_key}

    told(desk.ask(MESSAGES, key="sk-nobody", headers=key), 401, "authentication_error")
    told(desk.ask(MESSAGES, key=""), 401, "authentication_error")
    told(desk.ask(MESSAGES, key="", headers={"x-api-key": "x"}), 401, "authentication_error")


# --- Refusals -----------------------------------------------------------------------------------


def test_messages_tell_what_is_wrong_in_their_own_words(desk: KindsDesk) -> None:
    told(desk.ask(MESSAGES, messages=[]), 400, "invalid_request_error")
    told(desk.ask(MESSAGES, "none"), 400, "invalid_request_error")
    told(desk.ask(MESSAGES, provider={"only": ["nobody"]}), 404, "not_found_error")
    told(desk.server.get(MESSAGES, key=desk.account.api_key), 405, "invalid_request_error")
    huge = "x" * (33 * 1024 * 1024)
    told(desk.ask(MESSAGES, system=huge), 413, "invalid_request_error")
    assert desk.upstream.requests() == []


@pytest.mark.parametrize(
    ("upstream", "status", "kind", "error_type"),
    [
        ("422", 400, "invalid_request_error", "invalid_request"),
        ("429", 429, "rate_limit_error", "rate_limit_exceeded"),
        ("529", 529, "overloaded_error", "provider_overloaded"),
        ("401", 502, "api_error", "provider_unavailable"),
    ],
)
@pytest.mark.parametrize("wire", PROVIDERS)
def test_an_upstreams_refusal_is_told_with_the_generations_id(
    desk: KindsDesk, wire: str, upstream: str, status: int, kind: str, error_type: str
) -> None:
    desk.upstream.script(PROVIDERS[wire], {"fault": upstream})

    response = desk.ask(MESSAGES, wire, stream=True)

    assert told(response, status, kind)["error_type"] == error_type
    assert desk.generation(response)["total_cost"] == 0


# --- Token counts -------------------------------------------------------------------------------


def test_a_message_style_upstream_counts_itself(desk: KindsDesk) -> None:
    response = desk.ask(COUNT, system="You count.", max_tokens=99, stream=True)

    (asked,) = desk.upstream.requests("messy")
    assert asked["path"].endswith("/messages/count_tokens")
    assert {"max_tokens", "stream"}.isdisjoint(asked["body"])
    assert response.json() == {"input_tokens": 6}
    assert "X-Generation-Id" not in response.headers


@pytest.mark.parametrize("kind", ["openai", "responses"])
def test_other_upstreams_are_not_asked(desk: KindsDesk, kind: str) -> None:
    assert desk.ask(COUNT, kind).json() == {"input_tokens": 2}
    assert desk.upstream.requests() == []


def test_what_cannot_be_counted_is_refused_like_a_message(desk: KindsDesk) -> None:
    told(desk.ask(COUNT, messages=[]), 400, "invalid_request_error")
    told(desk.ask(COUNT, provider={"only": ["nobody"]}), 404, "not_found_error")


# --- What only one wire can do ------------------------------------------------------------------


def test_a_search_of_the_providers_own_stays_with_its_wire(desk: KindsDesk) -> None:
    refused = told(desk.ask(MESSAGES, "openai", tools=[SEARCH]), 400, "invalid_request_error")
    assert refused["message"] == "server tool not available: web_search_20250305"

    desk.upstream.script("messy", {"fault": "503"})
    told(desk.ask(MESSAGES, "both", tools=[SEARCH]), 503, "overloaded_error")

    assert desk.upstream.requests("chatty") == []


def test_a_container_stays_with_the_endpoints_that_take_it(desk: KindsDesk) -> None:
    refused = told(desk.ask(MESSAGES, "openai", container="c_1"), 400, "invalid_request_error")
    assert refused["message"] == "container: Invalid input: no endpoint takes it"

    assert desk.ask(MESSAGES, "both", container="c_1").status_code == 200
    desk.upstream.script("messy", {"fault": "503"})
    told(desk.ask(MESSAGES, "both", container="c_1"), 503, "overloaded_error")

    assert desk.upstream.requests("chatty") == []
    assert desk.upstream.requests("messy")[0]["body"]["container"] == "c_1"


def test_what_no_endpoint_takes_is_refused_by_its_name(desk: KindsDesk) -> None:
    servers = [{"type": "url", "url": "https://mcp.example", "name": "m"}]
    for kind in PROVIDERS:
        refused = told(desk.ask(MESSAGES, kind, mcp_servers=servers), 400, "invalid_request_error")
        assert refused["message"].startswith("mcp_servers: ")
    clock = [{"type": "router:datetime"}]
    both = desk.ask(MESSAGES, "anthropic", container="c_1", tools=clock)
    assert "not beside tools" in told(both, 400, "invalid_request_error")["message"]

    assert desk.ask(MESSAGES, "openai", mcp_servers=[], container=None).status_code == 200
    assert desk.ask(RESPONSES, "responses", conversation="conv_1").status_code == 400


def test_betas_are_told_to_message_style_upstreams(desk: KindsDesk) -> None:
    for kind in PROVIDERS:
        assert desk.ask(MESSAGES, kind, headers={"anthropic-beta": "new-1"}).status_code == 200

    heads = [each["headers"].get("anthropic-beta") for each in desk.upstream.requests()]
    assert heads == [None, "new-1", None]


def test_betas_of_both_headers_are_told(desk: KindsDesk) -> None:
    headers = {"anthropic-beta": "new-1", "x-anthropic-beta": "new-2, new-1"}
    assert desk.ask(MESSAGES, "anthropic", headers=headers).status_code == 200

    (request,) = desk.upstream.requests()
    assert request["headers"]["anthropic-beta"] == "new-2,new-1"


# --- Breaks -------------------------------------------------------------------------------------


def test_an_opening_alone_does_not_keep_a_stream_from_another_endpoint(desk: KindsDesk) -> None:
    begun = {"type": "message_start", "message": {"id": "msg_gone", "usage": {"input_tokens": 1}}}
    desk.upstream.script("messy", {"events": [{"json": begun}, {"cut": "close"}]})
    order = {"order": ["messy", "chatty"]}

    response = desk.ask(MESSAGES, "both", stream=True, provider=order)

    said = events(response)
    assert [event["type"] for event in said].count("message_start") == 1
    assert said[0]["message"]["provider"] == "Chatty"
    assert "msg_gone" not in response.text
    assert desk.generation(response)["finish_reason"] == "stop"


def test_half_an_answer_is_told_where_the_format_has_a_place_for_it(desk: KindsDesk) -> None:
    desk.upstream.script("chatty", BROKEN, BROKEN, BROKEN)

    chat, message, response = (desk.ask(path, "openai") for path in (CHAT, MESSAGES, RESPONSES))

    (choice,) = chat.json()["choices"]
    assert (choice["message"]["content"], choice["error"]["code"]) == ("Half of", 502)
    assert told(message, 502, "api_error")["metadata"]["provider_name"] == "Chatty"
    assert (response.status_code, response.json()["status"]) == (200, "failed")
    assert response.json()["output_text"] == "Half of"
    for each in (chat, message, response):
        record = desk.generation(each)
        assert (record["total_cost"], record["finish_reason"]) == (0, "error")
        assert record["tokens_completion"] > 0


def test_a_limit_met_half_way_makes_an_incomplete_response(desk: KindsDesk) -> None:
    steps = {"events": [{"text": "Half of"}, {"json": LIMIT}]}
    desk.upstream.script("chatty", steps, steps, {"events": [{"json": LIMIT}]})

    response = desk.ask(RESPONSES, "openai", stream=True)
    chat = desk.ask(CHAT, "openai", stream=True)
    nothing = desk.ask(RESPONSES, "openai", stream=True)

    last = events(response)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (last["response"]["output_text"], last["response"]["usage"]["cost"]) == ("Half of", 0)
    assert desk.generation(response)["total_cost"] == 0
    assert events(chat)[-1]["error"]["metadata"]["error_type"] == "context_length_exceeded"
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (400, 400)


def test_events_are_numbered_without_a_gap_whoever_was_tried_before(desk: KindsDesk) -> None:
    desk.upstream.script("messy", {"fault": "503"})

    response = desk.ask(
        RESPONSES,
        "both",
        stream=True,
        provider={"order": ["messy", "chatty"]},
        debug={"echo_upstream_body": True},
    )

    said = events(response)
    assert [event["sequence_number"] for event in said] == list(range(len(said)))
    assert [event["type"] for event in said[:3]] == [
        "response.debug",
        "response.debug",
        "response.created",
    ]


# --- Ids -----------------------------------------------------------------------------------------

FUNCTION = {"name": "f", "arguments": "{}"}


@pytest.mark.parametrize("given", [None, "call_of_its_own"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_without_an_id_gets_one_in_the_words_of_messages(
    desk: KindsDesk, given: str | None, stream: bool
) -> None:
    call = {"index": 0, "type": "function", "function": FUNCTION} | ({"id": given} if given else {})
    said = {"delta" if stream else "message": {"role": "assistant", "tool_calls": [call]}}
    chunk = {"id": "c", "choices": [{"index": 0, "finish_reason": "tool_calls", **said}]}
    answer = {"events": [{"json": chunk}, "[DONE]"]} if stream else {"json": chunk}
    desk.upstream.script(PROVIDERS["openai"], answer)

    response = desk.ask(MESSAGES, "openai", stream=stream)

    if stream:
        (block,) = [
            each["content_block"]
            for each in events(response)
            if each["type"] == "content_block_start"
        ]
    else:
        (block,) = response.json()["content"]
    assert block["type"] == "tool_use"
    assert block["id"] == given if given else re.fullmatch(r"toolu_[A-Za-z0-9]{24}", block["id"])
