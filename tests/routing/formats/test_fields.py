"""The top level of bodies of all three formats. It is both sides of every bound, and the fields
that one format has a rule of its own for (inference 1.1, 4.1 and 5.1). That a field refuses what
its schema does not name, and where, `test_any_body` says of each."""

from math import inf, nan
from typing import Any, Final

import pytest

from routing.formats.chat.request import ChatInvalid
from tests.routing.formats import chat_bodies
from tests.routing.formats.chat_bodies import FUNCTION, USER, Bodies, chat
from tests.routing.formats.messages import bodies as messages
from tests.routing.formats.responses import bodies as responses

# Chat, messages, responses: a row names those that have its field by the first letter.
FORMATS: Final = {
    "c": chat_bodies.BODIES,
    "m": messages.BODIES,
    "r": responses.BODIES,
}
HUGE: Final = 10**400
NO_NUMBER: Final[list[Any]] = ["0.5", True, [], {}, nan, inf, HUGE]
NO_INTEGER: Final[list[Any]] = [*NO_NUMBER[1:-1], "1", False, 5.5, 1.0000001, 1e-300]
NO_FLAG: Final[list[Any]] = [0, 1, "true", []]
NO_WORD: Final[list[Any]] = ["nope", "", 1, ["low"], {"a": 1}]
EFFORTS: Final = ["max", "xhigh", "high", "medium", "low", "minimal", "none"]
TIERS: Final = ["auto", "default", "fast", "flex", "priority", "scale"]
PAIRS_16: Final = {str(number): "" for number in range(16)}
SCHEMA: Final = {"type": "json_schema", "schema": {"type": "object"}}
CONDITIONS: Final = [{"type": "max_cost", "max_cost_in_dollars": 1}]
PREFERENCES: Final = {"order": ["a"], "sort": {"by": "price"}, "max_price": {"prompt": 1}}
BUDGET: Final = {"type": "tokens", "total": 20_000}
ENABLED: Final = {"type": "enabled", "budget_tokens": 2048}
DISPLAYS: Final = ["summarized", "omitted", "updates", None]
EDITS: Final = [
    {"type": kind, "trigger": {"type": "x"}}
    for kind in ("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112")
]
INCLUDED: Final = [
    *("file_search_call.results", "message.input_image.image_url", "reasoning.encrypted_content"),
    *("computer_call_output.output.image_url", "code_interpreter_call.outputs"),
]

