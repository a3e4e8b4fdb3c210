"""Random chat conversations reach an upstream of another format whole and by its rules.

Some things need not arrive, because there is no place for them or they are refused. They are white
space that stands alone, reasoning that is unsealed or of another kind of model, and ids the format
does not take.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.formats.chat.request import parse_chat
from routing.simulator.encoding import seal, unseal
from routing.simulator.formats.messages.request_rules import find_complaint as messages_complaint
from routing.simulator.formats.responses.request_rules import find_complaint as responses_complaint
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.responses.wire import RESPONSES
from tests.gateway.outbound import asking
from tests.routing.upstreams.anthropic.said import EVERYTHING, TOOL
from tests.routing.upstreams.responses.prompts import USUAL

Word = Callable[[], str]
Thoughts = Callable[[st.DrawFn, Word], list[dict[str, Any]]]
WORD = re.compile(r"w\d\dw")

EPHEMERAL = {"type": "ephemeral"}
marks = st.fixed_dictionaries(
    {},
    optional={
        "cache_control": st.sampled_from([EPHEMERAL, {**EPHEMERAL, "ttl": "1h"}]),
        "prompt_cache_breakpoint": st.sampled_from([None, {"mode": "explicit"}]),
    },
)
# Each {} is a word of its own.
spoken = st.sampled_from(["", " ", "\n", "{}", "so {}: ", "é\u2028{}{}", "{} \n"])
texts = spoken | st.text(max_size=8)
text_parts = st.tuples(st.just("text"), texts)
media = st.sampled_from(
    [
        ("image_url", {"url": "https://x/{}.png", "detail": "low"}),
        ("image_url", {"url": "data:image/png;base64,{}"}),
        ("file", {"file_data": "data:application/pdf;base64,{}", "filename": "{}.pdf"}),
        ("file", {"file_data": "https://x/{}.pdf"}),
        ("file", {"file_data": "data:text/plain,{}"}),
        ("file", {"file_id": "file_{}", "filename": "{}.txt"}),
    ]
)


@st.composite
def contents(draw: st.DrawFn, word: Word, *, text_only: bool = False) -> Any:
    """A text or parts, every word of which occurs once in the conversation."""
    if draw(st.booleans()):
        return _fill_words(draw(texts), word)
    parts: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        kind, value = draw(text_parts if text_only else media | text_parts)
        parts.append({"type": kind, kind: _fill_words(value, word), **draw(marks)})
    return parts


def _fill_words(value: Any, word: Word) -> Any:
    if isinstance(value, dict):
        return {name: _fill_words(text, word) for name, text in value.items()}
    return re.sub(r"\{\}", lambda _: word(), value)


@st.composite
def conversations(draw: st.DrawFn, thoughts: Thoughts) -> list[dict[str, Any]]:
    """A conversation as the chat format allows it, every call answered."""
    numbers = itertools.count()
    said: list[dict[str, Any]] = []

    def word() -> str:
        return f"w{next(numbers) % 100:02}w"

    for turn in range(draw(st.integers(1, 5))):
        role = draw(st.sampled_from(["system", "developer", "user", "assistant", "calls"]))
        named = {"name": word()} if draw(st.booleans()) else {}
        if role in ("assistant", "calls"):
            content = draw(st.none() | contents(word, text_only=True))
            # Reasoning that led to nothing may stay here.
            led_on = role == "calls" or WORD.search(repr(content))
            details = thoughts(draw, word if led_on else lambda: "idle")
            message = {"role": "assistant", "reasoning_details": details, **named}
        else:
            content = draw(contents(word, text_only=role != "user"))
            message = {"role": role, **named}
        said.append(message | {"content": content})
        if role == "calls":
            ids = [f"{draw(st.sampled_from(['call_', 'f.f:']))}{turn % 2}_{n}" for n in range(2)]
            said[-1]["tool_calls"] = [asking.call(id, json.dumps({"a": word()})) for id in ids]
            said += [asking.result(id, draw(contents(word))) for id in ids]
    return said


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield unseal(value) or value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def words(role: str, value: Any) -> list[tuple[str, str]]:
    return [(role, word) for text in strings(value) for word in WORD.findall(text)]


def list_words(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Every word with who says it; system and developer are not told apart."""
    return [
        pair
        for each in messages
        for pair in words(each["role"].replace("developer", "system"), each)
    ]


