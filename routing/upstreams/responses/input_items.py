"""Chat messages as instructions and input items.

`reasoning_details` are put together again as the reasoning items they came from. Pieces of one item
share its id, or its index where they carry no id. A streamed piece comes in fragments: all but its
first are marked with `CONTINUES`.
"""

import hashlib
from typing import Any, Final

from gateway.http.jsonio import JsonObject

# --- Content parts --------------------------------------------------------------------------------

_BREAKPOINT: Final = {"mode": "explicit"}


def is_marked(part: JsonObject) -> bool:
    """Whether the prompt cache is to end at this part."""
    return bool(part.get("cache_control") or part.get("prompt_cache_breakpoint"))


def _build_content(content: str | list[JsonObject], marks: bool) -> str | list[JsonObject]:
    """What anybody but the model says. With `marks` the parts carry cache breakpoints."""
    if not isinstance(content, list):
        return content
    parts: list[JsonObject] = []
    for part in content:
        kind = part["type"]
        sent: JsonObject
        if kind == "text":
            sent = {"type": "input_text", "text": part["text"]}
            if marks and is_marked(part):
                sent["prompt_cache_breakpoint"] = _BREAKPOINT
        elif kind == "image_url":
            # Some servers insist on a detail, and "auto" means what its absence does.
            image = part["image_url"]
            detail = image.get("detail") or "auto"
            sent = {"type": "input_image", "image_url": image["url"], "detail": detail}
        elif kind == "input_audio":
            audio = {name: part["input_audio"][name] for name in ("data", "format")}
            sent = {"type": "input_audio", "input_audio": audio}
        elif kind == "file":
            file = part["file"]
            sent = {"type": "input_file"}
            data = file.get("file_data")
            if data is not None:
                sent["file_data" if data[:5].lower() == "data:" else "file_url"] = data
            for name in ("file_id", "filename"):
                if file.get(name) is not None:
                    sent[name] = file[name]
        else:
            sent = {"type": "input_video", "video_url": part["video_url"]["url"]}
        parts.append(sent)
    return parts


# --- Items ----------------------------------------------------------------------------------------

CALL_ID_CHARS_MAX: Final = 64
_INSTRUCTING: Final = ("system", "developer")


def build_input(messages: list[JsonObject], *, marks: bool) -> tuple[str | None, list[JsonObject]]:
    """The instructions, where the conversation opens with a plain text of that kind, and the items
    of the rest. With `marks` the parts carry cache breakpoints."""
    instructions = _read_instructions(messages[0], marks) if len(messages) > 1 else None
    others = messages[1:] if instructions else messages
    items: list[JsonObject] = []
    for message in others:
        role = message["role"]
        if role == "assistant":
            items += _build_assistant_items(message)
        elif role == "tool":
            call_id = shorten_call_id(message["tool_call_id"])
            output = _build_content(message["content"], marks)
            items.append({"type": "function_call_output", "call_id": call_id, "output": output})
        else:
            content = _build_content(_prefix_name(message["content"], message.get("name")), marks)
            items.append({"type": "message", "role": role, "content": content or ""})
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


def _prefix_name(content: str | list[JsonObject], name: str | None) -> str | list[JsonObject]:
    """The format has no field for who speaks."""
    if not name:
        return content
    if isinstance(content, str):
        return f"{name}: {content}"
    return [{"type": "text", "text": f"{name}: "}, *content]


def _build_answer(content: str | list[JsonObject]) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": content}


def _build_assistant_items(message: JsonObject) -> list[JsonObject]:
    items = build_reasoning_items(message.get("reasoning_details"))
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
    if parts:
        items.append(_build_answer(parts))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        items.append(
            {
                "type": "function_call",
                "call_id": shorten_call_id(call["id"]),
                "name": function["name"],
                "arguments": function["arguments"],
            }
        )
    return items or [_build_answer("")]


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
    """A call's id. One that is longer than the format takes has a short one made of it, the same
    for the call and for its output."""
    if len(id) <= CALL_ID_CHARS_MAX:
        return id
    return f"call_{hashlib.sha256(id.encode()).hexdigest()[:32]}"


# --- Reasoning that a caller replays --------------------------------------------------------------

CONTINUES: Final = "continues"
FORMAT: Final = "openai-responses-v1"
_FORMAT_END: Final = "-responses-v1"
_UNNAMED: Final = (None, "unknown")


def is_of_this_wire(format: object) -> bool:
    """Whether reasoning of that format was written by an upstream of this wire kind."""
    return isinstance(format, str) and format.endswith(_FORMAT_END)


def build_reasoning_items(details: list[JsonObject] | None) -> list[JsonObject]:
    """The items of one assistant message, in order; details of other formats are left out."""
    if not details:
        return []
    collector = _ItemCollector()
    for detail in details:
        if is_replayed(detail):
            collector.add(detail)
    items: list[JsonObject] = []
    for item in collector.items:
        if not item["content"] and item["encrypted_content"] is None:
            # Nothing is stored: without its content it would be looked up in vain, and refused.
            continue
        sent: JsonObject = {"type": "reasoning"}
        if item["id"]:
            sent["id"] = item["id"]
        sent["summary"] = _join_texts("summary_text", item["summary"])
        if item["content"]:
            sent["content"] = _join_texts("reasoning_text", item["content"])
        if item["encrypted_content"] is not None:
            sent["encrypted_content"] = item["encrypted_content"]
        items.append(sent)
    return items


def is_replayed(detail: JsonObject) -> bool:
    """Whether the upstream can make something of a detail.

    Text of nobody's format and without an id is another kind of model's: no item to return to.
    """
    format = detail.get("format")
    if format in _UNNAMED:
        return detail.get("type") == "reasoning.encrypted" or bool(detail.get("id"))
    return is_of_this_wire(format)


class _ItemCollector:
    """The items met so far."""

    def __init__(self) -> None:
        self.items: list[JsonObject] = []
        self._by_id: dict[str, JsonObject] = {}
        self._by_index: dict[Any, JsonObject] = {}

    def add(self, detail: JsonObject) -> None:
        match detail.get("type"):
            case "reasoning.summary":
                _add_text(self._item(detail)["summary"], detail, detail["summary"])
            case "reasoning.text":
                _add_text(self._item(detail)["content"], detail, detail.get("text"))
            case "reasoning.encrypted":
                self._item(detail)["encrypted_content"] = detail["data"]

    def _item(self, detail: JsonObject) -> JsonObject:
        id, index = detail.get("id"), detail.get("index")
        item = self._by_id.get(id) if id else None
        if item is None:
            item = self._by_index.get(index)
            if item is None or (id and item["id"] not in (None, id)):
                item = {"id": None, "summary": [], "content": [], "encrypted_content": None}
                self.items.append(item)
        if id:
            item["id"] = id
            self._by_id[id] = item
        self._by_index[index] = item
        return item


def _add_text(texts: list[list[str]], detail: JsonObject, text: str | None) -> None:
    """Each text stays in its fragments until it is sent."""
    if not text:
        return
    if detail.get(CONTINUES) and texts:
        texts[-1].append(text)
    else:
        texts.append([text])


def _join_texts(kind: str, texts: list[list[str]]) -> list[JsonObject]:
    return [{"type": kind, "text": "".join(fragments)} for fragments in texts]