FIELDS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("cmr", "model", ["a/b", ""], [5]),
    ("cmr", "models", [[], ["a/1", "a/2", "a/3"]], [["a/b"] * 4, [5], "a/b"]),
    ("cm", "messages", [[USER]], [None, [], "hi", [5]]),
    ("r", "input", ["", "hi", [USER]], [None, 5, {}, []]),
    ("cmr", "temperature", [0, 2, 1.5], [-0.1, 2.01, *NO_NUMBER]),
    ("cmr", "top_p", [0, 1], [-0.1, 1.1, *NO_NUMBER]),
    ("cr", "top_a", [0, 1], [-0.1, 1.1, *NO_NUMBER]),
    ("cr", "min_p", [0, 0.5, 99], [-0.1, *NO_NUMBER]),
    ("cr", "frequency_penalty", [-2, 2], [-2.1, 2.1, *NO_NUMBER]),
    ("cr", "presence_penalty", [-2, 2], [-2.1, 2.1, *NO_NUMBER]),
    ("cr", "repetition_penalty", [0, 2], [-0.1, 2.1, *NO_NUMBER]),
    ("cm", "max_tokens", [1, 5.0, 2**63, HUGE, 1e300], [0, -1, *NO_INTEGER]),
    ("c", "max_completion_tokens", [1, 5.0, 2**64, HUGE, 1e300], [0, -1, *NO_INTEGER]),
    ("r", "max_output_tokens", [1, 5.0, HUGE], [0, -1, *NO_INTEGER]),
    ("cr", "top_k", [0, -1, 5.0, 2**63, HUGE, 1e300], NO_INTEGER),
    ("m", "top_k", [0, 5.0], [-1, *NO_INTEGER]),
    ("cr", "top_logprobs", [0, 20, 5.0], [-1, 21, HUGE, -HUGE, 1e300, *NO_INTEGER]),
    ("cr", "seed", [-(2**63), 2**63 - 1], [-(2**63) - 1, 2**63, HUGE, 1e300, *NO_INTEGER]),
    ("cr", "max_tool_calls", [1, 30, 5.0], [0, 31, HUGE, *NO_INTEGER]),
    ("c", "n", [1, 1.0], [0, 2, HUGE, *NO_INTEGER]),
    ("cmr", "stream", [True, False], NO_FLAG),
    ("cr", "stop", ["a", [], list("abcd")], [3, ["a"] * 5, ["a", 3]]),
    ("m", "stop_sequences", [[], list("abcdefgh")], ["a", [5]]),
    ("cr", "metadata", [{}, PAIRS_16, {"😀" * 64: "😀" * 512}], [[], {**PAIRS_16, "k": ""}]),
    ("m", "metadata", [{}, {"user_id": "u", "x": 1}], [{"user_id": 5}]),
    ("cmr", "session_id", ["", "😀" * 256], ["s" * 257]),
    ("c", "user", ["u" * 5000], [5]),
    ("mr", "user", ["", "é" * 256], ["é" * 257, 5]),
    ("cmr", "route", ["fallback", "sort"], NO_WORD),
    ("c", "verbosity", ["low", "medium", "high", "xhigh", "max"], NO_WORD),
    ("c", "reasoning_effort", EFFORTS, NO_WORD),
    ("cr", "reasoning", [{}, *({"effort": each} for each in EFFORTS)], ["high"]),
    ("cr", "service_tier", TIERS, NO_WORD),
    ("m", "service_tier", [*TIERS, "standard_only"], ["batch", 5]),
    ("m", "speed", ["fast", "standard"], NO_WORD),
    ("r", "truncation", ["auto", "disabled"], NO_WORD),
    ("c", "modalities", [[], ["text", "image"]], ["text"]),
    ("r", "modalities", [[], ["text", "image"]], ["text"]),
    ("cr", "image_config", [{}, {"a": "x", "b": 1, "c": [{}]}], [[]]),
    ("cr", "logit_bias", [{}, {"5": -100, "6": 100}], [[]]),
    ("cmr", "cache_control", [{"type": "ephemeral", "ttl": "1h"}], [5]),
    ("cmr", "trace", [{}, {"trace_id": "t", "own": {"a": [1]}}], ["t"]),
    ("cmr", "plugins", [[], [{"id": "web", "enabled": False}]], [[{"id": "nope"}], [{}], ["web"]]),
    ("cmr", "provider", [{}, PREFERENCES], ["alpha", [], {"nope": 1}]),
    ("cmr", "tools", [[]], [{}, ["f"]]),
    ("cr", "tool_choice", ["auto", "none"], ["any", 5, "required"]),
    ("cmr", "stop_server_tools_when", [CONDITIONS], [[], 5]),
    ("m", "system", ["", "x", [], [{"type": "text", "text": "x"}]], [5, [{"type": "image"}]]),
    ("m", "fallbacks", [[], [{"model": "a"}]], ["a", ["a"], [{}], [{"model": 5}]]),
    ("m", "context_management", [{}, {"edits": []}, {"edits": EDITS}], [5, {"edits": 5}]),
    ("m", "output_config", [{"format": SCHEMA, "task_budget": {**BUDGET, "remaining": 0}}], [5]),
    ("m", "output_config", [{"effort": each} for each in EFFORTS[:5]], [{"effort": "huge"}]),
    ("r", "include", [[], INCLUDED], ["file_search_call.results", ["message.output_text"]]),
    ("r", "text", [{}, {"format": {**SCHEMA, "name": "n"}, "verbosity": "low"}], [[]]),
    ("c", "response_format", [{"type": "text"}, {**SCHEMA, "json_schema": {"name": "n"}}], [5]),
    ("c", "response_format", [{"type": "python"}, {"type": "grammar", "grammar": "g"}], ["text"]),
    ("m", "thinking", [{"type": each} for each in ("adaptive", "disabled", "between_tools")], [5]),
    ("m", "thinking", [{**ENABLED, "display": each} for each in DISPLAYS], [{}]),
    ("m", "thinking", [{**ENABLED, "budget_tokens": each} for each in (1024.0, 4095)], ["on"]),
    ("r", "previous_response_id", [None], ["r1", "", 0]),
    ("r", "conversation", [None], ["conv_1", {"id": "conv_1"}]),
    ("r", "store", [False], [True, 0]),
    ("r", "background", [False, None], [True, "false"]),
    ("r", "prompt", [None], [{"id": "pmpt_1"}, "pmpt_1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("formats", "name", "good", "bad"), FIELDS, ids=[f"{row[1]}-{row[0]}" for row in FIELDS]
)
def test_a_field_takes_what_it_may_and_nothing_else(
    formats: str, name: str, good: list[Any], bad: list[Any]
) -> None:
    for bodies in map(FORMATS.__getitem__, formats):
        for value in good:
            bodies.parse_fields(**{name: value})
        for value in bad:
            found = {path.partition(".")[0] for path in bodies.paths(**{name: value})}
            assert found == {name}, (formats, value)


def shape_named(name: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name}}