def sealed_for_messages(draw: st.DrawFn, word: Word) -> list[dict[str, Any]]:
    """Reasoning of one answer, each block in one piece or as it was streamed."""
    items: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 2))):
        common = {"index": index, "format": draw(st.sampled_from([None, "anthropic-claude-v1"]))}
        text = {"type": "reasoning.text", **common}
        shape = draw(st.sampled_from(["whole", "pieces", "encrypted", "unsigned", "foreign"]))
        if shape == "whole":
            thought = word()
            items.append({**text, "text": thought, "signature": seal(thought)})
        elif shape == "pieces":
            pieces = [word(), word()]
            items += [{**text, "text": piece} for piece in pieces]
            items.append({**text, "signature": seal("".join(pieces))})
        elif shape == "encrypted":
            items.append({"type": "reasoning.encrypted", "data": seal(word()), **common})
        elif shape == "unsigned":
            items.append({**text, "text": "unsigned"})
        else:
            foreign = {"text": "no", "signature": seal("no"), "format": "openai-responses-v1"}
            items.append({**text, **foreign})
    return items


def sealed_for_responses(draw: st.DrawFn, word: Word) -> list[dict[str, Any]]:
    """Details of some reasoning items, in fragments, with those of other upstreams between them."""
    items: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 2))):
        format = draw(st.sampled_from(["openai-responses-v1", "azure-openai-responses-v1"]))
        common = {"id": f"rs_{index}", "index": index, "format": format}
        for kind in ("summary", "text"):
            for number in range(draw(st.integers(0, 2))):
                fragment = {"continues": True} if number and draw(st.booleans()) else {}
                items.append({"type": f"reasoning.{kind}", kind: word(), **common, **fragment})
        items.append({"type": "reasoning.encrypted", "data": seal(word()), **common})
        foreign = {
            "type": "reasoning.text",
            "text": "t",
            "format": draw(st.sampled_from([None, "x"])),
        }
        items += [foreign] if draw(st.booleans()) else []
    return items


def of_messages(body: dict[str, Any]) -> list[tuple[str, str]]:
    found = words("system", body.get("system"))
    for turn in body["messages"]:
        for block in turn["content"]:
            role = "tool" if block["type"] == "tool_result" else turn["role"]
            found += words(role, block)
    return found


def of_responses(body: dict[str, Any]) -> list[tuple[str, str]]:
    found = words("system", body.get("instructions"))
    for item in body["input"]:
        role = "tool" if item["type"] == "function_call_output" else item.get("role", "assistant")
        found += words(role.replace("developer", "system"), item)
    return found


SHAPE = {"name": "n", "schema": {}}
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
        "cache_control": st.just(EPHEMERAL),
        "response_format": st.sampled_from(
            [{"type": "json_object"}, {"type": "json_schema", "json_schema": SHAPE}]
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
ALL_LISTED = EVERYTHING | {"reasoning_effort", "verbosity"}
# Nearly all, as endpoints do, or any.
some = st.sets(st.sampled_from(sorted(ALL_LISTED)))
listed = some | some.filter(lambda left: len(left) < 4).map(ALL_LISTED.difference)


@given(
    conversations(sealed_for_messages),
    settings_given,
    wishes,
    listed,
    st.none() | st.integers(1, 9000),
)
def test_a_strict_upstream_of_messages_takes_every_request(
    said: list[dict[str, Any]],
    fields: dict[str, Any],
    wanted: dict[str, Any],
    supported: frozenset[str] | set[str],
    cap: int | None,
) -> None:
    chat = {"model": "acme/m", "messages": said, **fields}
    parse_chat(chat, session_header=None)
    before = repr(chat)
    at = asking.terms(supported, output_cap=cap, user_hash="ab")
    made = ANTHROPIC.request(asking.prompt(chat, **wanted), at)
    body = json.loads(made.body)
    assert messages_complaint(dict(made.headers), body) is None
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))]
    # Results of calls stand before what else a turn says.
    assert sorted(of_messages(body)) == sorted(list_words(said))
    assert repr(chat) == before


@given(conversations(sealed_for_responses))
def test_a_strict_upstream_of_responses_takes_every_conversation(
    said: list[dict[str, Any]],
) -> None:
    chat = {"model": "acme/m", "messages": said}
    parse_chat(chat, session_header=None)
    before = repr(chat)
    made = RESPONSES.request(asking.prompt(chat), asking.terms(USUAL))
    body = json.loads(made.body)
    headers = {name.lower(): value for name, value in made.headers}
    assert responses_complaint(headers, body) is None
    assert of_responses(body) == list_words(said)
    assert repr(chat) == before
