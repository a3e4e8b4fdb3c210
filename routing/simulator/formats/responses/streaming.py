"""Writing an answer as the numbered events of a response."""

from typing import Any

from routing.simulator.encoding import named_event
from routing.simulator.formats.responses import writing
from routing.simulator.wire import Answer, Piece

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

    def __init__(self, body: dict[str, Any], answer: Answer) -> None:
        self._body = body
        self._answer = answer
        self._n = -1
        self._items: list[dict[str, Any]] = []
        self._open: tuple[str, int] | None = None
        self._parts: list[dict[str, Any]] = []
        self._said: list[str] = []

    def opening(self) -> bytes:
        response = writing.started(self._body, self._answer)
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def text(self, text: str) -> bytes:
        return self.piece(Piece("content", text))

    def piece(self, piece: Piece) -> bytes:
        """One delta, with the events that have to stand before it; none for hidden thoughts."""
        kind = self._shown(piece.kind)
        started = b"" if piece.kind == "reasoning" else self._unseen()
        if self._open != (kind, piece.call):
            started += self._start(kind, piece.call)
        self._said.append(piece.text)
        if kind == "hidden":
            return started
        return started + self._event(f"{GROWING[kind][0]}.delta", delta=piece.text, **self._place())

    def closing(self) -> list[bytes]:
        """The end of the open item, and the event that says how it all ended."""
        stop = self._stop() + self._unseen()
        said = writing.usage(self._answer.usage)
        response = {
            **writing.started(self._body, self._answer),
            **writing.ending(self._answer),
            "output": self._items,
            "usage": said,
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

    def _shown(self, kind: str) -> str:
        if kind != "reasoning":
            return kind
        if writing.shows_text(self._body):
            return "open"
        return "summary" if writing.shows_summary(self._body) else "hidden"

    def _event(self, kind: str, **said: Any) -> bytes:
        self._n += 1
        return named_event(kind, {"type": kind, "sequence_number": self._n, **said})

    def _place(self) -> dict[str, Any]:
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
        self._said = []
        if not in_message:
            before += self._added()
        return before + self._start_part(kind)

    def _added(self) -> bytes:
        item = self._item("in_progress")
        return self._event("response.output_item.added", output_index=len(self._items), item=item)

    def _start_part(self, kind: str) -> bytes:
        if kind in ("content", "refusal"):
            self._parts.append(self._part())
            return self._event("response.content_part.added", part=self._part(), **self._spot())
        if kind == "summary":
            return self._event(
                "response.reasoning_summary_part.added",
                part={"type": "summary_text", "text": ""},
                **self._place(),
            )
        return b""

    def _spot(self) -> dict[str, Any]:
        place = self._place()
        place.pop("logprobs", None)
        return place

    def _part(self) -> dict[str, Any]:
        assert self._open is not None
        text = "".join(self._said)
        if self._open[0] == "refusal":
            return {"type": "refusal", "refusal": text}
        return writing.text_part(text)

    def _end_part(self) -> bytes:
        assert self._open is not None
        kind, text = self._open[0], "".join(self._said)
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
        self._open, self._parts, self._said = None, [], []
        return ended + done

    def _item(self, status: str) -> dict[str, Any]:
        """The open item, as far as it has come."""
        assert self._open is not None
        kind, call = self._open
        finished = status == "completed"
        if kind == "tool":
            arguments = "".join(self._said) if finished else ""
            return writing.function_call(self._answer, call, arguments, status)
        if kind in ("content", "refusal"):
            return writing.message(self._answer, list(self._parts) if finished else [], status)
        item = writing.reasoning(self._body, self._answer)
        return item if finished else {"id": item["id"], "type": "reasoning", "summary": []}
