"""One turn of the model: the items it answered with, as one chat message."""

from itertools import dropwhile
from operator import not_
from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.entities.ids import is_own_reasoning
from routing.formats.responses.parts import content

# How base64 of each image format begins.
_IMAGE_STARTS: Final = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
_DEFAULT_FORMAT: Final = "openai-responses-v1"


class Turn:
    """An assistant message that grows item by item, and is put together at its end: a turn with a
    call may have any number of them.

    Chat says reasoning, then content, then calls. Items in another order begin a new message,
    except after a call: its output has to follow the very message that made it.
    """

    def __init__(self) -> None:
        self._contents: list[str | list[dict[str, Any]] | None] = []
        self._texts: dict[str, list[str]] = {"reasoning": [], "refusal": []}
        self._lists: dict[str, list[dict[str, Any]]] = {
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

    def message(self) -> dict[str, Any] | None:
        """The whole chat message; None where no item came."""
        said: dict[str, Any] = {name: "".join(all_) for name, all_ in self._texts.items() if all_}
        said |= {name: found for name, found in self._lists.items() if found}
        if not said and not self._contents:
            return None
        return {"role": "assistant", "content": _joined(self._contents), **said}

    def add_message(self, item: dict[str, Any]) -> None:
        said = item.get("content")
        parts = said if type(said) is list else []
        refusals = [part["refusal"] for part in parts if part["type"] == "refusal"]
        self._texts["refusal"] += refusals
        self._contents.append(content(said) or (None if refusals else ""))
        notes = [_annotation(note) for part in parts for note in part.get("annotations") or ()]
        self._lists["annotations"] += [note for note in notes if note is not None]

    def add_call(self, item: dict[str, Any]) -> None:
        """A function call; a custom tool's free text becomes the one argument `input`."""
        is_function = item["type"] == "function_call"
        arguments = item["arguments"] if is_function else dumps({"input": item["input"]}).decode()
        function = {"name": item["name"], "arguments": arguments}
        call = {"id": item["call_id"], "type": "function", "function": function}
        self._lists["tool_calls"].append(call)

    def add_image(self, item: dict[str, Any]) -> None:
        result = item.get("result")
        if type(result) is str and result:
            image = {"type": "image_url", "image_url": {"url": _image_url(result)}}
            self._lists["images"].append(image)

    def add_reasoning(self, item: dict[str, Any]) -> None:
        """Details that share index and id, so that the item can be put together again; plain text
        of an upstream that knows no more than that is plain text again."""
        given_id = item.get("id")
        own = is_own_reasoning(given_id)
        if own and item.get("format") is None and item.get("content"):
            self._texts["reasoning"] += [part["text"] for part in item["content"]]
            return
        common = {
            "id": None if own else given_id,
            "format": item.get("format") or _DEFAULT_FORMAT,
            "index": self._index(None if own else given_id),
        }
        self._lists["reasoning_details"] += [{**detail, **common} for detail in _details(item)]

    def _index(self, given_id: str | None) -> int:
        return self._indexes.setdefault(given_id or len(self._indexes), len(self._indexes))


def _joined(contents: list[Any]) -> Any:
    """One content stays as it is; several are the parts of all of them."""
    spoken = list(dropwhile(not_, contents))
    if len(spoken) > 1:
        return [part for said in spoken for part in _as_parts(said)]
    return (spoken or contents or [None])[-1]


def _as_parts(said: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    if isinstance(said, list):
        return said
    return [{"type": "text", "text": said}] if said else []


def _details(item: dict[str, Any]) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = [
        {"type": "reasoning.summary", "summary": part["text"]} for part in item.get("summary", ())
    ]
    texts: list[dict[str, Any]] = [
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


def _annotation(note: dict[str, Any]) -> dict[str, Any] | None:
    """Chat knows citations of pages only."""
    if note.get("type") != "url_citation" or type(note.get("url")) is not str:
        return None
    citation = {key: value for key, value in note.items() if key != "type"}
    return {"type": "url_citation", "url_citation": citation}


def _image_url(result: str) -> str:
    if result.startswith(("http://", "https://", "data:")):
        return result
    kinds = (kind for start, kind in _IMAGE_STARTS.items() if result.startswith(start))
    return f"data:{next(kinds, 'image/png')};base64,{result}"
