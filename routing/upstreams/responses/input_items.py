"""Chat messages as instructions and input items."""

import hashlib
from collections.abc import Callable
from typing import Final

from gateway.http.jsonio import JsonObject
from routing.upstreams.responses.reasoning_items import build_reasoning_items

# --- Content parts --------------------------------------------------------------------------------

_BREAKPOINT: Final = {"mode": "explicit"}


def is_marked(part: JsonObject) -> bool:
    """Whether the prompt cache is to end at this part."""
    return bool(part.get("cache_control") or part.get("prompt_cache_breakpoint"))


def build_input_parts(content: list[JsonObject], *, marks: bool) -> list[JsonObject]:
    """The parts of anything but an answer; `marks` says whether cache breakpoints are told."""
    return [_PARTS[part["type"]](part, marks) for part in content]


def _build_text(part: JsonObject, marks: bool) -> JsonObject:
    sent = {"type": "input_text", "text": part["text"]}
    if marks and is_marked(part):
        sent["prompt_cache_breakpoint"] = _BREAKPOINT
    return sent


def _build_image(part: JsonObject, marks: bool) -> JsonObject:
    image = part["image_url"]
    # Some servers insist on the word, and this one means what its absence does.
    return {
        "type": "input_image",
        "image_url": image["url"],
        "detail": image.get("detail") or "auto",
    }


def _build_audio(part: JsonObject, marks: bool) -> JsonObject:
    audio = part["input_audio"]
    return {
        "type": "input_audio",
        "input_audio": {"data": audio["data"], "format": audio["format"]},
    }


def _build_video(part: JsonObject, marks: bool) -> JsonObject:
    return {"type": "input_video", "video_url": part["video_url"]["url"]}


def _build_file(part: JsonObject, marks: bool) -> JsonObject:
    file = part["file"]
    sent: JsonObject = {"type": "input_file"}
    data = file.get("file_data")
    if data is not None:
        sent["file_data" if data[:5].lower() == "data:" else "file_url"] = data
    for name in ("file_id", "filename"):
        if file.get(name) is not None:
            sent[name] = file[name]
    return sent


_PARTS: Final[dict[str, Callable[[JsonObject, bool], JsonObject]]] = {
    "text": _build_text,
    "image_url": _build_image,
    "input_audio": _build_audio,
    "video_url": _build_video,
    "input_video": _build_video,
    "file": _build_file,
}


# --- Items ----------------------------------------------------------------------------------------

CALL_ID_CHARS_MAX: Final = 64
_INSTRUCTING: Final = ("system", "developer")


def build_input(messages: list[JsonObject], *, marks: bool) -> tuple[str | None, list[JsonObject]]:
    """The instructions, where the conversation opens with a plain text of that kind, and the items
    of the rest. `marks` says whether cache breakpoints are told."""
    instructions = _read_instructions(messages[0], marks) if len(messages) > 1 else None
    others = messages[1:] if instructions else messages
    items: list[JsonObject] = []
    for message in others:
        items += _ITEMS[message["role"]](message, marks)
    return instructions or None, _drop_idle_reasoning(items) or [_build_answer("")]


def _drop_idle_reasoning(items: list[JsonObject]) -> list[JsonObject]:
    """Reasoning that led to nothing, as when it ran into the output cap, is refused."""
    items_kept: list[JsonObject] = []
    led_on = False
    for item in reversed(items):
        if item["type"] == "reasoning":
            if led_on:
                items_kept.append(item)
            continue
        led_on = item["type"] == "function_call" or item.get("role") == "assistant"
        items_kept.append(item)
    items_kept.reverse()
    return items_kept


def _read_instructions(message: JsonObject, marks: bool) -> str | None:
    if message["role"] not in _INSTRUCTING:
        return None
    content = message["content"]
    if isinstance(content, list):
        if len(content) != 1 or (marks and is_marked(content[0])):
            return None
        content = content[0]["text"]
    name = message.get("name")
    return f"{name}: {content}" if name else str(content)


def _build_message(message: JsonObject, marks: bool) -> list[JsonObject]:
    content = _prefix_name(message["content"], message.get("name"))
    if isinstance(content, list):
        content = build_input_parts(content, marks=marks)
    return [{"type": "message", "role": message["role"], "content": content or ""}]


def _prefix_name(content: str | list[JsonObject], name: str | None) -> str | list[JsonObject]:
    """The format has no field for who speaks."""
    if not name:
        return content
    if isinstance(content, str):
        return f"{name}: {content}"
    return [{"type": "text", "text": f"{name}: "}, *content]


def _build_assistant_items(message: JsonObject, marks: bool) -> list[JsonObject]:
    items = build_reasoning_items(message.get("reasoning_details"))
    if parts := _build_answer_parts(message):
        items.append(_build_answer(parts))
    items += map(_build_function_call, message.get("tool_calls") or ())
    return items or [_build_answer("")]


def _build_answer(content: str | list[JsonObject]) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": content}


def _build_answer_parts(message: JsonObject) -> list[JsonObject]:
    content = _prefix_name(message.get("content") or "", message.get("name"))
    texts = (
        [content]
        if isinstance(content, str)
        else [part["text"] for part in content if part["type"] == "text"]
    )
    parts: list[JsonObject] = [
        {"type": "output_text", "text": text, "annotations": []} for text in texts if text
    ]
    if parts:
        parts[0]["annotations"] = _build_citations(message.get("annotations"))
    if refusal := message.get("refusal"):
        parts.append({"type": "refusal", "refusal": refusal})
    return parts


def _build_citations(annotations: list[JsonObject] | None) -> list[JsonObject]:
    cited = (annotation.get("url_citation") for annotation in annotations or ())
    return [
        {
            "type": "url_citation",
            "url": citation["url"],
            "title": citation.get("title") or "",
            "start_index": citation.get("start_index") or 0,
            "end_index": citation.get("end_index") or 0,
        }
        for citation in cited
        if isinstance(citation, dict) and isinstance(citation.get("url"), str)
    ]


def shorten_call_id(id: str) -> str:
    """A call's id; one that is longer than the format takes has a short one made of it, the same
    for the call and for its output."""
    if len(id) <= CALL_ID_CHARS_MAX:
        return id
    return f"call_{hashlib.sha256(id.encode()).hexdigest()[:32]}"


def _build_function_call(call: JsonObject) -> JsonObject:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": shorten_call_id(call["id"]),
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _build_tool_result(message: JsonObject, marks: bool) -> list[JsonObject]:
    output = message["content"]
    if isinstance(output, list):
        output = build_input_parts(output, marks=marks)
    return [
        {
            "type": "function_call_output",
            "call_id": shorten_call_id(message["tool_call_id"]),
            "output": output,
        }
    ]


_ITEMS: Final[dict[str, Callable[[JsonObject, bool], list[JsonObject]]]] = {
    "system": _build_message,
    "developer": _build_message,
    "user": _build_message,
    "assistant": _build_assistant_items,
    "tool": _build_tool_result,
}