PART: Final = {"type": "content", "content": [{"type": "text", "text": "x"}]}
# Formats, a field's value, and where it is refused below the field.
INSIDE: list[tuple[str, str, Any, str]] = [
    ("cr", "metadata", {"k" * 65: ""}, "k" * 64 + "…"),
    ("cr", "metadata", {"k": "v" * 513}, "k"),
    ("r", "metadata", {"a[0]": ""}, "a[0]"),
    ("r", "metadata", {"a]": ""}, "a]"),
    ("cr", "logit_bias", {"5": 100.5}, "5"),
    ("cr", "logit_bias", {"5": -101}, "5"),
    ("cr", "logit_bias", {"5": True}, "5"),
    ("cr", "image_config", {"a": True}, "a"),
    ("cr", "image_config", {"a": {}}, "a"),
    ("c", "modalities", ["smell"], "0"),
    ("r", "modalities", ["audio"], "0"),
    ("c", "prediction", {**PART, "content": [{"type": "image_url"}]}, "content.0.type"),
    ("cmr", "cache_control", {"type": "x"}, "type"),
    ("cmr", "cache_control", {"type": "ephemeral", "ttl": "2h"}, "ttl"),
    ("c", "web_search_options", {"search_context_size": "huge"}, "search_context_size"),
    ("cr", "reasoning", {"effort": "huge"}, "effort"),
    ("cr", "reasoning", {"summary": "long"}, "summary"),
    ("cr", "reasoning", {"max_tokens": -1}, "max_tokens"),
    ("cr", "reasoning", {"max_tokens": 1.5}, "max_tokens"),
    ("r", "reasoning", {"context": "some"}, "context"),
    ("r", "reasoning", {"mode": "fast"}, "mode"),
    ("c", "response_format", {"type": "yaml"}, "type"),
    ("c", "response_format", shape_named(""), "json_schema.name"),
    ("c", "response_format", shape_named("n" * 65), "json_schema.name"),
    ("c", "response_format", shape_named("a b"), "json_schema.name"),
    ("r", "text", {"format": {"type": "grammar"}}, "format.type"),
    ("r", "text", {"format": SCHEMA}, "format.name"),
    ("r", "text", {"format": {"type": "json_schema", "name": "n"}}, "format.schema"),
    ("r", "text", {"verbosity": "loud"}, "verbosity"),
    ("r", "include", ["message.output_text"], "0"),
    ("m", "output_config", {"effort": "none"}, "effort"),
    ("m", "output_config", {"effort": "minimal"}, "effort"),
    ("m", "output_config", {"format": {"type": "json_object"}}, "format.type"),
    ("m", "output_config", {"task_budget": {**BUDGET, "total": 19_999}}, "task_budget.total"),
    ("m", "output_config", {"task_budget": {**BUDGET, "remaining": -1}}, "task_budget.remaining"),
    ("m", "output_config", {"task_budget": {**BUDGET, "type": "words"}}, "task_budget.type"),
    ("m", "thinking", {"type": "sometimes"}, "type"),
    ("m", "thinking", {"type": "enabled", "budget_tokens": 1023}, "budget_tokens"),
    ("m", "thinking", {"type": "enabled", "budget_tokens": 2048.5}, "budget_tokens"),
    # What the answer may have in all.
    ("m", "thinking", {"type": "enabled", "budget_tokens": 4096}, "budget_tokens"),
    ("m", "thinking", {**ENABLED, "display": "all"}, "display"),
    ("m", "context_management", {"edits": [{"type": "compact_202601120"}]}, "edits.0.type"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("formats", "name", "value", "path"), INSIDE, ids=[f"{row[1]}.{row[3]}" for row in INSIDE]
)
def test_a_field_is_checked_inside(formats: str, name: str, value: Any, path: str) -> None:
    for bodies in map(FORMATS.__getitem__, formats):
        assert bodies.paths(**{name: value}) == [f"{name}.{path}"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"temperature": 2.01}, "temperature: Too big: expected number to be <=2"),
        ({"temperature": -1}, "temperature: Too small: expected number to be >=0"),
        ({"stop": ["a"] * 5}, "stop: Too big: expected array to have <=4 items"),
        ({"stop": 3}, "stop: Invalid input: expected string or array, received number"),
        ({"models": ["a"] * 4}, "models: Too big: expected array to have <=3 items"),
        ({"route": "zig"}, 'route: Invalid option: expected one of "fallback"|"sort"'),
        ({"messages": None}, "messages: Invalid input: expected array, received null"),
        (
            {"tools": [{"type": "function", "function": {"name": "bad name!"}}]},
            "tools.0.function.name: Invalid string: must match pattern /^[A-Za-z0-9_-]+$/",
        ),
    ],
)
def test_a_refusal_says_what_was_expected(fields: dict[str, Any], text: str) -> None:
    assert chat_bodies.text_of(**fields) == text


