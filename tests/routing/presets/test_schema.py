"""What presets keep of a body, format by format."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import ChatInvalid
from routing.presets.schema import OTHER_NAMES, SAME_NAME, PresetContent, build_content

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FLAT_FUNCTION = {"type": "function", "name": "f", "parameters": SCHEMA}
MESSAGES_TOOL = {"name": "f", "input_schema": SCHEMA, "description": "Does f"}
SEARCH = {"type": "router:web_search", "parameters": {"max_results": 3}}
STOPS = [{"type": "step_count_is", "step_count": 3}]
COMMON: dict[str, Any] = (
    {"model": "acme/solo", "models": ["acme/small"], "provider": {"order": ["acme"]}}
    | {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "service_tier": "flex"}
    | {"stop_server_tools_when": STOPS, "plugins": [{"id": "web", "max_results": 2}]}
    | {"cache_control": {"type": "ephemeral"}, "cache_enabled": True, "cache_ttl_seconds": 60}
)
BOTH: dict[str, Any] = (
    {"frequency_penalty": 0.1, "presence_penalty": 0.2, "top_logprobs": 3, "max_tool_calls": 5}
    | {"parallel_tool_calls": False, "modalities": ["text"], "image_config": {"size": "small"}}
    | {"prompt_cache_options": {"mode": "explicit"}}
)
CHAT: dict[str, Any] = (
    COMMON
    | BOTH
    | {"min_p": 0.1, "top_a": 0.2, "repetition_penalty": 1.1, "seed": 7, "logit_bias": {"5": 1}}
    | {"logprobs": True, "max_tokens": 100, "max_completion_tokens": 90, "stop": ["x"]}
    | {"response_format": {"type": "json_object"}, "verbosity": "low"}
    | {"reasoning": {"effort": "high"}, "tools": [FUNCTION, SEARCH], "tool_choice": "auto"}
)
DROPPED: dict[str, Any] = {
    **dict.fromkeys(("messages", "input", "stream", "stream_options", "session_id"), 5),
    **{name: [5] for name in ("user", "trace", "metadata", "debug", "prediction", "route")},
    **{name: {"a": 5} for name in ("prompt_cache_key", "safety_identifier", "store", "n")},
    **dict.fromkeys(("background", "include", "context_management", "prompt", "preset"), 5),
    **dict.fromkeys(("include_reasoning", "structured_outputs", "transforms", "audio"), 5),
}


def build_stored(format: str, **body: Any) -> PresetContent:
    return build_content(format, body, models_max=3)


def paths(format: str, **body: Any) -> list[str]:
    with pytest.raises(ChatInvalid) as refused:
        build_stored(format, **body)
    return [issue.path for issue in refused.value.issues]


def test_chat_keeps_its_fields_by_name() -> None:
    assert build_stored("chat", **CHAT, **DROPPED) == PresetContent(CHAT, "")


def test_responses_keep_theirs_under_the_common_names() -> None:
    same = {**COMMON, **BOTH, "tools": [FLAT_FUNCTION, SEARCH], "truncation": "auto"}
    same |= {"tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low"}}
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA}
    body = same | {"max_output_tokens": 100, "text": {"format": form, "verbosity": "low"}}
    body |= {"instructions": "I", "min_p": "nothing it keeps", "stop": 5}

    content = build_stored("responses", **body, **DROPPED)

    renamed = {"max_tokens": 100, "response_format": form, "verbosity": "low"}
    assert content == PresetContent(same | renamed, "I")


def test_messages_keep_theirs_under_the_common_names() -> None:
    same = {**COMMON, "max_tokens": 4096, "tools": [MESSAGES_TOOL], "speed": "fast"}
    same |= {"tool_choice": {"type": "tool", "name": "f"}}
    form = {"type": "json_schema", "schema": SCHEMA}
    body = same | {"thinking": {"type": "enabled", "budget_tokens": 2048.0}}
    body |= {"output_config": {"effort": "high", "format": form}, "stop_sequences": ["x"]}
    body |= {"system": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]}
    body |= {"frequency_penalty": "nothing it keeps", "verbosity": 5}

    content = build_stored("messages", **body, **DROPPED)

    renamed = {"stop": ["x"], "response_format": form}
    renamed["reasoning"] = {"effort": "high", "max_tokens": 2048}
    assert content == PresetContent(same | renamed, "One\n\nTwo")
    assert type(content.config["reasoning"]["max_tokens"]) is int


def test_thinking_is_kept_as_reasoning() -> None:
    off, low = {"thinking": {"type": "disabled"}}, {"output_config": {"effort": "low"}}
    for body, reasoning in [
        (off, {"enabled": False}),
        ({"thinking": {"type": "adaptive"}}, {"enabled": True}),
        (low, {"effort": "low"}),
        (off | low, {"effort": "low", "enabled": False}),
    ]:
        assert build_stored("messages", **body).config == {"reasoning": reasoning}


def test_fallbacks_are_models() -> None:
    fallbacks = [{"model": "a/b"}, {"model": "c/d"}]

    assert build_stored("messages", fallbacks=fallbacks).config == {"models": ["a/b", "c/d"]}
    assert build_stored("messages", fallbacks=None, models=[]).config == {}
    assert paths("messages", fallbacks=fallbacks, models=["a/b"]) == ["fallbacks"]


def test_functions_are_kept_as_tools() -> None:
    function, tool = {"name": "f"}, {"type": "function", "function": {"name": "g"}}
    said = build_stored("chat", tools=[tool], functions=[function], function_call=function).config

    chosen = {"type": "function", "function": function}
    tools = {"tools": [tool, chosen], "tool_choice": chosen}
    assert said == {**tools, "parallel_tool_calls": False}


def test_whole_numbers_are_kept_whole() -> None:
    config = build_stored("chat", seed=5.0, max_tokens=7.0, temperature=1).config

    assert config == {"seed": 5, "max_tokens": 7, "temperature": 1}
    assert type(config["seed"]) is type(config["max_tokens"]) is int


def test_what_is_kept_is_checked_as_at_inference() -> None:
    def check_refusal(format: str, path: str, **body: Any) -> None:
        assert paths(format, **body)[0].startswith(path), body

    for name, value in [
        *[("temperature", 3), ("temperature", "1"), ("top_logprobs", 21), ("max_tool_calls", 31)],
        *[("models", ["a", "b", "c", "d"]), ("provider", {"options": {}}), ("tools", {})],
        *[("tool_choice", "required"), ("cache_enabled", 1), ("cache_ttl_seconds", 0)],
        *[("model", "@preset/other"), ("model", "a/b@Preset/other")],
    ]:
        check_refusal("chat", name, **{name: value})
    check_refusal("chat", "tools.0.type", tools=[{"type": "nope"}])
    check_refusal("responses", "models.1", models=["a/b", "@preset/other"])
    check_refusal("responses", "previous_response_id", previous_response_id="resp_1")
    check_refusal("responses", "max_output_tokens", max_output_tokens=0)
    check_refusal("responses", "text.verbosity", text={"verbosity": "loud"})
    check_refusal("responses", "instructions", instructions=5)
    for name, wrong in {"system": 5, "temperature": "1", "top_k": -1}.items():
        check_refusal("messages", name, **{name: wrong})
    check_refusal("messages", "cache_ttl_seconds", cache_ttl_seconds=86401)
    check_refusal("messages", "fallbacks.0.model", fallbacks=[{"model": "@preset/other"}])
    few, many = ({"type": "enabled", "budget_tokens": tokens} for tokens in (5, 2000))
    check_refusal("messages", "thinking.budget_tokens", thinking=few)
    check_refusal("messages", "thinking.budget_tokens", thinking=many, max_tokens=2000)


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
    assert build_stored("chat", messages=messages).system_prompt == prompt


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(SAME_NAME)), st.data())
def test_whatever_a_body_holds_is_kept_or_refused(format: str, data: st.DataObject) -> None:
    names = [*SAME_NAME[format], *OTHER_NAMES[format], "messages", "input", "x"]
    body = data.draw(st.dictionaries(st.sampled_from(names), _JSON, max_size=4))

    try:
        content = build_content(format, body, models_max=3)
    except ChatInvalid:
        return
    assert set(content.config) <= {name for each in SAME_NAME.values() for name in each}
    if format == "chat":
        assert build_content(format, content.config, models_max=3).config == content.config


def test_an_effort_alone_is_reasoning() -> None:
    assert build_stored("chat", reasoning_effort="low").config == {"reasoning": {"effort": "low"}}
    both = build_stored(
        "chat", reasoning_effort="low", reasoning={"effort": "low", "exclude": True}
    )
    assert both.config == {"reasoning": {"effort": "low", "exclude": True}}
    assert paths("chat", reasoning_effort="low", reasoning={"effort": "high"}) == [
        "reasoning_effort"
    ]
