"""Output items as chat-shaped deltas, each piece of them sent once.

Streams send most pieces several times: in fragments, at the end of the piece, of its item and of
the response. What was not sent before is sent then, so that nothing is lost with upstreams that
leave fragments out, and nothing doubled.
"""

from typing import Any

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Event
from routing.upstreams.responses.input_items import CONTINUES, FORMAT
from routing.upstreams.responses.output_items import OutputItem, OutputItems, OutputPart


class Output:
    """What was said of one answer. The methods write what is new into the delta of an event."""

    def __init__(self) -> None:
        self.items = OutputItems()
        # Which kinds of output came at all.
        self.emitted_kinds: set[str] = set()
        # How often the upstream searched the web.
        self.searches = 0
        self._has_reasoned = False
        self._content_chars = self._calls = self._reasonings = 0
        # Calls of functions that have said no arguments yet.
        self._silent: list[OutputItem] = []

    def add_text(self, event: Event, piece: OutputPart, text: str) -> None:
        """A fragment of output text."""
        if not piece.chars:
            piece.offset = self._content_chars
            self.emitted_kinds.add("text")
        piece.chars += len(text)
        self._content_chars += len(text)
        delta = event.delta
        delta["content"] = delta["content"] + text if "content" in delta else text

    def add_refusal(self, event: Event, item: OutputItem, part: object, text: str) -> None:
        item.piece("refusal", part).chars += len(text)
        event.delta["refusal"] = event.delta.get("refusal", "") + text
        self.emitted_kinds.add("text")

    def add_reasoning(
        self, event: Event, item: OutputItem, kind: str, part: object, text: str
    ) -> None:
        """A fragment of a summary or of the reasoning itself (`kind` "summary" or "text")."""
        piece = item.piece(f"reasoning.{kind}", part)
        detail = self._new_detail(item, f"reasoning.{kind}")
        detail[kind] = text
        separator = ""
        if piece.chars:
            detail[CONTINUES] = True
        elif self._has_reasoned:
            separator = "\n\n"
        self._has_reasoned = True
        piece.chars += len(text)
        event.delta["reasoning"] = event.delta.get("reasoning", "") + separator + text
        event.delta.setdefault("reasoning_details", []).append(detail)
        self.emitted_kinds.add("reasoning")

    def add_tokens(self, event: Event, piece: OutputPart, logprobs: object) -> None:
        """Log probabilities of a fragment of text."""
        if tokens := read_tokens(logprobs):
            piece.tokens += len(tokens)
            if event.logprobs is None:
                event.logprobs = {"content": []}
            event.logprobs["content"] += tokens

    def add_annotation(
        self, event: Event, item: OutputItem, part: object, annotation: object
    ) -> None:
        piece = item.piece("text", part)
        piece.annotations += 1
        offset = piece.offset if piece.chars else self._content_chars
        if citation := _build_citation(annotation, offset, offset + piece.chars):
            event.delta.setdefault("annotations", []).append(citation)

    def begin_call(self, event: Event, item: OutputItem) -> JsonObject:
        """The delta of a call. Its first one carries what names it, and so does a later one that
        knows a name at last."""
        is_named = item.call_index is not None and (item.is_named or not item.name)
        if item.call_index is None:
            item.call_index = self._calls
            self._calls += 1
            if item.type != "custom_tool_call":
                self._silent.append(item)
        call: JsonObject = {"index": item.call_index, "function": {"arguments": ""}}
        if not is_named:
            item.is_named = bool(item.name)
            call |= {"type": "function", "function": {"name": item.name or "", "arguments": ""}}
            if item.call_id:
                call["id"] = item.call_id
            self.emitted_kinds.add(f"call {item.call_id}")
        event.delta.setdefault("tool_calls", []).append(call)
        return call

    def add_arguments(self, event: Event, item: OutputItem, text: str) -> None:
        """A fragment of a call's arguments."""
        item.piece("arguments", 0).chars += len(text)
        self.begin_call(event, item)["function"]["arguments"] = text

    def finish_arguments(self, event: Event, item: OutputItem, arguments: object) -> None:
        """The call is complete: say what is still unsaid of it. Some give an object for a text."""
        if isinstance(arguments, dict) and not item.piece("arguments", 0).chars:
            arguments = dumps(arguments).decode()
        remainder = item.remaining("arguments", 0, arguments)
        if remainder or item.call_index is None or (item.name and not item.is_named):
            self.add_arguments(event, item, remainder)

    def finish_part(self, event: Event, item: OutputItem, index: object, part: object) -> None:
        """A part of a message is complete."""
        if not isinstance(part, dict):
            return
        if part.get("type") == "refusal":
            if remainder := item.remaining("refusal", index, part.get("refusal")):
                self.add_refusal(event, item, index, remainder)
        elif part.get("type") == "output_text":
            self.finish_text(event, item, index, part)

    def finish_text(self, event: Event, item: OutputItem, index: object, part: JsonObject) -> None:
        """A part of output text is complete."""
        if remainder := item.remaining("text", index, part.get("text")):
            self.add_text(event, item.piece("text", index), remainder)
        piece = item.piece("text", index)
        logprobs = part.get("logprobs")
        if isinstance(logprobs, list) and len(logprobs) > piece.tokens:
            self.add_tokens(event, piece, logprobs[piece.tokens :])
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            for annotation in annotations[piece.annotations :]:
                self.add_annotation(event, item, index, annotation)

    def finish_reasoning(
        self, event: Event, item: OutputItem, kind: str, part: object, text: object
    ) -> None:
        """A part of a summary or of the reasoning itself is complete."""
        if remainder := item.remaining(f"reasoning.{kind}", part, text):
            self.add_reasoning(event, item, kind, part, remainder)

    def finish_item(self, event: Event, item: OutputItem, value: JsonObject) -> None:
        """An item is complete: say what is still unsaid of it."""
        match value.get("type"):
            case "message":
                for index, part in enumerate(_as_list(value.get("content"))):
                    self.finish_part(event, item, index, part)
            case "function_call":
                self.finish_arguments(event, item, value.get("arguments"))
            case "custom_tool_call":
                self.finish_arguments(event, item, value.get("input"))
            case "reasoning":
                self._finish_reasoning_item(event, item, value)
            case "image_generation_call":
                self._add_image(event, item, value)
            case "web_search_call":
                self._add_search(item, value)
        item.is_closed = True

    def finish(self, event: Event, items: object) -> None:
        """The response is complete: say what is unsaid of its items.

        Some upstreams give their items other ids from event to event. Where no id of these items
        was ever met, only those are meant of whose kind there was nothing yet. Where some were met,
        an unknown one is the item of its kind that was announced at its place.
        """
        emitted = self.emitted_kinds.copy()
        values = [value for value in _as_list(items) if isinstance(value, dict)]
        known_items = [self.items.find(value.get("id")) for value in values]
        keeps_ids = any(item is not None for item in known_items)
        for index, (value, item) in enumerate(zip(values, known_items, strict=True)):
            if item is None and keeps_ids and not emitted.isdisjoint(_list_output_kinds(value)):
                there = self.items.find_at(index)
                is_it = there is not None and there.type == value.get("type")
                item = there if is_it and there not in known_items else None
            is_new = keeps_ids and isinstance(value.get("id"), str)
            if item is not None or is_new or emitted.isdisjoint(_list_output_kinds(value)):
                item = item or OutputItem()
                item.learn(value)
                self.finish_item(event, item, value)
        for item in self._silent:
            if not item.piece("arguments", 0).chars:
                calls = event.delta.get("tool_calls", ())
                call = next((each for each in calls if each["index"] == item.call_index), None)
                call = call or self.begin_call(event, item)
                call["function"]["arguments"] = "{}"

    def _finish_reasoning_item(self, event: Event, item: OutputItem, value: JsonObject) -> None:
        for kind, field in (("summary", "summary"), ("text", "content")):
            for index, part in enumerate(_as_list(value.get(field))):
                if isinstance(part, dict):
                    self.finish_reasoning(event, item, kind, index, part.get("text"))
        details: list[JsonObject] = []
        if isinstance(signature := value.get("signature"), str) and not item.is_signed:
            item.is_signed = True
            details.append({**self._new_detail(item, "reasoning.text"), "signature": signature})
        if isinstance(sealed := value.get("encrypted_content"), str) and not item.is_sealed:
            item.is_sealed = True
            details.append({**self._new_detail(item, "reasoning.encrypted"), "data": sealed})
        if details:
            event.delta.setdefault("reasoning_details", []).extend(details)
            self.emitted_kinds.add("reasoning")

    def _new_detail(self, item: OutputItem, type: str) -> JsonObject:
        if item.reasoning_index is None:
            item.reasoning_index = self._reasonings
            self._reasonings += 1
        return {
            "type": type,
            "id": item.id,
            "format": item.format or FORMAT,
            "index": item.reasoning_index,
        }

    def _add_image(self, event: Event, item: OutputItem, value: JsonObject) -> None:
        data, format = value.get("result"), value.get("output_format")
        piece = item.piece("image", 0)
        if not isinstance(data, str) or not data or piece.chars:
            return
        piece.chars = len(data)
        kind = format if isinstance(format, str) and format else "png"
        image = {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}}
        event.delta.setdefault("images", []).append(image)
        self.emitted_kinds.add("image")

    def _add_search(self, item: OutputItem, value: JsonObject) -> None:
        """Opening a found page is no search."""
        piece, action = item.piece("search", 0), value.get("action")
        kind = action.get("type", "search") if isinstance(action, dict) else "search"
        if kind == "search" and value.get("status") != "failed" and not piece.chars:
            piece.chars = 1
            self.searches += 1
            self.emitted_kinds.add("search")