@pytest.mark.parametrize("bodies", FORMATS.values(), ids=FORMATS)
def test_the_session_header_is_measured_and_gives_way_to_the_body(bodies: Bodies) -> None:
    assert bodies.parse_fields("h" * 256).session_id == "h" * 256
    assert bodies.parse_fields("h", session_id="b").session_id == "b"
    assert bodies.parse_fields("h", session_id="").session_id == "h"
    assert bodies.parse_fields("", session_id="").session_id is None
    assert bodies.paths("h" * 257, session_id="b") == ["x-session-id"]
    assert bodies.paths("h" * 257, temperature=3) == ["temperature", "x-session-id"]


@pytest.mark.parametrize("bodies", FORMATS.values(), ids=FORMATS)
def test_unknown_fields_are_kept_and_the_callers_body_is_left_as_it_is(bodies: Bodies) -> None:
    body = bodies.body(zz={"a": None}, temperature=1.0)
    before = repr(body)
    assert bodies.parse(body).body["zz"] == {"a": None}
    assert repr(body) == before


@pytest.mark.parametrize("name", ["model", "messages"])
def test_a_messages_body_without_a_model_or_messages_is_refused(name: str) -> None:
    body = messages.body_of()
    del body[name]
    with pytest.raises(ChatInvalid, match=f"{name}: Invalid input: expected .* undefined"):
        messages.BODIES.parse(body)


