"""A preset under a request, in each of the three formats."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import ChatRequest, parse_chat
from routing.formats.messages.read import parse_messages
from routing.formats.responses.read import parse_responses
from routing.presets.merge import MergedBody, chat_defaults, merge_preset
from routing.presets.schema import build_content
from tests.routing.presets.test_schema import BOTH, CHAT, COMMON, FUNCTION, SCHEMA

HELLO = [{"role": "user", "content": "Hi"}]
ASKED: dict[str, dict[str, Any]] = {
    "chat": {"model": "a/b", "messages": HELLO},
    "responses": {"model": "a/b", "input": "Hi"},
    "messages": {"model": "a/b", "messages": HELLO},
}
PARSE: dict[str, Any] = {
    "chat": lambda body, beside: parse_chat(body, session_header=None),
    "responses": lambda body, beside: parse_responses(body, session_header=None, beside=beside),
    "messages": lambda body, beside: parse_messages(body, session_header=None, beside=beside),
}
CAP = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}


def merge_under(format: str, config: dict[str, Any], prompt: str = "", **body: Any) -> MergedBody:
    return merge_preset(format, ASKED[format] | body, config, prompt)


def read(format: str, config: dict[str, Any], prompt: str = "", **body: Any) -> ChatRequest:
    got = merge_under(format, config, prompt, **body)
    request: ChatRequest = PARSE[format](got.body, got.beside)
    return request


# The others are told apart below.
SENT_ON = (
    *("temperature", "top_p", "top_k", "min_p", "top_a", "repetition_penalty", "seed"),
    *("frequency_penalty", "presence_penalty", "logit_bias", "top_logprobs", "logprobs"),
    *("verbosity", "response_format", "service_tier", "plugins", "max_tool_calls"),
    *("image_config", "prompt_cache_options", "provider"),
)


@pytest.mark.parametrize("format", ASKED)
def test_every_setting_of_chat_applies_in_every_format(format: str) -> None:
    config = {name: value for name, value in CHAT.items() if name not in ("tool_choice", "tools")}

    request = read(format, config)

    assert {name: request.body[name] for name in SENT_ON} == {name: CHAT[name] for name in SENT_ON}
    assert request.body["stop"] in ("x", ["x"])
    assert request.reasoning is not None
    assert (request.max_output_tokens, request.reasoning.effort) == (90, "high")
    assert (request.model, request.models) == ("a/b", ["acme/small"])


@pytest.mark.parametrize("format", ASKED)
def test_a_format_s_own_preset_is_the_same_as_saying_it(format: str) -> None:
    said: dict[str, Any] = {**COMMON, CAP[format]: 2000}
    if format != "messages":
        said |= BOTH
    content = build_content(format, said, models_max=3)
    said = {name: value for name, value in said.items() if not name.startswith("cache_")}
    by_hand = ASKED[format] | said | {"model": "a/b", "cache_control": {"type": "ephemeral"}}

    got = merge_under(format, content.config)

    assert got == MergedBody(by_hand, {})
    assert PARSE[format](got.body, got.beside) == PARSE[format](by_hand, {})


@pytest.mark.parametrize("format", ASKED)
def test_the_request_has_the_last_word(format: str) -> None:
    config = {"temperature": 0.5, "max_tokens": 10, "max_completion_tokens": 20, "provider": {}}

    request = read(format, config, "", temperature=1, **{CAP[format]: 30})

    assert request.body["temperature"] == 1
    assert request.max_output_tokens == 30
    assert "max_completion_tokens" not in merge_under("chat", config, max_tokens=5).body
    assert "max_tokens" not in merge_under("chat", config, max_completion_tokens=5).body


@pytest.mark.parametrize("format", ["chat", "responses", "messages"])
def test_null_takes_a_setting_away(format: str) -> None:
    config = {"temperature": 0.5, "max_tokens": 10, "top_p": 0.5}
    got = merge_under(format, config, "", temperature=None, **{CAP[format]: None})

    assert got.body["temperature"] is None
    assert got.body["top_p"] == 0.5
    request = PARSE[format](got.body, got.beside)
    assert request.max_output_tokens is None
    assert "temperature" not in request.supplied_parameters


@pytest.mark.parametrize(
    ("format", "said", "gone"),
    [
        ("chat", {"reasoning_effort": "low"}, "reasoning"),
        ("chat", {"reasoning": {}}, "reasoning"),
        ("chat", {"stop": None}, "stop"),
        ("responses", {"text": {"format": {"type": "text"}}}, "response_format"),
        ("responses", {"text": {"verbosity": None}}, "verbosity"),
        ("responses", {"text": None}, "verbosity"),
        ("responses", {"reasoning": None}, "reasoning"),
        ("messages", {"thinking": {"type": "disabled"}}, "reasoning"),
        ("messages", {"output_config": {"effort": None}}, "reasoning"),
        ("messages", {"output_config": {"format": None}}, "response_format"),
        ("messages", {"output_config": None}, "response_format"),
        ("messages", {"fallbacks": None}, "models"),
        ("messages", {"models": []}, "models"),
        ("messages", {"stop_sequences": []}, "stop"),
    ],
)
def test_names_of_a_format_count_as_the_config_s(
    format: str, said: dict[str, Any], gone: str
) -> None:
    config = {"stop": ["x"], "verbosity": "low", "models": ["x/y"], "reasoning": {"effort": "high"}}
    config["response_format"] = {"type": "json_object"}
    without = {name: value for name, value in config.items() if name != gone}

    assert merge_under(format, config, **said) == merge_under(format, without, **said)
    assert merge_under(format, config) != merge_under(format, without)


def test_functions_stand_beside_the_config_s_tools() -> None:
    config = {"tools": [{"type": "function", "function": {"name": "g"}}], "tool_choice": "required"}

    body = read("chat", config, functions=[{"name": "f"}], function_call="auto").body

    assert [tool["function"]["name"] for tool in body["tools"]] == ["g", "f"]
    assert body["tool_choice"] == "auto"


def test_a_system_prompt_stands_where_the_format_has_it() -> None:
    for format in ("chat", "messages"):
        told = [{"role": "system", "content": "S"}, *HELLO]
        assert read(format, {}, "S").body["messages"] == told
    assert merge_under("chat", {}, "S").before == 1
    assert merge_under("messages", {}, "S").body["system"] == "S"
    for asked in ("Hi", HELLO):
        assert merge_under("responses", {}, "S", input=asked).body["instructions"] == "S"


@pytest.mark.parametrize(
    ("format", "said"),
    [
        ("chat", {"messages": [*HELLO, {"role": "developer", "content": "D"}]}),
        ("chat", {"messages": [{"role": "system", "content": "D"}, *HELLO]}),
        ("responses", {"instructions": "D"}),
        ("responses", {"instructions": None}),
        ("responses", {"input": [{"role": "developer", "content": "D"}]}),
        ("messages", {"system": "D"}),
        ("messages", {"system": []}),
        ("messages", {"messages": [{"role": "system", "content": "D"}, *HELLO]}),
    ],
)
def test_a_request_s_own_instructions_win(format: str, said: dict[str, Any]) -> None:
    assert merge_under(format, {}, "S", **said).body == ASKED[format] | said


def test_output_formats_in_each_format_s_words() -> None:
    flat = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": None}
    inner = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    unnamed = {"type": "json_schema", "schema": SCHEMA}

    assert merge_under("chat", {"response_format": flat}).body["response_format"] == inner
    named = {"name": "response", "strict": True, "schema": SCHEMA}
    chat = {"type": "json_schema", "json_schema": named}
    assert merge_under("chat", {"response_format": unnamed}).body["response_format"] == chat
    text = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}, "verbosity": "low"}
    got = merge_under("responses", {"response_format": inner}, text={"verbosity": "low"})
    assert got.body["text"] == text
    assert read("messages", {"response_format": inner}).body["response_format"] == inner
    grammar = {"type": "grammar", "grammar": "g"}
    assert (
        merge_under("responses", {"response_format": grammar}).beside["response_format"] == grammar
    )
    for kept in (flat, inner, unnamed, grammar):
        for format in ASKED:
            assert read(format, {"response_format": kept}).response_format_type == kept["type"]


def test_tiers_and_speeds() -> None:
    for format in ("chat", "responses"):
        assert read(format, {"speed": "fast"}).service_tier == "priority"
        assert read(format, {"speed": "fast", "service_tier": "flex"}).service_tier == "flex"
        assert read(format, {"service_tier": "standard_only"}).service_tier == "default"
        assert read(format, {"speed": "fast"}, service_tier="flex").service_tier == "flex"
        assert read(format, {"speed": "standard"}).service_tier is None
    assert merge_under("messages", {"speed": "fast"}).body["speed"] == "fast"
    assert read("messages", {"speed": "fast"}).service_tier == "priority"


def test_truncation_is_compression_elsewhere() -> None:
    on = [{"id": "context-compression", "enabled": True}]
    for format in ASKED:
        assert read(format, {"truncation": "auto"}).plugins == on
        assert not read(format, {"truncation": "disabled"}).plugins[0]["enabled"]
    own = merge_under("chat", {"truncation": "auto"}, transforms=[])
    assert own.body["transforms"] == []


def test_reasoning_is_whole_in_every_format() -> None:
    kept = {"effort": "high", "exclude": True, "summary": "auto"}
    for format in ASKED:
        reasoning = read(format, {"reasoning": kept}).reasoning
        assert reasoning is not None
        assert (reasoning.effort, reasoning.exclude, reasoning.summary) == ("high", True, "auto")
    assert "exclude" not in merge_under("responses", {"reasoning": kept}).body["reasoning"]


def test_a_top_k_that_messages_have_no_word_for_stands_beside() -> None:
    assert merge_under("messages", {"top_k": -1}) == MergedBody(ASKED["messages"], {"top_k": -1})
    for format, top_k in [("messages", 0), ("messages", 1), ("chat", -1), ("responses", -1)]:
        assert merge_under(format, {"top_k": top_k}) == MergedBody(
            ASKED[format] | {"top_k": top_k}, {}
        )


def test_messages_stop_at_a_list() -> None:
    for stop in ("END", ["END"]):
        assert merge_under("messages", {"stop": stop}).body["stop_sequences"] == ["END"]


DECIDED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = [
    # The preset, the request, who is asked, and which models after it.
    ({"model": "a/b"}, {}, {"model": "a/b"}, []),
    ({"models": ["c/d", "e/f"]}, {}, {"model": "c/d"}, ["c/d", "e/f"]),
    ({"model": "a/b", "models": ["c/d"]}, {}, {"model": "a/b"}, ["c/d"]),
    ({"model": "a/b", "models": ["c/d"]}, {"model": "x/y"}, {"model": "x/y"}, []),
    ({"provider": {"order": ["acme"]}}, {}, {"provider": {"order": ["acme"]}}, []),
    ({"provider": {"order": ["acme"]}}, {"provider": {}}, {"provider": {}}, []),
    ({"temperature": 0.5, "tools": [FUNCTION]}, {}, {}, []),
]


@pytest.mark.parametrize(("config", "asked", "who", "models"), DECIDED)
def test_decisions_take_of_a_preset_who_is_asked_only(
    config: dict[str, Any], asked: dict[str, Any], who: dict[str, Any], models: list[str]
) -> None:
    got = merge_preset("decisions", {"state": "s", **asked}, config, "S")

    assert got == MergedBody({"state": "s", **who}, {"models": models} if models else {})


def test_how_answers_are_cached_is_not_sent_on() -> None:
    for format in ASKED:
        got = merge_under(format, {"cache_enabled": True, "cache_ttl_seconds": 5})
        assert got == MergedBody(ASKED[format], {})


def test_nothing_is_changed_in_place() -> None:
    config, text = {**CHAT, "parallel_tool_calls": False}, repr(CHAT)
    for format, asked in ASKED.items():
        before = repr(asked)
        merge_under(format, config, "S", tools=[])
        assert repr(asked) == before
    assert repr({**config, "parallel_tool_calls": CHAT["parallel_tool_calls"]}) == text


_JSON = st.none() | st.integers() | st.text() | st.lists(st.none() | st.text(), max_size=2)
_NAMES = [
    *("model", "messages", "input", "system", "instructions", "tools", "tool_choice"),
    *("text", "output_config", "thinking", "reasoning", "max_tokens", "stop", "models"),
    *("service_tier", "fallbacks", "temperature", "parallel_tool_calls"),
]
_VALUE = _JSON | st.dictionaries(st.text(max_size=3), _JSON, max_size=2)
_BODY = st.dictionaries(st.sampled_from(_NAMES), _VALUE, max_size=5)


@given(st.sampled_from(sorted(ASKED)), _BODY)
def test_a_wrong_request_stays_wrong_and_breaks_nothing(format: str, body: dict[str, Any]) -> None:
    got = merge_preset(format, body, CHAT, "S")

    for name, value in body.items():
        if name in ("tools", "messages", "text", "tool_choice"):
            continue
        assert got.body[name] == value


@pytest.mark.parametrize("tool", ["mcp", "file_search", "web_search_20250305"])
def test_tools_that_nothing_can_run_for_this_caller(tool: str) -> None:
    config = {"tools": [{"type": tool, "name": "web_search", "server_label": "s"}]}
    own = "messages" if tool.startswith("web") else "responses"

    for format in ASKED:
        got = merge_under(format, config)
        assert got.body["tools"] == (config["tools"] if format == own else [])
        assert got.missing == (() if format == own else (tool,))


NAMES = sorted({*CHAT, "cache_enabled", "model", "models"})


@given(st.sets(st.sampled_from(NAMES), max_size=4), st.sets(st.sampled_from(NAMES), max_size=4))
def test_what_is_laid_is_what_would_be_merged(kept: set[str], said: set[str]) -> None:
    config = {name: CHAT.get(name, "x/y") for name in kept}
    body = ASKED["chat"] | dict.fromkeys(said)
    laid = chat_defaults(config, "")
    if laid is not None:
        assert MergedBody({**laid, **body}, {}) == merge_preset("chat", body, config, "")


def test_most_presets_are_laid() -> None:
    assert chat_defaults({"temperature": 0.5, "stop": "x", "provider": {}}, "") is not None
    assert chat_defaults({"temperature": 0.5}, "Be kind.") is None
    for name in ("reasoning", "max_tokens", "tools", "service_tier", "truncation", "model"):
        assert chat_defaults({name: CHAT.get(name, "x")}, "") is None
