"""What chat says of a request beside its messages body, at an upstream of messages."""

from typing import Any

import pytest

from tests.routing.upstreams.anthropic.said import EVERYTHING, prompt, sent, terms

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
BUDGETS = EVERYTHING
EFFORTS = EVERYTHING - {"reasoning"} | {"reasoning_effort"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}


def asked(
    supported: frozenset[str] = EVERYTHING,
    *,
    own: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
    **wishes: Any,
) -> dict[str, Any]:
    """What goes upstream of a messages body with its own fields, and of what stands beside it."""
    original = {"model": "acme/m", "max_tokens": 5_000, "messages": HI, **(own or {})}
    told = prompt(beside or {}, original=original, max_output_tokens=5_000, **wishes)
    return sent(told, terms(supported))


def test_where_nothing_is_beside_nothing_is_added() -> None:
    body = asked(own={"output_config": {"effort": "low"}}, effort="low")

    assert body["output_config"] == {"effort": "low"}
    assert "thinking" not in body
    assert "output_config" not in asked()


def test_an_effort_where_efforts_are_taken() -> None:
    body = asked(EFFORTS, own={"temperature": 0.5, "top_p": 0.5, "top_k": 5}, effort="minimal")

    assert body["thinking"]["type"] == "adaptive"
    assert body["output_config"] == {"effort": "low"}
    assert not {"temperature", "top_p", "top_k"} & body.keys()


def test_an_effort_where_budgets_are_taken() -> None:
    body = asked(BUDGETS, own={"top_p": 0.99}, effort="medium")

    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2_500}
    assert body["top_p"] == 0.99
    assert "output_config" not in body


def test_no_reasoning_is_said_as_such() -> None:
    body = asked(own={"temperature": 0.5}, effort="none")

    assert body["thinking"] == {"type": "disabled"}
    assert body["temperature"] == 0.5


@pytest.mark.parametrize(
    "own",
    [
        {
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"},
        },
        {"messages": [*HI, {"role": "assistant", "content": "And so"}]},
    ],
)
def test_where_thinking_is_refused_there_is_none(own: dict[str, Any]) -> None:
    assert "thinking" not in asked(own=own, reasoning_tokens=2_000)


def test_the_caller_s_own_thinking_stands() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1_024}

    assert asked(own={"thinking": thinking}, effort="high")["thinking"] == thinking


def test_verbosity_is_an_effort_where_none_is_named() -> None:
    beside = {"verbosity": "low"}
    supported = EVERYTHING | {"verbosity"}

    assert asked(supported, beside=beside)["output_config"] == {"effort": "low"}
    assert "output_config" not in asked(EVERYTHING - {"verbosity"}, beside=beside)
    named = asked(supported, own={"output_config": {"effort": "high"}}, beside=beside)
    assert named["output_config"] == {"effort": "high"}


def test_a_schema_beside_the_body() -> None:
    closed = {**SCHEMA, "additionalProperties": False}
    form = {"type": "json_schema", "schema": closed}

    assert asked(beside={"response_format": FORMAT})["output_config"]["format"] == form
    own = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
    assert (
        asked(own=own, beside={"response_format": FORMAT})["output_config"] == own["output_config"]
    )
    without = EVERYTHING - {"response_format", "structured_outputs"}
    assert "output_config" not in asked(without, beside={"response_format": FORMAT})
    assert "output_config" not in asked(beside={"response_format": {"type": "json_object"}})


def test_only_marked_blocks_are_cached_where_a_preset_says_so() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    explicit = {"prompt_cache_options": {"mode": "explicit"}}

    assert asked(own=mark)["cache_control"] == mark["cache_control"]
    assert "cache_control" not in asked(own=mark, beside=explicit)
