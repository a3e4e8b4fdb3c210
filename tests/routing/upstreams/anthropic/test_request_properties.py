"""What holds for every chat conversation that is sent to an upstream of the messages API."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import parse_chat
from routing.simulator.formats.messages.request_rules import complaint
from tests.routing.upstreams.anthropic.conversations import (
    Fact,
    facts_of,
    facts_sent,
    marks,
    messages,
)
from tests.routing.upstreams.anthropic.said import EVERYTHING, TOOL, prompt, request, sent, terms

settings_given = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "top_k": st.integers(0, 100),
        "stop": st.text(max_size=3) | st.lists(st.text(max_size=3), max_size=4),
        "tools": st.lists(marks.map(lambda mark: {**TOOL, **mark}), max_size=1),
        "tool_choice": st.sampled_from(["none", "auto"]),
        "parallel_tool_calls": st.booleans(),
        "service_tier": st.sampled_from(["auto", "default", "flex", "priority"]),
        "verbosity": st.sampled_from(["low", "max"]),
        "cache_control": st.just({"type": "ephemeral"}),
        "response_format": st.sampled_from(
            [
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
            ]
        ),
    },
)
wishes = st.fixed_dictionaries(
    {},
    optional={
        "max_output_tokens": st.integers(1, 200_000),
        "effort": st.sampled_from(["max", "high", "low", "minimal", "none"]),
        "reasoning_tokens": st.integers(0, 200_000),
        "exclude_reasoning": st.booleans(),
        "stream": st.booleans(),
    },
)
listed = st.sets(st.sampled_from(sorted(EVERYTHING | {"reasoning_effort", "verbosity"})))


@given(messages(), settings_given, wishes, listed, st.none() | st.integers(1, 9000))
def test_a_strict_upstream_takes_every_request(
    said: list[dict[str, Any]],
    fields: dict[str, Any],
    wanted: dict[str, Any],
    supported: set[str],
    cap: int | None,
) -> None:
    chat = {"model": "acme/m", "messages": said, **fields}
    parse_chat(chat, session_header=None)
    before = repr(chat)
    told = terms(frozenset(supported), output_cap=cap, user_hash="ab")
    made = request(prompt(chat, **wanted), told)
    body = sent(prompt(chat, **wanted), told)
    assert complaint(dict(made.headers), body) is None
    assert repr(chat) == before


def _without_the_filler(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact != ("text", ".")]


@given(messages())
def test_nothing_that_the_model_could_read_is_lost(said: list[dict[str, Any]]) -> None:
    body = sent(prompt({"messages": said}), terms())
    assert _without_the_filler(facts_sent(body)) == _without_the_filler(facts_of(said))


@given(messages())
def test_turns_alternate(said: list[dict[str, Any]]) -> None:
    roles = [turn["role"] for turn in sent(prompt({"messages": said}), terms())["messages"]]
    assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))]
