"""Random chat conversations, and what they hold that must reach the model.

Not among it, because the messages API has no place for it or refuses it: white space that stands
alone or ends an answer to continue, the order of instructions among the other messages, images'
`detail`, arguments that are no JSON object, reasoning without a seal or sealed by another kind of
model, ids in characters that the API does not take or that are used twice.
"""

import json
from typing import Any

from hypothesis import strategies as st

from routing.simulator.seal import sealed
from tests.routing.upstreams.anthropic.said import PDF_URL, PNG_URL

Fact = tuple[str, ...]

texts = st.one_of(st.sampled_from(["", " ", "\n", "hello", "so: ", "é\u2028"]), st.text(max_size=8))
names = st.none() | st.sampled_from(["bob", "a b"])
EPHEMERAL = {"type": "ephemeral"}
marks = st.fixed_dictionaries(
    {},
    optional={
        "cache_control": st.sampled_from([EPHEMERAL, {**EPHEMERAL, "ttl": "1h"}]),
        "prompt_cache_breakpoint": st.sampled_from([None, {"mode": "explicit"}]),
    },
)
images = st.sampled_from([PNG_URL, "https://x/y.png"]).map(
    lambda url: {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
)
files = st.sampled_from(
    [
        {"file_data": PDF_URL, "filename": "a.pdf"},
        {"file_data": "data:text/plain;base64,aGk="},
        {"file_data": "https://x/a.pdf"},
        {"file_id": "file_1", "filename": "b.txt"},
    ]
).map(lambda file: {"type": "file", "file": file})
text_parts = texts.map(lambda text: {"type": "text", "text": text})


def parts(*kinds: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    marked = st.tuples(st.one_of(*kinds), marks).map(lambda pair: {**pair[0], **pair[1]})
    return st.lists(marked, min_size=1, max_size=3)


objects = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
contents = texts | parts(text_parts, images, files)


@st.composite
def details(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Reasoning of one answer, each block in one piece or as it was streamed."""
    items: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 2))):
        told = {"index": index, "format": draw(st.sampled_from([None, "anthropic-claude-v1"]))}
        thought = draw(st.text(min_size=1, max_size=6))
        text = {"type": "reasoning.text", "text": thought, **told}
        seal = {"signature": sealed(thought)}
        shape = draw(st.sampled_from(["whole", "pieces", "encrypted", "unsigned", "foreign"]))
        if shape == "whole":
            items.append(text | seal)
        elif shape == "pieces":
            pieces = [{**text, "text": thought[:2]}, {**text, "text": thought[2:]}]
            items += [*pieces, {"type": "reasoning.text", **told, **seal}]
        elif shape == "encrypted":
            items.append({"type": "reasoning.encrypted", "data": sealed(thought), **told})
        elif shape == "unsigned":
            items.append(text)
        else:
            items.append({**text, **seal, "format": "openai-responses-v1"})
    return items


@st.composite
def messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A conversation as the chat format allows it, every call answered."""
    said: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(1, 5))):
        role = draw(st.sampled_from(["system", "developer", "user", "assistant", "calls"]))
        message: dict[str, Any] = {"role": role}
        if (name := draw(names)) is not None:
            message["name"] = name
        if role == "user":
            message["content"] = draw(contents)
        elif role in ("system", "developer"):
            message["content"] = draw(texts | parts(text_parts))
        else:
            message |= {"role": "assistant", "content": draw(st.none() | texts)}
            message["reasoning_details"] = draw(details())
        said.append(message)
        if role == "calls":
            said += _called(draw, message, turn)
    return said


def _called(draw: st.DrawFn, message: dict[str, Any], turn: int) -> list[dict[str, Any]]:
    ids = [f"{draw(st.sampled_from(['call_', 'f.f:']))}{turn % 2}_{n}" for n in range(2)]
    message["tool_calls"] = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": "f", "arguments": json.dumps(draw(objects))},
        }
        for call_id in ids
    ]
    return [{"role": "tool", "tool_call_id": call_id, "content": draw(contents)} for call_id in ids]


def facts_of(said: list[dict[str, Any]]) -> list[Fact]:
    """What the conversation holds, in any order."""
    return sorted(fact for message in said for fact in _of_message(message))


def _of_message(message: dict[str, Any]) -> list[Fact]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    facts = [fact for block in blocks for fact in _of_part(block)]
    if name := message.get("name"):
        facts.append(("name", name))
    for item in message.get("reasoning_details", []):
        if item["format"] != "openai-responses-v1":
            sealed_text = item.get("signature") or item.get("data")
            facts += [("sealed", sealed_text)] if sealed_text else []
    for call in message.get("tool_calls", []):
        facts.append(("call", _canonical(json.loads(call["function"]["arguments"]))))
    return facts


def _of_part(part: dict[str, Any]) -> list[Fact]:
    if part["type"] == "text":
        return [("text", part["text"].strip())] if part["text"].strip() else []
    if part["type"] == "image_url":
        return [("image", part["image_url"]["url"])]
    file = part["file"]
    source = {"data:text/plain;base64,aGk=": "hi"}.get(file.get("file_data"))
    where = source or file.get("file_data") or file["file_id"]
    return [("file", where, file.get("filename", ""))]


def facts_sent(body: dict[str, Any]) -> list[Fact]:
    """What a body of the messages API holds, in any order and in the words of `facts_of`."""
    blocks = [*body.get("system", [])]
    for turn in body["messages"]:
        blocks += turn["content"]
    return sorted(fact for block in blocks for fact in _of_block(block))


def _of_block(block: dict[str, Any]) -> list[Fact]:
    kind = block["type"]
    if kind == "text":
        return _of_named_text(block["text"])
    if kind in ("thinking", "redacted_thinking"):
        return [("sealed", block.get("signature") or block["data"])]
    if kind == "tool_use":
        return [("call", _canonical(block["input"]))]
    if kind == "tool_result":
        content = block.get("content", [])
        inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return [fact for item in inner for fact in _of_block(item)]
    if kind == "image":
        return [("image", _url(block["source"]))]
    return [("file", _url(block["source"]), block.get("title", ""))]


def _of_named_text(text: str) -> list[Fact]:
    facts: list[Fact] = []
    for name in ("bob", "a b"):
        if text.startswith(f"{name}:"):
            facts.append(("name", name))
            text = text[len(name) + 1 :]
            break
    return [*facts, ("text", text.strip())] if text.strip() else facts


def _url(source: dict[str, Any]) -> str:
    if source["type"] == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    return str(source.get("url") or source.get("data") or source["file_id"])


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
