"""`instructions` and `input` as chat messages: parts, the turns of the model, and all others."""

from collections.abc import Callable
from itertools import chain, dropwhile
from operator import not_
from typing import Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.ids import is_own_reasoning

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")


def read_content(content: str | list[JsonObject] | None) -> str | list[JsonObject]:
    """A message's content; one text without cache marks is a plain string, as most send it."""
    if not isinstance(content, list):
        return content or ""
    parts = [build_chat_part(part) for part in content if part["type"] != "refusal"]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        text: str = parts[0]["text"]
        return text
    return parts or ""


def build_chat_part(part: JsonObject) -> JsonObject:
    kind = part["type"]
    built: JsonObject
    if kind in ("input_text", "output_text", "refusal"):
        built = {"type": "text", "text": part["refusal" if kind == "refusal" else "text"]}
    elif kind == "input_image":
        built = {"type": "image_url", "image_url": {"url": part["image_url"]}}
        if part.get("detail") is not None:
            built["image_url"]["detail"] = part["detail"]
    elif kind == "input_file":
        fields = {
            "file_data": part.get("file_data") or part.get("file_url"),
            "file_id": part.get("file_id"),
            "filename": part.get("filename"),
        }
        file = {name: value for name, value in fields.items() if value is not None}
        built = {"type": "file", "file": file}
    elif kind == "input_audio":
        built = {"type": "input_audio", "input_audio": part["input_audio"]}
    else:
        built = {"type": "video_url", "video_url": {"url": part["video_url"]}}
    return built | {mark: part[mark] for mark in _MARKS if part.get(mark) is not None}


# How base64 of each image format begins.
_IMAGE_STARTS: Final = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
_DEFAULT_FORMAT: Final = "openai-responses-v1"


class ModelTurn:
    """An assistant message that grows item by item, and is put together at its end. A turn with a
    call may have any number of them.

    Chat says reasoning, then content, then calls. Items in another order begin a new message,
    except after a call: its output has to follow the very message that made it.
    """

    def __init__(self) -> None:
        self._contents: list[str | list[JsonObject] | None] = []
        self._texts: dict[str, list[str]] = {"reasoning": [], "refusal": []}
        self._lists: dict[str, list[JsonObject]] = {
            "reasoning_details": [],
            "annotations": [],
            "images": [],
            "tool_calls": [],
        }
        self._indexes: dict[str | int, int] = {}

    def is_closed_to(self, kind: str) -> bool:
        """Whether an item of this type belongs to another message of the same turn."""
        if self._lists["tool_calls"]:
            return False
        return kind in ("message", "reasoning") and bool(self._contents)

    def message(self) -> JsonObject | None:
        """The whole chat message; None where no item came."""
        fields: JsonObject = {name: "".join(texts) for name, texts in self._texts.items() if texts}
        fields |= {name: items for name, items in self._lists.items() if items}
        if not fields and not self._contents:
            return None
        contents = list(dropwhile(not_, self._contents))
        content = (contents or self._contents or [None])[-1]
        if len(contents) > 1:
            # One content stays as it is; several are the parts of all of them.
            content = []
            for each in contents:
                if isinstance(each, list):
                    content += each
                elif each:
                    content.append({"type": "text", "text": each})
        return {"role": "assistant", "content": content, **fields}

    def add_message(self, item: JsonObject) -> None:
        content = item.get("content")
        parts = content if type(content) is list else []
        refusals = [part["refusal"] for part in parts if part["type"] == "refusal"]
        self._texts["refusal"] += refusals
        self._contents.append(read_content(content) or (None if refusals else ""))
        for note in chain(*(part.get("annotations") or () for part in parts)):
            # Chat knows citations of pages only.
            if note.get("type") == "url_citation" and type(note.get("url")) is str:
                citation = {key: value for key, value in note.items() if key != "type"}
                note = {"type": "url_citation", "url_citation": citation}
                self._lists["annotations"].append(note)

    def add_call(self, item: JsonObject) -> None:
        """A function call; a custom tool's free text becomes the one argument `input`."""
        is_function = item["type"] == "function_call"
        arguments = item["arguments"] if is_function else dumps({"input": item["input"]}).decode()
        function = {"name": item["name"], "arguments": arguments}
        call = {"id": item["call_id"], "type": "function", "function": function}
        self._lists["tool_calls"].append(call)

    def add_image(self, item: JsonObject) -> None:
        result = item.get("result")
        if type(result) is str and result:
            if not result.startswith(("http://", "https://", "data:")):
                kinds = (kind for start, kind in _IMAGE_STARTS.items() if result.startswith(start))
                result = f"data:{next(kinds, 'image/png')};base64,{result}"
            self._lists["images"].append({"type": "image_url", "image_url": {"url": result}})

    def add_reasoning(self, item: JsonObject) -> None:
        """Details that share index and id, so that the item can be put together again. Plain text
        of an upstream that knows no more than that is plain text again."""
        given_id = item.get("id")
        is_own = is_own_reasoning(given_id)
        if is_own and item.get("format") is None and item.get("content"):
            self._texts["reasoning"] += [part["text"] for part in item["content"]]
            return
        common = {
            "id": None if is_own else given_id,
            "format": item.get("format") or _DEFAULT_FORMAT,
            "index": self._indexes.setdefault(
                len(self._indexes) if is_own or not given_id else given_id, len(self._indexes)
            ),
        }
        self._lists["reasoning_details"] += [
            {**detail, **common} for detail in _build_details(item)
        ]


