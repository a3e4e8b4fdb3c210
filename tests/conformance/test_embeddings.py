"""Embeddings over HTTP: the official `openai` package, what upstreams are sent, and the books."""

from decimal import Decimal
from typing import Any

import pytest
from openai import OpenAI

from tests.conformance.desk import Desk, exact, issue_paths, nano
from tests.conformance.guarded import make_assigned
from tests.support.server import as_json

PATH = "/api/v1/embeddings"
MODEL = "acme/vectors"
IN_ORDER = {"order": ["alpha", "gamma"]}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


def ask(desk: Desk, given: Any = "Hello", *, headers: Any = None, **body: Any) -> Any:
    asked = {"model": MODEL, "input": given, "provider": IN_ORDER, **body}
    return desk.server.post(PATH, key=desk.account.api_key, json=asked, headers=headers or {})


def test_the_openai_client_embeds_texts_and_tokens(desk: Desk) -> None:
    with OpenAI(
        api_key=desk.account.api_key, base_url=desk.server.base_url, max_retries=0
    ) as client:
        # It asks for base64 unless it is told otherwise.
        by: Any = {"model": MODEL, "extra_body": {"provider": IN_ORDER}}
        one = client.embeddings.create(input="Good morning", user="me", **by)
        plain = client.embeddings.create(
            input=["Good morning", "the train to Oslo"],
            encoding_format="float",
            dimensions=64,
            **by,
        )
        tokens = client.embeddings.create(input=[[1, 2, 3], [4]], **by)
    first, second = desk.list_sent_bodies("alpha")[:2]
    assert (first["input"], first["encoding_format"]) == ("Good morning", "base64")
    assert first["user"] not in ("me", "")
    # Numbers come in base64 too: a large answer of them is a quarter as long.
    assert (second["dimensions"], second["encoding_format"]) == (64, "base64")
    assert len(one.data[0].embedding) == 256
    assert [each.index for each in plain.data] == [0, 1]
    assert {len(each.embedding) for each in plain.data} == {64}
    assert len(tokens.data) == 2
    assert (one.model, one.object, one.usage.prompt_tokens) == (MODEL, "list", 3)
    # By prompt tokens and nothing else, at what was asked first.
    for answer, tokens_asked in ((one, 3), (plain, 8), (tokens, 4)):
        told: Any = answer
        assert answer.usage.total_tokens == tokens_asked
        assert nano(Decimal(str(told.usage.cost))) == tokens_asked * 100
        assert desk.ledger_nano(told.id) == tokens_asked * 100
        record = desk.generation(told.id)
        assert (record["api_type"], record["model"]) == ("embeddings", MODEL)
        assert (record["tokens_prompt"], record["tokens_completion"]) == (tokens_asked, 0)


@pytest.mark.parametrize("step", [{"status": 503}, {"json": {"object": "list", "data": []}}])
def test_an_endpoint_that_fails_is_followed_by_the_next(desk: Desk, step: Any) -> None:
    desk.upstream.script("alpha", step)
    response = ask(desk, headers={"X-Router-Metadata": "enabled", "X-Tags": "team=search"})
    body = exact(response)
    assert (response.status_code, body["provider"]) == (200, "Gamma")
    assert desk.paid_nano(body) == 2 * 400
    attempts = body["router_metadata"]["attempts"]
    assert [each["provider"] for each in attempts] == ["Alpha", "Gamma"]


def test_vectors_of_another_length_than_asked_are_billed_once_and_blame_nobody(desk: Desk) -> None:
    data = [{"index": 0, "embedding": [0.5, 1.0]}]
    desk.upstream.script("alpha", {"json": {"data": data, "usage": {"prompt_tokens": 2}}})
    error = desk.check_error(ask(desk, dimensions=3), 400, "invalid_request")
    assert "2 dimensions, not 3" in error["message"]
    assert not desk.list_sent_bodies("gamma")


def test_providers_are_chosen_as_for_chat(desk: Desk) -> None:
    body = exact(ask(desk, provider={"only": ["gamma"]}))
    assert body["provider"] == "Gamma"
    # Each input has the context to itself.
    assert ask(desk, ["x" * 300] * 20).status_code == 200
    assert as_json(ask(desk, "x" * 800))["error"]["metadata"]["error_type"] == (
        "context_length_exceeded"
    )


def test_models_of_another_kind_are_refused_at_either_door(desk: Desk) -> None:
    desk.check_refused(ask(desk, model="acme/solo"), 400, "invalid_request")
    desk.expect_refusal(400, "invalid_request", model=MODEL)
    error = desk.check_refused(ask(desk, ["a", ""]), 400, "invalid_request")
    assert issue_paths(error) == ["input.1"]


def test_guardrails_change_inputs_and_take_no_tokens(desk: Desk) -> None:
    make_assigned(desk, content_filters=[{"pattern": "secret", "action": "redact"}])
    assert ask(desk, ["a secret", "plain"]).status_code == 200
    (sent,) = desk.list_sent_bodies("alpha")
    assert "secret" not in str(sent["input"])
    assert sent["input"][1] == "plain"
    response = ask(desk, [1, 2])
    assert (response.status_code, len(desk.list_sent_bodies("alpha"))) == (400, 1)


def test_guards_of_answers_alone_leave_tokens_as_they_are(desk: Desk) -> None:
    guard = {"kind": "moderation", "provider": "gamma", "action": "flag", "on": "output"}
    make_assigned(desk, external_guards=[guard])
    assert ask(desk, [1, 2]).status_code == 200


def test_external_guards_are_shown_inputs_and_leave_vectors_as_they_are(desk: Desk) -> None:
    guard = {"kind": "moderation", "provider": "gamma", "action": "block", "on": "both"}
    make_assigned(
        desk, external_guards=[guard], output_filters=[{"pattern": "a", "action": "block"}]
    )
    answers = [ask(desk, ["Hello", text]) for text in ("A text about violence.", "and more")]
    assert [each.status_code for each in answers] == [403, 200], answers[1].text
    assert len(exact(answers[1])["data"]) == 2


def test_the_response_cache_repeats_vectors_for_nothing(desk: Desk) -> None:
    headers = {"X-Router-Cache": "true"}
    first = exact(ask(desk, headers=headers))
    desk.paid_nano(first)
    response = ask(desk, headers=headers)
    again = exact(response)
    assert response.headers["X-Router-Cache-Status"] == "HIT"
    assert again["data"] == first["data"]
    assert again["id"] != first["id"]
    assert (again["usage"]["cost"], len(desk.list_sent_bodies("alpha"))) == (0, 1)
    assert desk.charged_nano(again["id"]) == 0
