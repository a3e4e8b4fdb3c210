"""Every top-level parameter of a chat body, both sides of every bound (inference 1.1)."""

from typing import Any

import pytest

from routing.formats.chat.request import ChatInvalid, parse_chat
from tests.routing.formats.chat_bodies import FUNCTION, accepted, chat, paths, text_of

Bounds = dict[str, tuple[int | None, int | None]]
NUMBERS: Bounds = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, None),
    "top_a": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0, 2),
}
INTEGERS: Bounds = {
    "max_completion_tokens": (1, None),
    "max_tokens": (1, None),
    "top_k": (None, None),
    "top_logprobs": (0, 20),
    "seed": (-(2**63), 2**63 - 1),
    "max_tool_calls": (1, 30),
    "n": (1, 1),
}
BOOLEANS = ["logprobs", "parallel_tool_calls", "structured_outputs", "include_reasoning"]
NOT_NUMBERS: list[Any] = ["0.5", True, [], {}, float("nan"), float("inf"), 10**400]
NOT_BOOLEANS: list[Any] = [0, 1, "true", []]
NOT_WORDS: list[Any] = ["nope", "", 1, ["low"], {"a": 1}]


def edges(side: int) -> list[tuple[str, int]]:
    bounds = {**NUMBERS, **INTEGERS}
    return [(name, edge) for name, pair in bounds.items() if (edge := pair[side]) is not None]


@pytest.mark.parametrize(("name", "low"), edges(0))
def test_a_lower_bound_is_included_and_nothing_below(name: str, low: int) -> None:
    accepted(**{name: low})
    assert text_of(**{name: low - 1}) == f"{name}: Too small: expected number to be >={low}"


@pytest.mark.parametrize(("name", "high"), edges(1))
def test_an_upper_bound_is_included_and_nothing_above(name: str, high: int) -> None:
    accepted(**{name: high})
    assert text_of(**{name: high + 1}) == f"{name}: Too big: expected number to be <={high}"


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_not_a_string_a_boolean_or_nan(name: str) -> None:
    accepted(**{name: 0.5})
    for odd in NOT_NUMBERS:
        assert paths(**{name: odd}) == [name]


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_may_be_written_as_a_whole_float_only(name: str) -> None:
    accepted(**{name: 1.0})
    for odd in (*NOT_NUMBERS[1:-1], "1", False, 5.5, 1.0000001, 1e-300):
        assert paths(**{name: odd}) == [name]


@pytest.mark.parametrize("name", ["max_completion_tokens", "max_tokens", "top_k"])
@pytest.mark.parametrize("value", [2**63, 2**64, 10**40, 10**400, 1e300])
def test_an_unbounded_integer_may_have_any_length(name: str, value: float) -> None:
    accepted(**{name: value})


@pytest.mark.parametrize("name", ["top_logprobs", "seed", "max_tool_calls", "n"])
@pytest.mark.parametrize("value", [2**63, 2**64, 10**400, -(10**400), 1e300])
def test_a_bounded_integer_is_refused_at_any_length(name: str, value: float) -> None:
    assert paths(**{name: value}) == [name]


def test_row_6_temperature() -> None:
    assert text_of(temperature=2.01) == "temperature: Too big: expected number to be <=2"
    assert paths(temperature="0.5") == ["temperature"]
    assert paths(temperature=True) == ["temperature"]
    accepted(temperature=None)


def test_a_required_field_is_no_null() -> None:
    assert text_of(messages=None) == "messages: Invalid input: expected array, received null"


@pytest.mark.parametrize("name", [*BOOLEANS, "stream"])
def test_a_flag_is_a_boolean_and_nothing_like_one(name: str) -> None:
    accepted(**{name: False})
    for odd in NOT_BOOLEANS:
        assert paths(**{name: odd}) == [name]


def test_row_8_stop_takes_four_strings_or_one() -> None:
    accepted(stop="a")
    accepted(stop=[])
    accepted(stop=["a", "b", "c", "d"])
    assert text_of(stop=["a"] * 5) == "stop: Too big: expected array to have <=4 items"
    assert text_of(stop=3) == "stop: Invalid input: expected string or array, received number"
    assert paths(stop=["a", 3]) == ["stop.1"]


