"""The top level of a messages body (inference 4.1, 4.6; rows 63 and 64)."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.http.jsonio import dumps
from routing.formats.fields import RequestJsonSchema
from routing.formats.messages.request import parse_messages
from routing.formats.messages.schema import MessagesBody
from tests.routing.formats.messages.bodies import USER, accepted, body_of, paths, refused

SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("model", ["a", ""], [None, 5]),
        ("messages", [[USER]], [None, [], "hi", [5]]),
        ("max_tokens", [1, 5.0, 10**9], [0, -1, 5.5, "5", True]),
        ("system", ["", "x", [], [{"type": "text", "text": "x"}]], [5, [{"type": "image"}]]),
        ("models", [[], ["a", "b", "c"]], [["a", "b", "c", "d"], [5], "a"]),
        ("fallbacks", [None, [], [{"model": "a"}]], ["a", ["a"], [{}], [{"model": 5}]]),
        ("stream", [True, False], [1, "true"]),
        ("temperature", [0, 2, 1.5], [-0.1, 2.01, "1", True]),
        ("top_p", [0, 1], [-0.1, 1.1]),
        ("top_k", [0, 5.0], [-1, 1.5]),
        ("stop_sequences", [[], list("abcdefgh")], ["a", [5]]),
        ("cache_control", [{"type": "ephemeral"}], [{}, {"type": "x"}]),
        ("context_management", [None, {}, {"edits": []}], [5, {"edits": 5}]),
        ("metadata", [{}, {"user_id": None}, {"user_id": "u", "x": 1}], [{"user_id": 5}]),
        (
            "service_tier",
            ["auto", "default", "fast", "flex", "priority", "scale", "standard_only"],
            ["batch", 5],
        ),
        ("speed", ["fast", "standard", None], ["turbo", 5]),
        ("stop_server_tools_when", [[{"type": "step_count_is", "step_count": 1}]], [[]]),
        ("plugins", [[], [{"id": "moderation"}]], [[{"id": "nope"}]]),
        ("provider", [None, {}, {"sort": "price"}], [5, {"nope": 1}]),
        ("route", [None, "fallback", "sort"], ["x"]),
        ("preset", ["p"], [5]),
        ("session_id", ["", "x" * 256], ["x" * 257]),
        ("user", ["", "é" * 256], ["x" * 257]),
        ("trace", [{}, {"trace_id": "x", "other": 5}], [{"trace_id": 5}]),
        ("output_config", [{}, {"effort": None, "format": None, "task_budget": None}], [5]),
    ],
)
def test_a_parameter_keeps_its_bounds(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        accepted(**{name: value})
    for value in bad:
        assert {path.split(".")[0] for path in paths(**{name: value})} == {name}, value


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"effort": "none"}, "effort"),
        ({"effort": "minimal"}, "effort"),
        ({"format": {"type": "json_object"}}, "format.type"),
        ({"format": {"type": "json_schema"}}, "format.schema"),
        ({"format": {**SCHEMA, "schema": None}}, "format.schema"),
        ({"task_budget": {"type": "tokens"}}, "task_budget.total"),
        ({"task_budget": {"type": "tokens", "total": 19_999}}, "task_budget.total"),
        (
            {"task_budget": {"type": "tokens", "total": 20_000, "remaining": -1}},
            "task_budget.remaining",
        ),
        ({"task_budget": {"type": "words", "total": 20_000}}, "task_budget.type"),
    ],
)
def test_the_output_configuration_is_checked_inside(config: dict[str, Any], path: str) -> None:
    assert paths(output_config=config) == [f"output_config.{path}"]


def test_what_the_output_configuration_takes() -> None:
    for effort in ("low", "medium", "high", "xhigh", "max"):
        accepted(output_config={"effort": effort, "format": SCHEMA})
    accepted(output_config={"task_budget": {"type": "tokens", "total": 20_000, "remaining": 0}})


@pytest.mark.parametrize(
    ("thinking", "path"),
    [
        ({"type": "enabled"}, "budget_tokens"),
        ({"type": "enabled", "budget_tokens": 1023}, "budget_tokens"),
        ({"type": "enabled", "budget_tokens": 2048.5}, "budget_tokens"),
        ({"type": "enabled", "budget_tokens": 4096}, "budget_tokens"),
        ({"type": "enabled", "budget_tokens": 2048, "display": "all"}, "display"),
        ({"type": "sometimes"}, "type"),
        ({}, "type"),
    ],
)
def test_thinking_is_checked_inside(thinking: dict[str, Any], path: str) -> None:
    assert paths(thinking=thinking) == [f"thinking.{path}"]


def test_what_thinking_takes() -> None:
    for display in ("summarized", "omitted", "updates", None):
        accepted(thinking={"type": "enabled", "budget_tokens": 4095, "display": display})
        accepted(thinking={"type": "adaptive", "display": display})
    for kind in ("disabled", "adaptive", "between_tools"):
        accepted(thinking={"type": kind})
    accepted(thinking={"type": "enabled", "budget_tokens": 1024.0})


def test_a_budget_without_a_cap_has_no_upper_bound() -> None:
    body = body_of(thinking={"type": "enabled", "budget_tokens": 10**6})
    del body["max_tokens"]
    request = parse_messages(body, session_header=None)
    assert request.reasoning is not None
    assert request.reasoning.max_tokens == 10**6
    assert request.max_output_tokens is None


@pytest.mark.parametrize(
    "kind", ["clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"]
)
def test_the_known_context_edits_are_taken_with_their_settings(kind: str) -> None:
    accepted(context_management={"edits": [{"type": kind, "trigger": {"type": "x"}}]})
    wrong = {"edits": [{"type": kind}, {"type": kind + "0"}]}
    assert paths(context_management=wrong) == ["context_management.edits.1.type"]


def test_row_63_fallbacks() -> None:
    entry = {"model": "a"}
    assert accepted(fallbacks=[entry, {"model": "b"}, entry]).candidates == ["acme/small", "a", "b"]
    assert paths(fallbacks=[entry] * 4) == ["fallbacks"]
    assert str(refused(fallbacks=[{**entry, "max_tokens": 5}])) == (
        'fallbacks.0: Unrecognized key: "max_tokens"'
    )
    assert paths(fallbacks=[entry], models=["b"]) == ["fallbacks"]
    assert accepted(fallbacks=[], models=["b"]).models == ["b"]
    assert accepted(fallbacks=[entry], models=[]).models == ["a"]


def test_row_64_speed() -> None:
    assert paths(speed="turbo") == ["speed"]
    assert accepted(speed=None).service_tier is None
    assert accepted(speed="fast").service_tier == "priority"
    assert accepted(speed="standard").service_tier is None


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"service_tier": "standard_only"}, "default"),
        ({"service_tier": "standard_only", "speed": "fast"}, "default"),
        ({"service_tier": "auto", "speed": "fast"}, "priority"),
        ({"service_tier": "fast"}, "priority"),
        ({"service_tier": "flex"}, "flex"),
    ],
)
def test_a_named_tier_wins_over_the_speed(fields: dict[str, Any], tier: str) -> None:
    assert accepted(**fields).service_tier == tier


def test_a_body_without_model_or_messages_is_refused() -> None:
    for name in ("model", "messages"):
        body = body_of()
        del body[name]
        with pytest.raises(Exception, match=f"{name}: Invalid input: expected .* undefined"):
            parse_messages(body, session_header=None)


def test_the_session_header_counts_where_the_body_names_none() -> None:
    assert accepted("h").session_id == "h"
    assert accepted("h", session_id="b").session_id == "b"
    assert accepted("h", session_id="").session_id == "h"
    assert paths("x" * 257) == ["x-session-id"]
    assert paths("x" * 257, speed="turbo") == ["speed", "x-session-id"]


def test_the_schema_can_be_described() -> None:
    described = TypeAdapter(MessagesBody).json_schema(schema_generator=RequestJsonSchema)
    assert sorted(described["required"]) == ["messages", "model"]
    assert "\\u0000" not in dumps(described).decode()


def test_unknown_fields_are_kept_for_endpoints_that_list_them() -> None:
    request = accepted(zz={"a": 1}, min_p=0.1, seed=7, modalities=["x"], debug=5, n="2")
    assert request.body["zz"] == {"a": 1}
    assert (request.body["min_p"], request.body["seed"]) == (0.1, 7)
    # What chat checks and the gateway reads is not taken unchecked.
    assert not {"modalities", "debug", "n"} & set(request.body)
    assert "seed" not in accepted(seed="x").body
