"""Random answers of this wire, the events that tell them, and what a reader makes of those."""

import itertools
from collections.abc import Iterator
from typing import Any

import orjson
from hypothesis import strategies as st

from routing.exchange import Event
from routing.upstreams.responses.wire import RESPONSES

texts = st.text(max_size=12)
spoken = st.text(min_size=1, max_size=12)
_logprobs = st.lists(
    st.builds(
        lambda token, logprob: {"token": token, "logprob": logprob, "top_logprobs": []},
        texts,
        st.floats(max_value=0, allow_nan=False, allow_infinity=False),
    ),
    max_size=2,
)
_annotations = st.lists(
    st.sampled_from(
        [
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2},
            {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0},
        ]
    ),
    max_size=2,
)
_parts = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("output_text"), "text": spoken}
        | {"annotations": _annotations, "logprobs": _logprobs}
    ),
    st.just({"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
    st.fixed_dictionaries({"type": st.just("refusal"), "refusal": texts}),
)


def _written(type: str) -> st.SearchStrategy[Any]:
    return st.lists(
        st.fixed_dictionaries({"type": st.just(type), "text": spoken}), min_size=0, max_size=3
    )


_items = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("message"), "role": st.just("assistant")}
        | {"content": st.lists(_parts, max_size=3)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning"), "summary": _written("summary_text")}
        | {"content": _written("reasoning_text"), "encrypted_content": st.none() | spoken}
    ),
    st.fixed_dictionaries({"type": st.just("function_call"), "name": spoken, "arguments": texts}),
    st.fixed_dictionaries(
        {"type": st.just("image_generation_call"), "result": st.just("AAAA")}
        | {"output_format": st.sampled_from(["png", "webp"])}
    ),
    st.just({"type": "web_search_call", "status": "completed"}),
)


def _numbered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**item, "id": f"it_{place}"}
        | ({"call_id": f"call_{place}"} if item["type"] == "function_call" else {})
        for place, item in enumerate(items)
    ]


outputs = st.lists(_items, max_size=5).map(_numbered)


def response(output: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": output,
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        **fields,
    }


class Telling:
    """How an upstream tells an answer: which of the redundant events it sends, and in which pieces
    it cuts texts."""

    def __init__(self, *, deltas: bool, dones: bool, items: bool, cut: int) -> None:
        self.deltas, self.dones, self.items, self.cut = deltas, dones, items, cut

    def events(self, output: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        start = response([], status="in_progress", usage=None)
        yield {"type": "response.created", "response": start}
        for place, item in enumerate(output):
            yield from self._item(place, item)
        yield {"type": "response.completed", "response": response(output)}

    def _item(self, place: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        at = {"output_index": place, "item_id": item["id"]}
        if self.deltas or self.items:
            bare: dict[str, Any] = {
                "arguments": "",
                "content": [],
                "summary": [],
                "encrypted_content": None,
            }
            added = {**item, **{name: bare[name] for name in bare if name in item}}
            yield {"type": "response.output_item.added", "output_index": place, "item": added}
        for told in self._pieces(item):
            yield {**told, **at}
        if self.items:
            yield {"type": "response.output_item.done", "output_index": place, "item": item}

    def _pieces(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if item["type"] == "function_call":
            yield from self._text("function_call_arguments", "arguments", item["arguments"], {})
        elif item["type"] == "reasoning":
            for index, part in enumerate(item["summary"]):
                at = {"summary_index": index}
                yield from self._text("reasoning_summary_text", "text", part["text"], at)
            for index, part in enumerate(item["content"]):
                at = {"content_index": index}
                yield from self._text("reasoning_text", "text", part["text"], at)
        elif item["type"] == "message":
            for index, part in enumerate(item["content"]):
                yield from self._part(part, {"content_index": index})

    def _part(self, part: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if part["type"] == "refusal":
            yield from self._text("refusal", "refusal", part["refusal"], at)
            return
        told = self._text("output_text", "text", part["text"], at)
        firsts = itertools.chain([part["logprobs"]], itertools.repeat([]))
        # All of the log probabilities come with the first event of the text.
        for logprobs, event in zip(firsts, told, strict=False):
            yield {**event, "logprobs": logprobs} if event["type"].endswith("delta") else event
        if self.dones:
            yield {"type": "response.content_part.done", "part": part, **at}

    def _text(
        self, name: str, field: str, text: str, at: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if self.deltas:
            for start in range(0, len(text), self.cut):
                fragment = text[start : start + self.cut]
                yield {"type": f"response.{name}.delta", "delta": fragment, **at}
        if self.dones:
            yield {"type": f"response.{name}.done", field: text, **at}


# An upstream that says an item's pieces only as it goes tells the rest with the item or at the end.
tellings = st.builds(
    Telling,
    deltas=st.booleans(),
    dones=st.booleans(),
    items=st.booleans(),
    cut=st.integers(min_value=1, max_value=5),
)


def read(events: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> list[Event]:
    reader = RESPONSES.reader()
    return [event for told in events for event in reader.events(orjson.dumps(told))]


def gathered(events: list[Event]) -> dict[str, Any]:
    """The message that the deltas add up to, as a client adds them."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for delta in (event.delta for event in events):
        for name in ("content", "refusal", "reasoning"):
            if name in delta:
                message[name] = (message.get(name) or "") + delta[name]
        for name in ("images", "annotations"):
            if name in delta:
                message[name] = message.get(name, []) + delta[name]
        for detail in delta.get("reasoning_details", ()):
            _add_detail(message.setdefault("reasoning_details", []), detail)
        for call in delta.get("tool_calls", ()):
            _add_call(message.setdefault("tool_calls", []), call)
    return message


def _add_detail(details: list[dict[str, Any]], detail: dict[str, Any]) -> None:
    if not detail.get("continues"):
        details.append(dict(detail))
        return
    name = detail["type"].removeprefix("reasoning.")
    details[-1][name] += detail[name]


def _add_call(calls: list[dict[str, Any]], call: dict[str, Any]) -> None:
    if call["index"] == len(calls):
        calls.append({"type": "function", "id": None, "function": {"name": "", "arguments": ""}})
    whole, function = calls[call["index"]], call["function"]
    whole["id"] = call.get("id") or whole["id"]
    whole["function"]["name"] += function.get("name", "")
    whole["function"]["arguments"] += function["arguments"]


def tokens(events: list[Event]) -> list[Any]:
    found = [event.logprobs["content"] for event in events if event.logprobs is not None]
    return list(itertools.chain.from_iterable(found))
