"""What presets keep of a body, format by format."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import ChatInvalid
from routing.presets.keeping import Content, content_of
from routing.presets.keys import OTHERS, SAME

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FLAT_FUNCTION = {"type": "function", "name": "f", "parameters": SCHEMA}
MESSAGES_TOOL = {"name": "f", "input_schema": SCHEMA, "description": "Does f"}
SEARCH = {"type": "router:web_search", "parameters": {"max_results": 3}}
STOPS = [{"type": "step_count_is", "step_count": 3}]
PLUGINS = [{"id": "web", "max_results": 2}]
COMMON: dict[str, Any] = {
    "model": "acme/solo",
    "models": ["acme/small"],
    "provider": {"order": ["acme"]},
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "stop_server_tools_when": STOPS,
    "plugins": PLUGINS,
    "service_tier": "flex",
    "cache_control": {"type": "ephemeral"},
    "cache_enabled": True,
    "cache_ttl_seconds": 60,
}
BOTH: dict[str, Any] = {
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "top_logprobs": 3,
    "parallel_tool_calls": False,
    "max_tool_calls": 5,
    "modalities": ["text"],
    "image_config": {"size": "small"},
    "prompt_cache_options": {"mode": "explicit"},
}
CHAT: dict[str, Any] = {
    **COMMON,
    **BOTH,
    "min_p": 0.1,
    "top_a": 0.2,
    "repetition_penalty": 1.1,
    "seed": 7,
    "logit_bias": {"5": 1},
    "logprobs": True,
    "max_tokens": 100,
    "max_completion_tokens": 90,
    "stop": ["x"],
    "response_format": {"type": "json_object"},
    "verbosity": "low",
    "reasoning": {"effort": "high"},
    "tools": [FUNCTION, SEARCH],
    "tool_choice": "auto",
}
DROPPED: dict[str, Any] = {
    **dict.fromkeys(("messages", "input", "stream", "stream_options", "session_id"), 5),
    **{name: [5] for name in ("user", "trace", "metadata", "debug", "prediction", "route")},
    **{name: {"a": 5} for name in ("prompt_cache_key", "safety_identifier", "store", "n")},
    **dict.fromkeys(("background", "include", "context_management", "prompt", "preset"), 5),
    **dict.fromkeys(("include_reasoning", "structured_outputs", "transforms", "audio"), 5),
}


def kept(format: str, **body: Any) -> Content:
    return content_of(format, body, models_max=3)


def paths(format: str, **body: Any) -> list[str]:
    with pytest.raises(ChatInvalid) as refused:
        kept(format, **body)
    return [issue.path for issue in refused.value.issues]


def test_chat_keeps_its_fields_by_name() -> None:
    assert kept("chat", **CHAT, **DROPPED) == Content(CHAT, "")


def test_responses_keep_theirs_under_the_common_names() -> None:
    same = {**COMMON, **BOTH, "tools": [FLAT_FUNCTION, SEARCH], "truncation": "auto"}
    same |= {"tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low"}}
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    body = {
        **same,
        "max_output_tokens": 100,
        "text": {"format": form, "verbosity": "low"},
        "instructions": "I",
        "min_p": "nothing it keeps",
        "stop": 5,
    }

    content = kept("responses", **body, **DROPPED)

    renamed = {"max_tokens": 100, "response_format": form, "verbosity": "low"}
    assert content == Content(same | renamed, "I")


def test_messages_keep_theirs_under_the_common_names() -> None:
    same = {**COMMON, "max_tokens": 4096, "tools": [MESSAGES_TOOL], "speed": "fast"}
    same |= {"tool_choice": {"type": "tool", "name": "f"}}
    form = {"type": "json_schema", "schema": SCHEMA}
    body = {
        **same,
        "stop_sequences": ["x"],
        "thinking": {"type": "enabled", "budget_tokens": 2048.0},
        "output_config": {"effort": "high", "format": form},
        "system": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}],
        "frequency_penalty": "nothing it keeps",
        "verbosity": 5,
    }

    content = kept("messages", **body, **DROPPED)

    renamed = {"stop": ["x"], "response_format": form}
    renamed["reasoning"] = {"effort": "high", "max_tokens": 2048}
    assert content == Content(same | renamed, "One\n\nTwo")
    assert type(content.config["reasoning"]["max_tokens"]) is int


@pytest.mark.parametrize(
    ("body", "reasoning"),
    [
        ({"thinking": {"type": "disabled"}}, {"enabled": False}),
        ({"thinking": {"type": "adaptive"}}, {"enabled": True}),
        ({"output_config": {"effort": "low"}}, {"effort": "low"}),
        (
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
            {"effort": "low", "enabled": False},
        ),
    ],
)
def test_thinking_is_kept_as_reasoning(body: dict[str, Any], reasoning: dict[str, Any]) -> None:
    assert kept("messages", **body).config == {"reasoning": reasoning}


def test_fallbacks_are_models() -> None:
    fallbacks = [{"model": "a/b"}, {"model": "c/d"}]

    assert kept("messages", fallbacks=fallbacks).config == {"models": ["a/b", "c/d"]}
    assert kept("messages", fallbacks=None, models=[]).config == {}
    assert paths("messages", fallbacks=fallbacks, models=["a/b"]) == ["fallbacks"]


def test_an_effort_alone_is_reasoning() -> None:
    assert kept("chat", reasoning_effort="low").config == {"reasoning": {"effort": "low"}}
    both = kept("chat", reasoning_effort="low", reasoning={"effort": "low", "exclude": True})
    assert both.config == {"reasoning": {"effort": "low", "exclude": True}}
    assert paths("chat", reasoning_effort="low", reasoning={"effort": "high"}) == [
        "reasoning_effort"
    ]


def test_functions_are_kept_as_tools() -> None:
    function, tool = {"name": "f"}, {"type": "function", "function": {"name": "g"}}
    said = kept("chat", tools=[tool], functions=[function], function_call=function).config

    chosen = {"type": "function", "function": function}
    tools = {"tools": [tool, chosen], "tool_choice": chosen}
    assert said == {**tools, "parallel_tool_calls": False}


@pytest.mark.parametrize("format", SAME)
def test_a_body_with_nothing_to_keep_is_fine(format: str) -> None:
    assert kept(format) == Content({}, "")
    assert kept(format, **DROPPED) == Content({}, "")


@pytest.mark.parametrize("format", ["chat", "responses"])
def test_null_is_nothing(format: str) -> None:
    assert kept(format, temperature=None, provider=None, cache_enabled=None).config == {}


def test_whole_numbers_are_kept_whole() -> None:
    config = kept("chat", seed=5.0, max_tokens=7.0, temperature=1).config

    assert config == {"seed": 5, "max_tokens": 7, "temperature": 1}
    assert type(config["seed"]) is type(config["max_tokens"]) is int


@pytest.mark.parametrize(
    ("format", "body", "path"),
    [
        ("chat", {"temperature": 3}, "temperature"),
        ("chat", {"temperature": "1"}, "temperature"),
        ("chat", {"top_logprobs": 21}, "top_logprobs"),
        ("chat", {"models": ["a", "b", "c", "d"]}, "models"),
        ("chat", {"provider": {"options": {}}}, "provider"),
        ("chat", {"tools": [{"type": "nope"}]}, "tools.0.type"),
        ("chat", {"tools": {}}, "tools"),
        ("chat", {"tool_choice": "required"}, "tool_choice"),
        ("chat", {"max_tool_calls": 31}, "max_tool_calls"),
        ("chat", {"cache_enabled": 1}, "cache_enabled"),
        ("chat", {"cache_ttl_seconds": 0}, "cache_ttl_seconds"),
        ("messages", {"cache_ttl_seconds": 86401}, "cache_ttl_seconds"),
        ("chat", {"model": "@preset/other"}, "model"),
        ("chat", {"model": "a/b@Preset/other"}, "model"),
        ("responses", {"models": ["a/b", "@preset/other"]}, "models.1"),
        ("messages", {"fallbacks": [{"model": "@preset/other"}]}, "fallbacks.0.model"),
        ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
        ("responses", {"max_output_tokens": 0}, "max_output_tokens"),
        ("responses", {"text": {"verbosity": "loud"}}, "text.verbosity"),
        ("responses", {"instructions": 5}, "instructions"),
        ("messages", {"system": 5}, "system"),
        ("messages", {"temperature": "1"}, "temperature"),
        ("messages", {"top_k": -1}, "top_k"),
        (
            "messages",
            {"thinking": {"type": "enabled", "budget_tokens": 5}},
            "thinking.budget_tokens",
        ),
        (
            "messages",
            {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 2000}},
            "thinking.budget_tokens",
        ),
    ],
)
def test_what_is_kept_is_checked_as_at_inference(
    format: str, body: dict[str, Any], path: str
) -> None:
    assert paths(format, **body)[0].startswith(path)


@pytest.mark.parametrize(
    ("messages", "prompt"),
    [
        ([{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}], "A\n\nB"),
        ([{"role": "user", "content": "Hi"}, {"role": "system", "content": "late"}], "late"),
        ([{"role": "system", "content": [{"type": "text", "text": "A"}, 5, {}]}], "A"),
        ([{"role": "system", "content": ""}, {"role": "system"}], ""),
        ([{"role": ["system"], "content": "A"}, 5, None, "system"], ""),
        ("system", ""),
        ({"role": "system", "content": "A"}, ""),
        (None, ""),
    ],
)
def test_instructions_of_a_chat_body(messages: Any, prompt: str) -> None:
    assert kept("chat", messages=messages).system_prompt == prompt


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(SAME)), st.data())
def test_whatever_a_body_holds_is_kept_or_refused(format: str, data: st.DataObject) -> None:
    names = [*SAME[format], *OTHERS[format], "messages", "input", "x"]
    body = data.draw(st.dictionaries(st.sampled_from(names), _JSON, max_size=4))

    try:
        content = content_of(format, body, models_max=3)
    except ChatInvalid:
        return
    assert set(content.config) <= {name for each in SAME.values() for name in each}
    if format == "chat":
        assert content_of(format, content.config, models_max=3).config == content.config