def test_row_10_metadata_is_bounded_in_pairs_keys_and_values() -> None:
    accepted(metadata={str(i): "v" for i in range(16)})
    accepted(metadata={"😀" * 64: "😀" * 512})
    pairs = text_of(metadata={str(i): "v" for i in range(17)})
    assert pairs == "metadata: Too big: expected object to have <=16 keys"
    key = text_of(metadata={"k" * 65: "v"})
    assert key.startswith("metadata.kkk")
    assert key.endswith("Too big: expected string to have <=64 characters")
    value = text_of(metadata={"k": "v" * 513})
    assert value == "metadata.k: Too big: expected string to have <=512 characters"
    assert paths(metadata={"k": 1}) == ["metadata.k"]


def test_row_11_session_ids_have_256_code_points_at_most() -> None:
    accepted(session_id="😀" * 256)
    assert paths(session_id="s" * 257) == ["session_id"]
    accepted("h" * 256)
    assert paths("h" * 257) == ["x-session-id"]
    assert paths("h" * 257, session_id="b") == ["x-session-id"]
    assert paths("h" * 257, temperature=3) == ["temperature", "x-session-id"]


def test_row_13_two_efforts_must_agree() -> None:
    assert paths(reasoning={"effort": "low"}, reasoning_effort="high") == ["reasoning_effort"]
    accepted(reasoning={"effort": "low"}, reasoning_effort="low")
    accepted(reasoning={"effort": None}, reasoning_effort="low")
    accepted(reasoning={"effort": "low"}, reasoning_effort=None)


@pytest.mark.parametrize("effort", ["max", "xhigh", "high", "medium", "low", "minimal", "none"])
def test_every_effort_is_known(effort: str) -> None:
    accepted(reasoning_effort=effort)
    accepted(reasoning={"effort": effort})


def test_the_reasoning_object_is_checked_inside() -> None:
    full = {"effort": "low", "summary": "auto", "max_tokens": 5.0, "exclude": True, "enabled": None}
    accepted(reasoning=full)
    for key, odd in [
        ("effort", "huge"),
        ("summary", "long"),
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        ("enabled", 1),
    ]:
        assert paths(reasoning={key: odd}) == [f"reasoning.{key}"]


def test_row_14_three_fallback_models_are_the_most() -> None:
    accepted(models=[])
    accepted(models=["a/1", "a/2", "a/3"])
    text = text_of(models=["a/1", "a/2", "a/3", "a/4"])
    assert text == "models: Too big: expected array to have <=3 items"


def test_row_17_route_knows_two_words() -> None:
    text = text_of(route="zig")
    assert text == 'route: Invalid option: expected one of "fallback"|"sort"'


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("verbosity", ["low", "medium", "high", "xhigh", "max"]),
        ("service_tier", ["auto", "default", "fast", "flex", "priority", "scale"]),
        ("reasoning_effort", ["max", "none"]),
    ],
)
def test_an_enumeration_takes_its_words_and_no_others(name: str, words: list[str]) -> None:
    for word in words:
        accepted(**{name: word})
    for odd in NOT_WORDS:
        assert paths(**{name: odd}) == [name]


def test_row_25_response_formats() -> None:
    schema = {"name": "n", "schema": {"type": "object"}, "strict": None, "extra": 1}
    for good in (
        {"type": "text"},
        {"type": "json_object"},
        {"type": "python"},
        {"type": "grammar", "grammar": "root ::= x"},
        {"type": "json_schema", "json_schema": schema},
    ):
        assert accepted(response_format=good).response_format_type == good["type"]
    assert text_of(response_format={"type": "json_schema"}) == (
        "response_format.json_schema: Invalid input: expected object, received undefined"
    )
    assert paths(response_format={"type": "yaml"}) == ["response_format.type"]
    assert paths(response_format={"type": "grammar"}) == ["response_format.grammar"]
    for name in ("", "bad name!", "n" * 65, None):
        odd = {"type": "json_schema", "json_schema": {"name": name}}
        assert paths(response_format=odd) == ["response_format.json_schema.name"]


