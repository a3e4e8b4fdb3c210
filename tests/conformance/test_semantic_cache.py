"""The plugin `semantic-cache` over HTTP: answers to texts that mean the same."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import requests
from openai import OpenAI

from tests.conformance.desk import Desk, changed_workspace, exact, saying
from tests.conformance.guarded import set_guardrail
from tests.conformance.test_management_rows_presets import make_ok
from tests.support.gateways import seed_account

PLUGIN = {"id": "semantic-cache", "model": "acme/vectors", "threshold": 0.7}
ASKED = "How do I reset my password?"
NEAR = "how do I reset my Password"
FAR = "When does the train to Oslo leave?"
PATHS = {"chat/completions": "messages", "messages": "messages", "responses": "input"}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


def ask(desk: Desk, text: str, path: str = "chat/completions", **body: Any) -> requests.Response:
    given = {"model": desk.model, PATHS[path]: saying(text), "plugins": [PLUGIN], **body}
    if path == "messages":
        given["max_tokens"] = 100
    headers = {"X-Router-Metadata": "enabled"}
    response = desk.server.post(
        f"/api/v1/{path}", key=desk.account.api_key, json=given, headers=headers
    )
    assert response.status_code == 200, response.text
    return response


def result(response: requests.Response) -> str | None:
    return response.headers.get("X-Router-Semantic-Cache")


def texts(response: requests.Response) -> list[str]:
    """What the events of a stream say."""
    return re.findall(r'"(?:content|text|delta)":"([^"]*)"', response.text)


def test_the_openai_client_gets_the_answer_of_a_near_text_for_the_price_of_a_vector(
    desk: Desk,
) -> None:
    with OpenAI(
        api_key=desk.account.api_key, base_url=desk.server.base_url, max_retries=0
    ) as client:
        create = client.chat.completions.with_raw_response.create
        asked: Any = {"model": desk.model, "extra_body": {"plugins": [PLUGIN]}}
        first = create(messages=saying(ASKED), **asked)
        spent = desk.total_usage_nano()
        second = create(messages=saying(NEAR), **asked)
    assert first.headers["X-Router-Semantic-Cache"] == "MISS"
    assert second.headers["X-Router-Semantic-Cache"] == "HIT"
    assert 0.7 <= float(second.headers["X-Router-Semantic-Similarity"]) < 1
    one, other = first.parse(), second.parse()
    assert second.headers["X-Router-Cache-Source-Id"] == one.id != other.id
    assert other.choices[0].message.content == one.choices[0].message.content
    record = desk.generation(other.id)
    assert record["response_cache_source_id"] == one.id
    assert desk.ledger_nano(other.id) == 0
    # The vector is a generation of its own: 7 tokens at one of two prices.
    assert desk.total_usage_nano() - spent in (7 * 100, 7 * 400)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", PATHS)
def test_every_format_repeats_whole_answers_and_streams(
    desk: Desk, path: str, stream: bool
) -> None:
    desk.model = "acme/small"
    first, second = (ask(desk, text, path, stream=stream) for text in (ASKED, NEAR))
    assert (result(first), result(second)) == ("MISS", "HIT")
    assert second.headers["X-Router-Cache-Source-Id"] == first.headers["X-Generation-Id"]
    if stream:
        # But for what is each answer's own: ids, times and what was used.
        assert texts(second) == texts(first) != []
        events = second.text.replace("data: [DONE]", "").rpartition("data: ")
        body = json.loads(events[2])
        body = body.get("response", body)
    else:
        body = exact(second)
        assert body["usage"]["cost"] == 0
    (stage,) = body["router_metadata"]["pipeline"]
    assert (stage["name"], stage["data"]["result"]) == ("semantic-cache", "hit")
    assert stage["data"]["source_id"] == first.headers["X-Generation-Id"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (FAR, {}),
        (NEAR, {"temperature": 0.5}),
        (NEAR, {"stream": True}),
        (NEAR, {"messages": [{"role": "system", "content": "Be brief"}, *saying(NEAR)]}),
    ],
    ids=["far", "parameter", "streamed", "system prompt"],
)
def test_everything_but_the_last_text_must_be_the_same(
    desk: Desk, text: str, body: dict[str, Any]
) -> None:
    assert result(ask(desk, ASKED)) == "MISS"
    assert result(ask(desk, text, **body)) == "MISS"


def test_no_other_account_or_key_hits_and_nobody_who_does_not_ask(desk: Desk) -> None:
    assert result(ask(desk, ASKED)) == "MISS"
    other = Desk(desk.server, desk.upstream, seed_account(desk.server))
    assert result(ask(other, ASKED)) == "MISS"
    named = {"name": "other", "workspace_id": desk.account.workspace_id}
    key = desk.manage("POST", "/keys", named).json()["key"]
    beside = Desk(desk.server, desk.upstream, replace(desk.account, api_key=key))
    assert result(ask(beside, ASKED)) == "MISS"
    assert result(ask(desk, ASKED, plugins=[])) is None
    assert result(ask(desk, ASKED)) == "HIT"
    # Where they share the response cache they share this one.
    changed_workspace(desk, response_cache=True)
    assert [result(ask(desk, ASKED)), result(ask(beside, NEAR))] == ["MISS", "HIT"]


def test_other_content_filters_and_zero_retention_get_no_answer(desk: Desk) -> None:
    assert result(ask(desk, ASKED)) == "MISS"
    assert result(ask(desk, NEAR, provider={"zdr": True}, model="acme/small")) is None
    set_guardrail(desk, content_filters=[{"pattern": "never said", "action": "redact"}])
    assert [result(ask(desk, ASKED)) for _ in range(2)] == ["MISS", "HIT"]


def test_a_preset_names_it_and_an_answer_is_made_anew_where_that_is_asked(desk: Desk) -> None:
    make_ok(desk, "/near/chat/completions", {"model": desk.model, "plugins": [PLUGIN]})

    def ask_anew(text: str, *, clears: bool = False) -> requests.Response:
        headers = {"X-Router-Cache": "true", "X-Router-Cache-Clear": str(clears).lower()}
        body = {"model": desk.model, "preset": "near", "messages": saying(text)}
        path, key = "/api/v1/chat/completions", desk.account.api_key
        return desk.server.post(path, key=key, json=body, headers=headers)

    answers = [ask_anew(ASKED), ask_anew(ASKED, clears=True), ask_anew(NEAR)]
    assert [result(each) for each in answers] == ["MISS", "MISS", "HIT"]
    source = answers[2].headers["X-Router-Cache-Source-Id"]
    assert source == answers[1].headers["X-Generation-Id"]


@pytest.mark.parametrize("model", ["acme/solo", "acme/nothing"])
def test_where_no_vector_is_made_the_request_is_answered(desk: Desk, model: str) -> None:
    plugin = {**PLUGIN, "model": model}
    responses = [ask(desk, ASKED, plugins=[plugin]) for _ in range(2)]
    assert [result(each) for each in responses] == ["FAILED", "FAILED"]
    (stage,) = exact(responses[0])["router_metadata"]["pipeline"]
    assert stage["data"]["error_type"] == "invalid_request"
    assert len(desk.list_sent_bodies("gamma")) == 2


def test_a_vector_that_comes_too_late_is_not_waited_for(desk: Desk) -> None:
    for persona in ("alpha", "gamma"):
        desk.upstream.script(persona, {"delay_s": 5})
    desk.model = "acme/text"
    response = ask(desk, ASKED, plugins=[{**PLUGIN, "timeout_ms": 100}])
    assert result(response) == "FAILED"
    (stage,) = exact(response)["router_metadata"]["pipeline"]
    assert desk.generation(stage["data"]["embedding_id"])["api_type"] == "embeddings"


def test_results_of_tools_and_media_are_not_looked_up(desk: Desk) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        *saying("Call f"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        *saying(ASKED),
    ]
    assert result(ask(desk, ASKED, messages=messages)) is None
