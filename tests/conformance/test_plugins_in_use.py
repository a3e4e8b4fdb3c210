"""Plugins at inference, in every caller format."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.conformance.desk import HELLO, Desk, exact
from tests.conformance.guarded import governed
from tests.conformance.money import book_usage
from tests.conformance.pairs import Pair
from tests.conformance.test_management_rows_presets import made
from tests.support.moderating import FORBIDDEN, OUTAGE, SLEEPY
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
OVER_EVERY_KIND = pytest.mark.parametrize(
    "kind", ["openai", "anthropic", "responses"], indirect=True
)
METADATA = {"X-Router-Metadata": "enabled"}
HEAL = [{"id": "response-healing"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
CARELESS = 'Here you are:\n```json\n{"a": 1,}\n```'


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


def stages(answer: Any) -> list[Any]:
    return list(answer["router_metadata"].get("pipeline", ()))


# --- Healing --------------------------------------------------------------------------------------


@OVER_EVERY_KIND
def test_json_is_put_in_order(pair: Pair) -> None:
    pair.script({"text": CARELESS})

    said = pair.ask(plugins=HEAL, schema=SCHEMA)

    assert json.loads(said.text) == {"a": 1}


@pytest.mark.parametrize("options", [{"plugins": HEAL}, {"schema": SCHEMA}])
def test_other_answers_stay_as_they_came(pair: Pair, options: dict[str, Any]) -> None:
    pair.script({"text": CARELESS})

    assert pair.ask(**options).text == CARELESS


def test_streams_are_not_healed(pair: Pair) -> None:
    pair.script({"text": CARELESS})

    assert pair.ask(plugins=HEAL, schema=SCHEMA, stream=True).text == CARELESS


def test_the_last_word_of_a_loop_is_healed(pair: Pair) -> None:
    look = {"name": "datetime", "arguments": {}}
    pair.script({"text": "Let me look.", "tool_calls": [look]}, {"text": CARELESS})
    body = pair.body(plugins=HEAL, schema=SCHEMA) | {"tools": [{"type": "router:datetime"}]}
    key = pair.desk.account.api_key

    response = pair.desk.server.post(pair.speaker.path, key=key, json=body)

    assert response.status_code == 200, response.text
    assert json.loads(pair.speaker.heard(exact(response)).text) == {"a": 1}


def test_healing_is_a_stage_where_it_did_something(desk: Desk) -> None:
    asked: dict[str, Any] = {"plugins": HEAL, "response_format": {"type": "json_object"}}
    desk.upstream.script("chat-a", {"text": CARELESS}, {"text": '{"a": 1}'})

    healed = desk.ok(headers=METADATA, **asked)
    good = desk.ok(headers=METADATA, **asked)

    assert [stage["type"] for stage in stages(healed)] == ["response_healing"]
    assert stages(good) == []
    assert good["choices"][0]["message"]["content"] == '{"a": 1}'


def test_presets_carry_plugins(desk: Desk) -> None:
    shape = {"response_format": {"type": "json_object"}}
    made(desk, "/healing/chat/completions", {"model": desk.model, "plugins": HEAL} | shape)
    desk.upstream.script("chat-a", {"text": CARELESS}, {"text": CARELESS})

    healed = desk.ok(model="@preset/healing")
    off = desk.ok(model="@preset/healing", plugins=[{"id": "response-healing", "enabled": False}])

    assert json.loads(healed["choices"][0]["message"]["content"]) == {"a": 1}
    assert off["choices"][0]["message"]["content"] == CARELESS


# --- Compression ----------------------------------------------------------------------------------


def long_talk(pair: Pair, turns: int, chars: int) -> list[dict[str, Any]]:
    """A conversation of the caller's format whose texts tell their place."""
    talk: list[dict[str, Any]] = []
    for number in range(turns):
        talk += pair.speaker.user(f"<{number}> " + "x" * chars)
        talk.append({"role": "assistant", "content": f"<{number}> yes"})
    return talk + pair.speaker.user("What now?")


@STREAMED
def test_a_small_context_compresses_by_itself(pair: Pair, stream: bool) -> None:
    talk = long_talk(pair, 12, 500)
    asked = pair.ask(talk, model="acme/tiny", stream=stream, system="Be kind.", cap=50)

    (sent,) = pair.sent()
    texts = [message["content"] for message in sent["messages"]]
    assert asked.finish == "stop"
    assert texts[0] == "Be kind."
    assert texts[1].startswith("<0>")
    assert texts[-1] == "What now?"
    assert len(texts) < len(talk) + 1
    assert sum(map(len, texts)) <= 3 * 1000


def test_a_larger_one_compresses_where_it_is_told_to(pair: Pair) -> None:
    talk, plugin = long_talk(pair, 20, 2_500), {"id": "context-compression"}
    for plugins in ([], [{**plugin, "enabled": False}]):
        response = pair.post(talk, model="acme/narrow", plugins=plugins)
        code, _, text = pair.speaker.told(response.json())
        assert (response.status_code, code) == (400, 400)
        assert "context" in text
        assert pair.sent() == []

    pair.ask(talk, model="acme/narrow", plugins=[{**plugin, "engine": "middle-out"}])

    assert len(pair.sent()[0]["messages"]) < len(talk)