def _list_output_kinds(value: JsonObject) -> tuple[str, ...]:
    """What `Output.emitted_kinds` holds once something like this item came."""
    match value.get("type"):
        case "message":
            return ("text",)
        case "reasoning":
            return ("reasoning",)
        case "image_generation_call":
            return ("image",)
        case "web_search_call":
            return ("search",)
        case "function_call" | "custom_tool_call":
            # A call that was streamed without its id may be this one.
            id = value.get("call_id")
            return ("call None", f"call {id}") if isinstance(id, str) and id else ("call None",)
        case _:
            return ()


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _build_citation(annotation: object, offset: int, end: int) -> JsonObject | None:
    """The annotation as the chat format has it, counted from where the content begins. One that
    does not say its place (xAI) is of all that was said of its part, from `offset` to `end`."""
    if not isinstance(annotation, dict) or annotation.get("type") != "url_citation":
        return None
    if not isinstance(url := annotation.get("url"), str):
        return None
    cited: JsonObject = {"url": url, "title": ""}
    for name in ("title", "content"):
        if isinstance(text := annotation.get(name), str):
            cited[name] = text
    for name, default in (("start_index", offset), ("end_index", end)):
        index = annotation.get(name)
        cited[name] = index + offset if type(index) is int else default
    return {"type": "url_citation", "url_citation": cited}


# --- Log probabilities ----------------------------------------------------------------------------


def read_tokens(logprobs: object) -> list[JsonObject]:
    """The tokens of a `logprobs` array; what is no token is left out."""
    if not isinstance(logprobs, list):
        return []
    tokens: list[JsonObject] = []
    for token in filter(_is_token, logprobs):
        listed = filter(_is_token, _as_list(token.get("top_logprobs")))
        alternatives = list(map(_build_chat_token, listed))
        tokens.append({**_build_chat_token(token), "top_logprobs": alternatives})
    return tokens


def _is_token(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("token"), str)
        and type(value.get("logprob")) in (int, float)
    )


def _build_chat_token(token: JsonObject) -> JsonObject:
    octets = token.get("bytes")
    is_known = isinstance(octets, list) and all(type(octet) is int for octet in octets)
    return {
        "token": token["token"],
        "logprob": token["logprob"],
        "bytes": octets if is_known else None,
    }
