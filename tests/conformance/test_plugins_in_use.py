"""Plugins at inference, in every caller format."""

import json
from typing import Any

import pytest

from tests.conformance.desk import HELLO, Desk, saying
from tests.conformance.guarded import make_assigned, set_guardrail
from tests.conformance.pairs import Pair
from tests.conformance.test_management_rows_presets import make_ok
from tests.support.moderating import FORBIDDEN, SLEEPY

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
ONE_KIND = pytest.mark.parametrize("kind", ["openai"], indirect=True)
METADATA = {"X-Router-Metadata": "enabled"}
HEAL = [{"id": "response-healing"}]
MODERATE = [{"id": "moderation"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
CARELESS = 'Here you are:\n```json\n{"a": 1,}\n```'


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    own_wide_desk.model = "acme/over-openai"
    return own_wide_desk


def stages(answer: Any) -> list[Any]:
    return list(answer["router_metadata"].get("pipeline", ()))


# --- Healing --------------------------------------------------------------------------------------


def test_json_is_put_in_order_where_it_is_asked_for_and_whole(pair: Pair) -> None:
    pair.script({"text": CARELESS}, repeat=True)

    assert json.loads(pair.ask(plugins=HEAL, schema=SCHEMA).text) == {"a": 1}

    others: list[dict[str, Any]] = [{"plugins": HEAL}, {"schema": SCHEMA}]
    for options in (*others, {"plugins": HEAL, "schema": SCHEMA, "stream": True}):
        assert pair.ask(**options).text == CARELESS


def test_healing_is_a_stage_where_it_did_something_and_presets_carry_it(desk: Desk) -> None:
    asked: dict[str, Any] = {"plugins": HEAL, "response_format": {"type": "json_object"}}
    make_ok(desk, "/healing/chat/completions", {"model": desk.model, **asked})
    desk.upstream.script("chat-a", {"text": CARELESS}, {"text": '{"a": 1}'}, {"text": CARELESS})

    healed = desk.ok(headers=METADATA, model="@preset/healing")
    good = desk.ok(headers=METADATA, **asked)
    off = desk.ok(model="@preset/healing", plugins=[HEAL[0] | {"enabled": False}])

    texts = [each["choices"][0]["message"]["content"] for each in (healed, good, off)]
    assert json.loads(texts[0]) == {"a": 1}
    assert texts[1:] == ['{"a": 1}', CARELESS]
    assert [stage["type"] for stage in stages(healed)] == ["response_healing"]
    assert stages(good) == []


# --- Schemas --------------------------------------------------------------------------------------

REPAIR = [HEAL[0] | {"repair": True}]
SHAPE = {"name": "n", "schema": SCHEMA, "strict": True}
STRICT = {"type": "json_schema", "json_schema": SHAPE}
DEEP = "[" * 1_000 + "]" * 1_000
MISFIT, FIT = '{"a": "one"}', '{"a": 1}'
CUT = {"text": FIT, "finish_reason": "length"}
USED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@ONE_KIND
def test_an_answer_that_does_not_fit_is_asked_for_once_more_and_both_are_charged(
    pair: Pair,
) -> None:
    pair.script({"text": MISFIT, "usage": USED}, {"text": FIT, "usage": USED})
    response = pair.post(pair.speaker.user("Go"), plugins=REPAIR, schema=SCHEMA)

    assert (response.status_code, response.headers["X-Router-Schema"]) == (200, "repaired")
    first, second = pair.list_sent_bodies()
    assert "Go" in str(first["messages"])
    said = [message["content"] for message in second["messages"][-2:]]
    assert said[0] == MISFIT
    assert "$.a: 'one' is not of type 'integer'" in said[1]
    assert FIT in json.dumps(response.json()).replace("\\", "")


def cost_of(desk: Desk, answer: Any) -> Any:
    return desk.generation(answer["id"])["total_cost"]


def test_every_answer_that_was_made_is_on_the_books(desk: Desk) -> None:
    asked: dict[str, Any] = {"plugins": REPAIR, "response_format": STRICT, "headers": METADATA}
    failing = {"status": 500}
    desk.upstream.script("chat-a", {"text": FIT, "usage": USED})
    plain = desk.ok(**asked)
    assert (stages(plain)[0]["data"]["result"], plain["usage"]["total_tokens"]) == ("valid", 15)
    one = cost_of(desk, plain)
    for script, text, result, calls in (
        ([{"text": CARELESS, "usage": USED}], '{"a":1}', "mended", 1),
        ([{"text": MISFIT, "usage": USED}, {"text": FIT, "usage": USED}], FIT, "repaired", 2),
        ([{"text": MISFIT, "usage": USED}, {"text": "No.", "usage": USED}], "No.", "invalid", 2),
        ([{"text": MISFIT, "usage": USED}, failing, failing, failing], MISFIT, "invalid", 1),
        # Nobody looks at what is too deep; and what was cut short or says nothing is no better.
        ([{"text": MISFIT, "usage": USED}, {"text": DEEP, "usage": USED}], DEEP, "unchecked", 2),
        ([{"text": MISFIT, "usage": USED}, CUT | {"usage": USED}], MISFIT, "invalid", 2),
        ([{"text": MISFIT, "usage": USED}, {"text": "", "usage": USED}], MISFIT, "invalid", 2),
    ):
        desk.upstream.clear()
        desk.upstream.script("chat-a", *script)
        answer = desk.ok(**asked)
        (stage,) = stages(answer)
        assert answer["choices"][0]["message"]["content"] == text
        assert (stage["data"]["result"], stage["data"]["calls"]) == (result, calls)
        assert answer["usage"]["total_tokens"] == calls * 15
        assert cost_of(desk, answer) == pytest.approx(one * calls)
    desk.server.check_books()


def test_the_second_call_is_estimated_by_what_it_was_asked_with(desk: Desk) -> None:
    unreported = {"text": MISFIT, "usage": None}
    desk.upstream.script("chat-a", unreported, unreported, {"text": FIT, "usage": None})
    asked: dict[str, Any] = {"plugins": REPAIR, "response_format": STRICT}
    one = desk.ok(response_format=STRICT)["usage"]
    both = desk.ok(**asked)["usage"]
    assert both["prompt_tokens"] > 2 * one["prompt_tokens"]


def test_a_guardrail_holds_to_schemas_and_streams_are_only_looked_at(desk: Desk) -> None:
    set_guardrail(desk, enforce_schema=True)
    for text, result in ((DEEP, "unchecked"), (MISFIT, "invalid")):
        desk.upstream.clear()
        desk.upstream.script("chat-a", {"text": text}, repeat=True)
        asked = {"model": desk.model, "messages": HELLO, "response_format": STRICT, "stream": True}
        answer = desk.server.post(
            "/api/v1/chat/completions",
            key=desk.account.api_key,
            headers=METADATA,
            json=asked,
        )
        assert f'"result":"{result}"' in answer.text
    assert len(desk.upstream.requests("chat-a")) == 1
    assert desk.ok(response_format=STRICT, headers=METADATA)["usage"]["cost"] > 0
    assert len(desk.upstream.requests("chat-a")) == 3
    unasked = STRICT | {"json_schema": SHAPE | {"strict": False}}
    assert stages(desk.ok(response_format=unasked, headers=METADATA)) == []


# --- Compression ----------------------------------------------------------------------------------


def long_talk(pair: Pair, turns: int, chars: int) -> list[dict[str, Any]]:
    """A conversation of the caller's format whose texts tell their place."""
    talk: list[dict[str, Any]] = []
    for number in range(turns):
        talk += pair.speaker.user(f"<{number}> " + "x" * chars)
        talk.append({"role": "assistant", "content": f"<{number}> yes"})
    return talk + pair.speaker.user("What now?")


@ONE_KIND
def test_a_small_context_compresses_by_itself(pair: Pair) -> None:
    talk = long_talk(pair, 12, 500)
    asked = pair.ask(talk, model="acme/tiny", system="Be kind.", cap=50)

    (sent,) = pair.list_sent_bodies()
    texts = [message["content"] for message in sent["messages"]]
    assert asked.finish == "stop"
    assert texts[0] == "Be kind."
    assert texts[1].startswith("<0>")
    assert texts[-1] == "What now?"
    assert len(texts) < len(talk) + 1
    assert sum(map(len, texts)) <= 3 * 1000


def test_compression_is_a_stage_that_can_be_refused(desk: Desk) -> None:
    desk.model = "acme/tiny"
    long = saying("x" * 5_000)
    plugin = {"id": "context-compression", "enabled": False}
    refused: list[dict[str, Any]] = [
        # A larger context is compressed where it is told to be.
        {"model": "acme/narrow", "messages": [*saying("x" * 50_000), *HELLO]},
        {"messages": [*long, *HELLO], "plugins": [plugin]},
        {"messages": [*long, *HELLO], "transforms": []},
        # What has to stay is never cut.
        {"messages": [*HELLO, *long]},
    ]
    for asked in refused:
        desk.expect_refusal(400, "context_length_exceeded", **asked)

    large = [*saying("x" * 50_000), *HELLO]
    desk.ok(model="acme/narrow", messages=large, plugins=[plugin | {"enabled": True}])
    answer = desk.ok(messages=[*long, *HELLO], transforms=["middle-out"], headers=METADATA)

    (stage,) = stages(answer)
    assert (stage["type"], stage["name"]) == ("context_compression", "context-compression")
    told = {"engine": "middle-out", "input_type": "messages"}
    assert stage["data"] == told | {"original_count": 2, "compressed_count": 2}
    assert stages(desk.ok(headers=METADATA)) == []


# --- Files and moderation -------------------------------------------------------------------------


@ONE_KIND
def test_what_moderation_flags_is_refused(pair: Pair) -> None:
    talk = pair.speaker.user(f"Some {FORBIDDEN}.")
    response = pair.post(talk, plugins=MODERATE)

    assert response.status_code == 403, response.text
    error = response.json()["error"]
    # Messages have words of their own for who refused.
    if pair.speaker.name == "messages":
        assert error["type"] == "permission_error"
    else:
        told = error["metadata"]
        assert told["error_type"] == "content_policy_violation"
        assert told["reasons"] == ["violence", "spam"]
        assert told["flagged_input"] == f"Some {FORBIDDEN}."
    assert pair.list_sent_bodies() == []


def test_moderation_happens_where_it_is_asked_for(desk: Desk) -> None:
    talk = saying(FORBIDDEN)
    plain = desk.ok(messages=talk)
    looked_at = desk.ok(plugins=MODERATE)

    assert desk.generation(plain["id"])["moderation_latency"] is None
    assert desk.generation(looked_at["id"])["moderation_latency"] >= 0
    refused = desk.post(messages=talk, plugins=MODERATE, headers=METADATA)
    (stage,) = stages(refused.json())
    assert (stage["type"], stage["name"]) == ("plugin", "moderation")
    assert stage["data"] == {"action": "blocked", "reasons": ["violence", "spam"]}


def test_nothing_goes_on_where_moderation_takes_too_long(desk: Desk) -> None:
    asked: dict[str, Any] = {"messages": saying(SLEEPY), "plugins": MODERATE}
    error = desk.expect_refusal(503, "provider_overloaded", **asked)
    assert error["message"] == "Moderation is not available"


# --- Content filters over what tools find ---------------------------------------------------------


@STREAMED
@pytest.mark.parametrize(
    ("action", "told"), [("redact", "[Zone]"), ("block", "kept the result back")]
)
def test_models_read_tools_through_content_filters(
    desk: Desk, stream: bool, action: str, told: str
) -> None:
    make_assigned(desk, content_filters=[{"pattern": "UTC", "action": action, "label": "Zone"}])
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
    (result,) = [
        m["content"] for m in desk.list_sent_bodies("chat-a")[-1]["messages"] if m["role"] == "tool"
    ]
    assert told in result
    assert "UTC" not in result
    assert [stage["type"] for stage in stages(metadata)] == ["guardrail", "server_tools"]
