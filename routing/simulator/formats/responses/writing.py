"""Writes an answer as one response, or as its numbered events."""

from typing import Any

from routing.simulator.answer import SimulatedAnswer, SimulatedPiece
from routing.simulator.encoding import JsonObject, seal, write_event

FAILURE = "Simulated failure of the model."
ECHOED_FIELDS: JsonObject = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}


def build_response(body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
    """The finished response. A usage of None is left out."""
    usage = convert_usage(answer.usage)
    return {
        **build_started_response(body, answer),
        **build_ending(answer),
        "output": build_output(body, answer),
        **({} if usage is None else {"usage": usage}),
    }


def build_started_response(body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
    """The response before anything was said."""
    tier = answer.service_tier
    return {
        "id": f"resp_{id_stem(answer)}",
        "object": "response",
        "created_at": answer.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": [],
        **{name: body.get(name, default) for name, default in ECHOED_FIELDS.items()},
        "service_tier": "default" if tier is None else tier,
        "usage": None,
    }


def id_stem(answer: SimulatedAnswer) -> str:
    return answer.id.rpartition("-")[2]


def build_ending(answer: SimulatedAnswer) -> JsonObject:
    """Status, error and what is missing."""
    reason = answer.finish_reason
    if reason == "error":
        return {"status": "failed", "error": {"code": "server_error", "message": FAILURE}}
    if reason in ("length", "content_filter"):
        why = "max_output_tokens" if reason == "length" else "content_filter"
        return {"status": "incomplete", "incomplete_details": {"reason": why}}
    return {"status": "completed" if reason else "incomplete"}


def build_failed_response(body: JsonObject, answer: SimulatedAnswer, message: str) -> JsonObject:
    """A response that failed with nothing said."""
    error = {"code": "server_error", "message": message}
    return {**build_started_response(body, answer), "status": "failed", "error": error}


def build_output(body: JsonObject, answer: SimulatedAnswer) -> list[JsonObject]:
    """The items: what was thought, what was said, which tools are called."""
    items = []
    if answer.text("reasoning") or answer.redacted is not None:
        items.append(build_reasoning(body, answer))
    if answer.text("content") or answer.text("refusal"):
        items.append(build_message(answer, build_parts(answer), "completed"))
    items += [
        build_function_call(answer, index, answer.text("tool", index), "completed")
        for index in range(len(answer.calls))
    ]
    return items


def build_reasoning(body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
    """What was thought, as far as the request wants to see it."""
    thought = answer.text("reasoning")
    item: JsonObject = {"id": f"rs_{id_stem(answer)}", "type": "reasoning", "summary": []}
    if is_text_visible(body):
        item["content"] = [{"type": "reasoning_text", "text": thought}]
    elif thought and is_summary_visible(body):
        item["summary"] = [{"type": "summary_text", "text": thought}]
    if "reasoning.encrypted_content" in (body.get("include") or []):
        item["encrypted_content"] = seal(answer.redacted or thought)
    return item


def is_text_visible(body: JsonObject) -> bool:
    """Models with open weights show their thoughts as they are."""
    return "open-reason" in str(body.get("model"))


def is_summary_visible(body: JsonObject) -> bool:
    return (body.get("reasoning") or {}).get("summary") is not None


def build_parts(answer: SimulatedAnswer) -> list[JsonObject]:
    refusal, text = answer.text("refusal"), answer.text("content")
    parts = [{"type": "refusal", "refusal": refusal}] if refusal else []
    return [*parts, build_text_part(text)] if text else parts


def build_text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def build_message(answer: SimulatedAnswer, content: list[JsonObject], status: str) -> JsonObject:
    return {
        "id": f"msg_{id_stem(answer)}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def build_function_call(
    answer: SimulatedAnswer, index: int, arguments: str, status: str
) -> JsonObject:
    call = answer.calls[index]
    return {
        "id": f"fc_{id_stem(answer)}_{index}",
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


def convert_usage(usage: object) -> Any:
    """The chat format's usage in this format's words. What is no such usage stays as it is."""
    if not isinstance(usage, dict) or "prompt_tokens" not in usage:
        return usage
    details = usage.get("prompt_tokens_details") or {}
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0)
    read = {"cached_tokens": details.get("cached_tokens", 0)}
    if "cache_write_tokens" in details:
        read["cache_write_tokens"] = details["cache_write_tokens"]
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": read,
        "output_tokens": usage.get("completion_tokens"),
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": usage.get("total_tokens"),
    }


# The event family and the field of what grows, by the kind of a piece.
GROWING = {
    "content": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "tool": ("response.function_call_arguments", "arguments"),
    "summary": ("response.reasoning_summary_text", "text"),
    "open": ("response.reasoning_text", "text"),
}


class ResponseWriter:
    """One item is open at a time. Said text is kept: the end of everything repeats it."""

    def __init__(self, body: JsonObject, answer: SimulatedAnswer) -> None:
        self._body = body
        self._answer = answer
        self._n = -1
        self._items: list[JsonObject] = []
        self._open: tuple[str, int] | None = None
        self._parts: list[JsonObject] = []
        self._fragments: list[str] = []

    def opening(self) -> bytes:
        response = build_started_response(self._body, self._answer)
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def text(self, text: str) -> bytes:
        return self.piece(SimulatedPiece("content", text))

    def piece(self, piece: SimulatedPiece) -> bytes:
        """One delta, with the events that have to stand before it; none for hidden thoughts."""
        kind: str = piece.kind
        if kind == "reasoning" and is_text_visible(self._body):
            kind = "open"
        elif kind == "reasoning":
            kind = "summary" if is_summary_visible(self._body) else "hidden"
        started = b"" if piece.kind == "reasoning" else self._unseen()
        if self._open != (kind, piece.call):
            started += self._start(kind, piece.call)
        self._fragments.append(piece.text)
        if kind == "hidden":
            return started
        return started + self._event(f"{GROWING[kind][0]}.delta", delta=piece.text, **self._place())

    def closing(self) -> list[bytes]:
        """The end of the open item, and the event that says how it all ended."""
        stop = self._stop() + self._unseen()
        usage = convert_usage(self._answer.usage)
        response = {
            **build_started_response(self._body, self._answer),
            **build_ending(self._answer),
            "output": self._items,
            "usage": usage,
        }
        last = self._event(f"response.{response['status']}", response=response)
        return [stop, last] if stop else [last]

    def failure(self, message: str) -> bytes:
        return self._event("error", code="server_error", message=message, param=None)

    def _unseen(self) -> bytes:
        """Reasoning without a word that anybody may read comes before everything else."""
        if self._answer.redacted is None or self._items or self._open is not None:
            return b""
        return self._start("hidden", 0) + self._stop()

    def _event(self, kind: str, **fields: object) -> bytes:
        self._n += 1
        return write_event(kind, {"type": kind, "sequence_number": self._n, **fields})

    def _place(self) -> JsonObject:
        """Where the open part stands."""
        assert self._open is not None
        kind, index = self._open[0], len(self._parts) - 1
        place = {"item_id": self._item("in_progress")["id"], "output_index": len(self._items)}
        if kind == "tool":
            return place
        if kind == "summary":
            return place | {"summary_index": 0}
        place |= {"content_index": max(index, 0)}
        return place | {"logprobs": []} if kind == "content" else place

    def _start(self, kind: str, call: int) -> bytes:
        in_message = self._open is not None and {self._open[0], kind} == {"refusal", "content"}
        before = self._end_part() if in_message else self._stop()
        self._open = (kind, call)
        self._fragments = []
        if not in_message:
            item = self._item("in_progress")
            before += self._event(
                "response.output_item.added", output_index=len(self._items), item=item
            )
        if kind in ("content", "refusal"):
            self._parts.append(self._part())
            added = "response.content_part.added"
            before += self._event(added, part=self._part(), **self._spot())
        elif kind == "summary":
            added = "response.reasoning_summary_part.added"
            part = {"type": "summary_text", "text": ""}
            before += self._event(added, part=part, **self._place())
        return before

    def _spot(self) -> JsonObject:
        place = self._place()
        place.pop("logprobs", None)
        return place

    def _part(self) -> JsonObject:
        assert self._open is not None
        text = "".join(self._fragments)
        if self._open[0] == "refusal":
            return {"type": "refusal", "refusal": text}
        return build_text_part(text)

    def _end_part(self) -> bytes:
        assert self._open is not None
        kind, text = self._open[0], "".join(self._fragments)
        if kind == "hidden":
            return b""
        family, name = GROWING[kind]
        more = {"name": self._answer.calls[self._open[1]].name} if kind == "tool" else {}
        ended = self._event(f"{family}.done", **{name: text}, **more, **self._place())
        if kind in ("content", "refusal"):
            self._parts[-1] = self._part()
            done = "response.content_part.done"
            return ended + self._event(done, part=self._part(), **self._spot())
        if kind == "summary":
            part = {"type": "summary_text", "text": text}
            done = "response.reasoning_summary_part.done"
            return ended + self._event(done, part=part, **self._place())
        return ended

    def _stop(self) -> bytes:
        """The end of the open item."""
        if self._open is None:
            return b""
        ended = self._end_part()
        item = self._item("completed")
        done = self._event("response.output_item.done", output_index=len(self._items), item=item)
        self._items.append(item)
        self._open, self._parts, self._fragments = None, [], []
        return ended + done

    def _item(self, status: str) -> JsonObject:
        """The open item, as far as it has come."""
        assert self._open is not None
        kind, call = self._open
        finished = status == "completed"
        if kind == "tool":
            arguments = "".join(self._fragments) if finished else ""
            return build_function_call(self._answer, call, arguments, status)
        if kind in ("content", "refusal"):
            return build_message(self._answer, list(self._parts) if finished else [], status)
        item = build_reasoning(self._body, self._answer)
        return item if finished else {"id": item["id"], "type": "reasoning", "summary": []}
