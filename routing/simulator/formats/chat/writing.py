"""Writing an answer as one `chat.completion` document or as server-sent events."""

from typing import Any

from routing.simulator.encoding import dumps, encoded
from routing.simulator.formats.base import Stream
from routing.simulator.wire import FINGERPRINT, Answer

DONE = b"data: [DONE]\n\n"
ROLE = {"role": "assistant", "content": "", "refusal": None}


def event(value: Any) -> bytes:
    """One server-sent event."""
    return encoded(f"data: {dumps(value)}\n\n")


def completion(answer: Answer) -> dict[str, Any]:
    """The answer as a `chat.completion` object. A usage of None is left out."""
    document: dict[str, Any] = {
        "id": answer.id,
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [
            {
                "index": 0,
                "message": message(answer),
                "logprobs": answer.logprobs,
                "finish_reason": answer.finish_reason,
            }
        ],
        "system_fingerprint": FINGERPRINT,
    }
    if answer.usage is not None:
        document["usage"] = answer.usage
    if answer.service_tier is not None:
        document["service_tier"] = answer.service_tier
    return document


def message(answer: Answer) -> dict[str, Any]:
    said: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text("content"),
        "refusal": answer.text("refusal") or None,
    }
    if not said["content"] and (answer.calls or said["refusal"]):
        said["content"] = None
    reasoning = answer.text("reasoning")
    if reasoning:
        said["reasoning_content"] = reasoning
    if answer.calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": answer.text("tool", index)},
            }
            for index, call in enumerate(answer.calls)
        ]
    return said


class ChunkWriter:
    """Writes `chat.completion.chunk` events that share everything but the delta."""

    def __init__(self, answer: Answer, *, include_usage: bool) -> None:
        common = {
            "id": answer.id,
            "object": "chat.completion.chunk",
            "created": answer.created,
            "model": answer.model,
            "system_fingerprint": FINGERPRINT,
        }
        if answer.service_tier is not None:
            common["service_tier"] = answer.service_tier
        self._start = "data: " + dumps(common)[:-1]
        self._end = ',"usage":null}\n\n' if include_usage else "}\n\n"

    def delta(
        self, delta: dict[str, Any], finish_reason: str | None = None, logprobs: Any = None
    ) -> bytes:
        choice = f'{{"index":0,"delta":{dumps(delta)},"logprobs":{dumps(logprobs)}'
        finish = dumps(finish_reason)
        return encoded(f'{self._start},"choices":[{choice},"finish_reason":{finish}}}]{self._end}')

    def text(self, text: str) -> bytes:
        """A content chunk, by the shortest way: most of a stream is made of these."""
        return encoded(
            f'{self._start},"choices":[{{"index":0,"delta":{{"content":{dumps(text)}}},'
            f'"logprobs":null,"finish_reason":null}}]{self._end}'
        )

    def usage(self, usage: Any) -> bytes:
        return encoded(f'{self._start},"choices":[],"usage":{dumps(usage)}}}\n\n')


def stream(answer: Answer, *, include_usage: bool) -> Stream:
    """The answer as server-sent events. A usage of None is left out even when asked for."""
    writer = ChunkWriter(answer, include_usage=include_usage)
    return Stream(
        opening=writer.delta(ROLE),
        content=_content(answer, writer),
        closing=closing(answer, writer, include_usage=include_usage),
        done=DONE,
    )


def closing(answer: Answer, writer: ChunkWriter, *, include_usage: bool) -> list[bytes]:
    """The finish reason, and the usage where it was asked for and is known."""
    events = [writer.delta({}, finish_reason=answer.finish_reason)]
    if include_usage and answer.usage is not None:
        events.append(writer.usage(answer.usage))
    return events


def _content(answer: Answer, writer: ChunkWriter) -> list[bytes]:
    tokens = iter((answer.logprobs or {}).get("content") or [])
    started: set[int] = set()
    events = []
    for kind, text, index in answer.pieces:
        if kind == "content" and answer.logprobs is None:
            events.append(writer.text(text))
        elif kind == "content":
            token = next(tokens, None)
            scored = {"content": [token] if token else [], "refusal": None}
            events.append(writer.delta({"content": text}, logprobs=scored))
        elif kind == "tool":
            if index not in started:
                started.add(index)
                events.append(writer.delta(_call_start(answer, index)))
            fragment = {"index": index, "function": {"arguments": text}}
            events.append(writer.delta({"tool_calls": [fragment]}))
        else:
            name = "reasoning_content" if kind == "reasoning" else kind
            events.append(writer.delta({name: text}))
    return events


def _call_start(answer: Answer, index: int) -> dict[str, Any]:
    call = answer.calls[index]
    function = {"name": call.name, "arguments": ""}
    return {
        "tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]
    }