def test_a_prompt_without_messages_is_told_what_to_send() -> None:
    with pytest.raises(ChatInvalid) as caught:
        chat_bodies.BODIES.parse({"model": "m", "prompt": "x"})
    assert [issue.path for issue in caught.value.issues] == ["messages", "prompt"]
    chat_bodies.parse_fields(prompt="beside messages it is just an unknown field")
    with pytest.raises(ChatInvalid) as caught:
        chat_bodies.BODIES.parse({})
    text = "messages: Invalid input: expected array, received undefined"
    assert str(caught.value) == text


def test_a_chat_body_that_needs_no_change_is_the_callers_own() -> None:
    body = chat(foo=1, tools=[FUNCTION], max_tokens=5.0)
    assert chat_bodies.BODIES.parse(body).body is body


def test_two_efforts_must_agree() -> None:
    agreeing: tuple[Any, ...] = (("low", "low"), (None, "low"), ("low", None))
    for inside, beside in agreeing:
        chat_bodies.parse_fields(reasoning={"effort": inside}, reasoning_effort=beside)
    differing = {"reasoning": {"effort": "low"}, "reasoning_effort": "high"}
    assert chat_bodies.paths(**differing) == ["reasoning_effort"]


def test_sound_needs_its_modality_and_a_stream() -> None:
    audio = {"voice": "alloy", "format": "pcm16"}
    chat_bodies.parse_fields(audio=audio, modalities=["text", "audio"], stream=True)
    lacking: tuple[dict[str, Any], ...] = (
        *({"modalities": ["text"], "stream": True}, {"modalities": ["audio"]}, {"stream": True}),
    )
    for fields in lacking:
        assert chat_bodies.paths(audio=audio, **fields) == ["audio"]


def test_without_a_limit_of_the_whole_answer_a_budget_has_none_either() -> None:
    body = messages.body_of(thinking={**ENABLED, "budget_tokens": 10**6})
    del body["max_tokens"]
    request = messages.BODIES.parse(body)
    assert request.reasoning
    assert (request.reasoning.max_tokens, request.max_output_tokens) == (10**6, None)


def test_fallbacks_name_models_and_stand_alone() -> None:
    entry = {"model": "a"}
    three = [entry, {"model": "b"}, entry]
    assert messages.parse_fields(fallbacks=three).candidates == ["acme/small", "a", "b"]
    assert messages.paths(fallbacks=[entry] * 4) == ["fallbacks"]
    assert messages.BODIES.text_of(fallbacks=[{**entry, "max_tokens": 5}]) == (
        'fallbacks.0: Unrecognized key: "max_tokens"'
    )
    assert messages.paths(fallbacks=[entry], models=["b"]) == ["fallbacks"]
    assert messages.parse_fields(fallbacks=[], models=["b"]).models == ["b"]
    assert messages.parse_fields(fallbacks=[entry], models=[]).models == ["a"]


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"speed": None}, None),
        ({"speed": "fast"}, "priority"),
        ({"speed": "standard"}, None),
        ({"service_tier": "standard_only", "speed": "fast"}, "default"),
        ({"service_tier": "auto", "speed": "fast"}, "priority"),
        ({"service_tier": "fast"}, "priority"),
        ({"service_tier": "flex"}, "flex"),
    ],
)
def test_speed_is_a_tier_and_a_named_tier_wins(fields: dict[str, Any], tier: str | None) -> None:
    assert messages.parse_fields(**fields).service_tier == tier


def test_what_chat_checks_and_messages_do_not_is_not_taken_unchecked() -> None:
    body = messages.parse_fields(min_p=0.1, seed=7, modalities=["x"], debug=5, n="2").body
    assert (body["min_p"], body["seed"]) == (0.1, 7)
    assert not {"modalities", "debug", "n"} & set(body)
    assert "seed" not in messages.parse_fields(seed="x").body