def _build_details(item: JsonObject) -> list[JsonObject]:
    details: list[JsonObject] = [
        {"type": "reasoning.summary", "summary": part["text"]} for part in item.get("summary", ())
    ]
    texts: list[JsonObject] = [
        {"type": "reasoning.text", "text": part["text"]} for part in item.get("content") or ()
    ]
    if item.get("signature") is not None:
        if not texts:
            texts = [{"type": "reasoning.text"}]
        texts[-1]["signature"] = item["signature"]
    details += texts
    if item.get("encrypted_content") is not None:
        details.append({"type": "reasoning.encrypted", "data": item["encrypted_content"]})
    return details


_ASSISTANT: Final = "assistant"
_REFERENCE: Final = "item_reference"


def read_messages(
    instructions: str | None, items: str | list[JsonObject]
) -> tuple[list[JsonObject], list[JsonObject]]:
    """The messages, and the items that have no equivalent in chat."""
    messages: list[JsonObject] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        messages.append({"role": "user", "content": items})
        return messages, []
    left_out: list[JsonObject] = []
    turn = ModelTurn()
    for item in items:
        kind = item.get("type", "message")
        is_models = kind != "message" or item["role"] == _ASSISTANT
        add = _TURN_READERS.get(kind) if is_models else None
        if add is not None:
            if turn.is_closed_to(kind):
                turn = _end_turn(turn, messages)
            add(turn, item)
        elif (message := _build_other_message(kind, item)) is not None:
            turn = _end_turn(turn, messages)
            messages.append(message)
        else:
            left_out.append(item)
    _end_turn(turn, messages)
    return messages, left_out


def remove_references(body: JsonObject) -> JsonObject:
    """A checked body without what refers to its other items; the same where nothing does."""
    items = body["input"]
    if type(items) is str or not any(item.get("type") == _REFERENCE for item in items):
        return body
    return {**body, "input": [item for item in items if item.get("type") != _REFERENCE]}


def collect_tools(body: JsonObject) -> JsonObject:
    """A checked body with the tools that stand among its items beside the others; the same where
    there are none."""
    items = body["input"] if type(body["input"]) is list else ()
    added = [item["tools"] for item in items if item.get("type") == "additional_tools"]
    return {**body, "tools": [*body.get("tools", ()), *chain(*added)]} if added else body


def _end_turn(turn: ModelTurn, messages: list[JsonObject]) -> ModelTurn:
    message = turn.message()
    if message is not None:
        messages.append(message)
    return ModelTurn()


def _build_other_message(kind: str, item: JsonObject) -> JsonObject | None:
    """A message that is no part of the model's turn."""
    if kind == "message":
        content = item.get("content")
        if type(content) is list and any(part["type"] == "refusal" for part in content):
            # A refusal that others than the model said is text like any other.
            return {"role": item["role"], "content": [build_chat_part(part) for part in content]}
        return {"role": item["role"], "content": read_content(content)}
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = read_content(item["output"])
        return {"role": "tool", "tool_call_id": item["call_id"], "content": output}
    return None


_TURN_READERS: Final[dict[str, Callable[[ModelTurn, JsonObject], None]]] = {
    "message": ModelTurn.add_message,
    "function_call": ModelTurn.add_call,
    "custom_tool_call": ModelTurn.add_call,
    "reasoning": ModelTurn.add_reasoning,
    "image_generation_call": ModelTurn.add_image,
}