def test_audio_output_needs_the_modality_and_a_stream() -> None:
    audio = {"voice": "alloy", "format": "pcm16"}
    accepted(audio=audio, modalities=["text", "audio"], stream=True)
    assert paths(audio=audio, modalities=["text"], stream=True) == ["audio"]
    assert paths(audio=audio, modalities=["audio"]) == ["audio"]
    assert paths(audio=audio) == ["audio"]
    assert paths(audio={"voice": "a"}, modalities=["audio"], stream=True) == ["audio.format"]


@pytest.mark.parametrize(
    ("name", "good", "bad", "path"),
    [
        ("logit_bias", {"5": -100, "6": 100}, {"5": 100.5}, "logit_bias.5"),
        ("logit_bias", {}, {"5": -101}, "logit_bias.5"),
        ("logit_bias", {"5": 0}, {"5": True}, "logit_bias.5"),
        ("logit_bias", {"5": 0}, {"5": None}, "logit_bias.5"),
        ("image_config", {"a": "x", "b": 1, "c": [{}]}, {"a": True}, "image_config.a"),
        ("image_config", {}, {"a": {}}, "image_config.a"),
        ("modalities", ["text", "image"], ["smell"], "modalities.0"),
        (
            "prediction",
            {"type": "content", "content": "x"},
            {"type": "content"},
            "prediction.content",
        ),
        (
            "prediction",
            {"type": "content", "content": [{"type": "text", "text": "x"}]},
            {"type": "content", "content": [{"type": "image_url"}]},
            "prediction.content.0.type",
        ),
        ("cache_control", {"type": "ephemeral", "ttl": "1h"}, {"type": "x"}, "cache_control.type"),
        (
            "cache_control",
            {"type": "ephemeral"},
            {"type": "ephemeral", "ttl": "2h"},
            "cache_control.ttl",
        ),
        (
            "prompt_cache_options",
            {"mode": "explicit", "ttl": None},
            {},
            "prompt_cache_options.mode",
        ),
        ("prompt_cache_key", "k", 1, "prompt_cache_key"),
        (
            "stream_options",
            {"include_usage": True, "x": 1},
            {"include_usage": 1},
            "stream_options.include_usage",
        ),
        ("usage", {"include": True}, {"include": "yes"}, "usage.include"),
        (
            "debug",
            {"echo_upstream_body": True},
            {"echo_upstream_body": 1},
            "debug.echo_upstream_body",
        ),
        ("trace", {"trace_id": "t", "mine": {"a": [1]}}, {"trace_id": 1}, "trace.trace_id"),
        ("trace", {}, "t", "trace"),
        ("transforms", ["middle-out"], [1], "transforms.0"),
        ("user", "u" * 5000, 5, "user"),
        (
            "web_search_options",
            {"search_context_size": "low", "user_location": {"type": "approximate"}},
            {"search_context_size": "huge"},
            "web_search_options.search_context_size",
        ),
    ],
)
def test_an_object_field_is_checked_inside(name: str, good: Any, bad: Any, path: str) -> None:
    accepted(**{name: good})
    assert paths(**{name: bad}) == [path]


def test_max_tool_calls_does_not_count_beside_stop_conditions() -> None:
    conditions = [{"type": "step_count_is", "step_count": 50}]
    accepted(max_tool_calls=31, stop_server_tools_when=conditions)
    assert paths(max_tool_calls=31) == ["max_tool_calls"]


def test_a_prompt_without_messages_is_told_what_to_send() -> None:
    with pytest.raises(ChatInvalid) as caught:
        parse_chat({"model": "m", "prompt": "x"}, session_header=None)
    assert [issue.path for issue in caught.value.issues] == ["messages", "prompt"]
    accepted(prompt="beside messages it is just an unknown field")


def test_row_58_unknown_top_level_fields_are_kept() -> None:
    body = chat(foo=1, bar={"a": None})
    assert parse_chat(body, session_header=None).body is body


def test_the_original_body_is_left_untouched() -> None:
    body = chat(max_tokens=5.0, tools=[FUNCTION], temperature=None)
    before = repr(body)
    parse_chat(body, session_header=None)
    assert repr(body) == before


def test_an_empty_body_names_the_missing_messages() -> None:
    with pytest.raises(ChatInvalid) as caught:
        parse_chat({}, session_header=None)
    text = "messages: Invalid input: expected array, received undefined"
    assert str(caught.value) == text