def test_a_small_one_that_is_told_not_to_refuses(desk: Desk) -> None:
    talk = [{"role": "user", "content": "x" * 5_000}, *HELLO]
    asked: dict[str, Any] = {"model": "acme/tiny", "messages": talk}

    plugin = {"id": "context-compression", "enabled": False}
    ways: list[dict[str, Any]] = [{"plugins": [plugin]}, {"transforms": []}]
    for off in ways:
        desk.refused(400, "context_length_exceeded", **asked, **off)
    desk.ok(**asked, transforms=["middle-out"])


def test_what_has_to_stay_is_never_cut(desk: Desk) -> None:
    talk = [*HELLO, {"role": "user", "content": "x" * 5_000}]

    desk.refused(400, "context_length_exceeded", model="acme/tiny", messages=talk)


def test_compression_is_a_stage(desk: Desk) -> None:
    talk = [{"role": "user", "content": "x" * 5_000}, *HELLO]
    answer = desk.ok(model="acme/tiny", messages=talk, headers=METADATA)

    (stage,) = stages(answer)
    assert (stage["type"], stage["name"]) == ("context_compression", "context-compression")
    told = {"engine": "middle-out", "input_type": "messages"}
    assert stage["data"] == told | {"original_count": 2, "compressed_count": 2}
    assert stages(desk.ok(model="acme/tiny", headers=METADATA)) == []


# --- Files ----------------------------------------------------------------------------------------


def test_files_are_not_read_for_who_cannot_pay(desk: Desk, orm_of: OrmOf) -> None:
    """What is wrong with a file is known to whoever has read it."""
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}
    parser = {"id": "file-parser", "pdf": {"engine": "cloudflare-ai"}}
    talk = [{"role": "user", "content": [file]}]
    asked: dict[str, Any] = {"messages": talk, "plugins": [parser]}
    assert desk.refused(400, "invalid_request", **asked)["message"].endswith("it is no PDF")

    with orm_of(desk.server):
        book_usage(desk.account.account_id, until_balance_nano=0)
    desk.spent_nano = desk.total_usage_nano()

    assert desk.post(**asked).status_code == 402


# --- Moderation -----------------------------------------------------------------------------------


@STREAMED
def test_what_moderation_flags_is_refused(pair: Pair, stream: bool) -> None:
    talk = pair.speaker.user(f"Some {FORBIDDEN}.")
    response = pair.post(talk, plugins=[{"id": "moderation"}], stream=stream)

    assert response.status_code == 403, response.text
    body = response.json()
    error = body["error"]
    # Messages have words of their own for who refused.
    kinds = {"messages": "permission_error"}
    assert error.get("type") == kinds.get(pair.speaker.name, error.get("type"))
    if pair.speaker.name != "messages":
        told = error["metadata"]
        assert told["error_type"] == "content_policy_violation"
        assert told["reasons"] == ["violence", "spam"]
        assert told["flagged_input"] == f"Some {FORBIDDEN}."
    assert pair.sent() == []


def test_moderation_happens_where_it_is_asked_for(desk: Desk) -> None:
    talk = [{"role": "user", "content": FORBIDDEN}]
    plain = desk.ok(messages=talk)
    looked_at = desk.ok(plugins=[{"id": "moderation"}])

    assert desk.generation(plain["id"])["moderation_latency"] is None
    assert desk.generation(looked_at["id"])["moderation_latency"] >= 0
    refused = desk.post(messages=talk, plugins=[{"id": "moderation"}], headers=METADATA)
    (stage,) = stages(refused.json())
    assert (stage["type"], stage["name"]) == ("plugin", "moderation")
    assert stage["data"] == {"action": "blocked", "reasons": ["violence", "spam"]}


@pytest.mark.parametrize("text", [OUTAGE, SLEEPY])
def test_nothing_goes_on_where_moderation_fails(desk: Desk, text: str) -> None:
    talk = [{"role": "user", "content": text}]
    error = desk.refused(503, "provider_overloaded", messages=talk, plugins=[{"id": "moderation"}])

    assert error["message"] == "Moderation is not available"


# --- Content filters over what tools find ---------------------------------------------------------


@STREAMED
@pytest.mark.parametrize(
    ("action", "told"), [("redact", "[Zone]"), ("block", "kept the result back")]
)
def test_models_read_tools_through_content_filters(
    desk: Desk, stream: bool, action: str, told: str
) -> None:
    governed(desk, content_filters=[{"pattern": "UTC", "action": action, "label": "Zone"}])
    look = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
    desk.upstream.script("chat-a", look, {"text": "So it is."})
    asked: dict[str, Any] = {"tools": [{"type": "router:datetime"}], "headers": METADATA}

    if stream:
        streamed = desk.stream(**asked)
        text, metadata = streamed.text, streamed.chunks[-1]
    else:
        metadata = desk.ok(**asked)
        text = metadata["choices"][0]["message"]["content"]

    assert text == "So it is."
    (result,) = [m["content"] for m in desk.sent("chat-a")[-1]["messages"] if m["role"] == "tool"]
    assert told in result
    assert "UTC" not in result
    kinds = [stage["type"] for stage in stages(metadata)]
    assert kinds == ["guardrail", "server_tools"]
