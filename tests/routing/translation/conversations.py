"""Random conversations that every format has a place for, and what they say.

What the formats cannot hold is on the page of translations and not drawn here. It is white space
alone, names, instructions in mid-conversation, arguments that are no object, `detail`, sound and
video.
"""

import json
from typing import Any

from hypothesis import strategies as st

from routing.simulator.encoding import seal

Fact = tuple[Any, ...]
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQK"

words = st.text(max_size=12).map(lambda text: f"<{text}>")
objects = st.dictionaries(
    st.text(max_size=4), st.integers(-9, 9) | st.text(max_size=4) | st.none(), max_size=3
)
names = st.sampled_from(["weather", "find_it", "a-b"])
texts = words.map(lambda text: {"type": "text", "text": text})
images = st.sampled_from([PNG, "https://example.com/a.png"]).map(
    lambda url: {"type": "image_url", "image_url": {"url": url}}
)
files = st.sampled_from(
    [
        {"file_data": PDF, "filename": "a.pdf"},
        {"file_data": "https://example.com/b.pdf"},
        {"file_id": "file_1"},
    ]
).map(lambda file: {"type": "file", "file": file})
contents = words | st.lists(texts | images | files, min_size=1, max_size=3)


def _claudes(index: int, text: str) -> list[dict[str, Any]]:
    mark = {"format": "anthropic-claude-v1", "index": index, "id": None}
    return [{"type": "reasoning.text", "text": text, "signature": seal(text), **mark}]


def _sealed_details(index: int, text: str) -> list[dict[str, Any]]:
    mark = {"format": "anthropic-claude-v1", "index": index, "id": None}
    return [{"type": "reasoning.encrypted", "data": seal(text), **mark}]


def _responses(index: int, text: str) -> list[dict[str, Any]]:
    mark = {"format": "openai-responses-v1", "index": index, "id": f"rs_{index}"}
    summary = {"type": "reasoning.summary", "summary": text, **mark}
    return [summary, {"type": "reasoning.encrypted", "data": seal(text), **mark}]


# Whose reasoning an upstream of a wire kind reads again.
THOUGHTS: dict[str, list[Any]] = {
    "openai": [_claudes, _sealed_details, _responses],
    "anthropic": [_claudes, _sealed_details],
    "responses": [_responses],
}


@st.composite
def answers(draw: st.DrawFn, kind: str, number: int) -> list[dict[str, Any]]:
    """One answer, and the results of the tools it calls."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(words | st.none())}
    makers = draw(st.lists(st.sampled_from(THOUGHTS[kind]), max_size=2))
    details = [detail for at, make in enumerate(makers) for detail in make(at, draw(words))]
    called = draw(st.lists(st.tuples(names, objects), max_size=2))
    calls = [
        {
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(value)},
        }
        for at, (name, value) in enumerate(called)
    ]
    if calls:
        message["tool_calls"] = calls
    elif message["content"] is None:
        message["content"] = "<>"
    if details:
        message["reasoning_details"] = details
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": draw(contents)} for call in calls
    ]
    return [message, *results]


@st.composite
def conversations(draw: st.DrawFn, kind: str) -> list[dict[str, Any]]:
    """Messages in the chat shape: instructions, then turns that begin and end with a user."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(words)})
    for number in range(draw(st.integers(0, 3))):
        messages.append({"role": "user", "content": draw(contents)})
        messages += draw(answers(kind, number))
    return [*messages, {"role": "user", "content": draw(contents)}]


def facts_of(messages: list[dict[str, Any]]) -> list[Fact]:
    """What is said, in order; one fact for each thing, wherever one message ends."""
    facts: list[Fact] = []
    for message in messages:
        role = message["role"]
        if role == "assistant":
            facts += _answer_facts(message)
        elif role == "tool":
            parts = _parts(message["content"])
            facts += [("result", message["tool_call_id"], *part) for part in parts]
        else:
            role = "system" if role == "developer" else role
            facts += [(role, *part) for part in _parts(message["content"])]
    return facts


def _parts(content: Any) -> list[Fact]:
    if isinstance(content, str):
        return [("text", content)]
    return [_part(part) for part in content]


def _part(part: dict[str, Any]) -> Fact:
    if part["type"] == "text":
        return ("text", part["text"])
    if part["type"] == "image_url":
        return ("image", part["image_url"]["url"])
    file = part["file"]
    return ("file", file.get("file_data"), file.get("file_id"), file.get("filename"))


def _answer_facts(message: dict[str, Any]) -> list[Fact]:
    facts: list[Fact] = [
        (
            detail["type"],
            detail.get("text") or detail.get("summary") or detail.get("data"),
            detail.get("signature"),
            detail.get("id"),
        )
        for detail in message.get("reasoning_details") or []
    ]
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    if content:
        facts.append(("said", content))
    for call in message.get("tool_calls") or []:
        function = call["function"]
        facts.append(("call", call["id"], function["name"], json.loads(function["arguments"])))
    return facts
