"""Chat completions, the format the others are read into."""

from collections.abc import Mapping

from routing.simulator.answer import FINGERPRINT, SimulatedAnswer
from routing.simulator.encoding import JsonObject, dumps, encode_text
from routing.simulator.formats.base import Complaint, SimulatedStream
from routing.simulator.prompt import NO_CACHE, CacheUse, PromptCache

DONE = b"data: [DONE]\n\n"
ROLE = {"role": "assistant", "content": "", "refusal": None}


def write_chunk(value: object) -> bytes:
    """One server-sent event."""
    return encode_text(f"data: {dumps(value)}\n\n")


def build_completion(answer: SimulatedAnswer) -> JsonObject:
    """The answer as a `chat.completion` object. A usage of None is left out."""
    document: JsonObject = {
        "id": answer.id,
        "object": "chat.completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [
            {
                "index": 0,
                "message": build_message(answer),
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


def build_message(answer: SimulatedAnswer) -> JsonObject:
    message: JsonObject = {
        "role": "assistant",
        "content": answer.text("content"),
        "refusal": answer.text("refusal") or None,
    }
    if not message["content"] and (answer.calls or message["refusal"]):
        message["content"] = None
    reasoning = answer.text("reasoning")
    if reasoning:
        message["reasoning_content"] = reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": answer.text("tool", index)},
            }
            for index, call in enumerate(answer.calls)
        ]
    return message


class ChunkWriter:
    """Writes `chat.completion.chunk` events that share everything but the delta."""

    def __init__(self, answer: SimulatedAnswer, *, include_usage: bool) -> None:
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
        self, delta: JsonObject, finish_reason: str | None = None, logprobs: object = None
    ) -> bytes:
        choice = f'{{"index":0,"delta":{dumps(delta)},"logprobs":{dumps(logprobs)}'
        finish = dumps(finish_reason)
        return encode_text(
            f'{self._start},"choices":[{choice},"finish_reason":{finish}}}]{self._end}'
        )

    def text(self, text: str) -> bytes:
        """A content chunk, by the shortest way: most of a stream is made of these."""
        return encode_text(
            f'{self._start},"choices":[{{"index":0,"delta":{{"content":{dumps(text)}}},'
            f'"logprobs":null,"finish_reason":null}}]{self._end}'
        )

    def usage(self, usage: object) -> bytes:
        return encode_text(f'{self._start},"choices":[],"usage":{dumps(usage)}}}\n\n')


def build_stream(answer: SimulatedAnswer, *, include_usage: bool) -> SimulatedStream:
    """The answer as server-sent events. A usage of None is left out even when asked for."""
    writer = ChunkWriter(answer, include_usage=include_usage)
    return SimulatedStream(
        opening=writer.delta(ROLE),
        content=_write_content(answer, writer),
        closing=write_closing(answer, writer, include_usage=include_usage),
        done=DONE,
    )


def write_closing(
    answer: SimulatedAnswer, writer: ChunkWriter, *, include_usage: bool
) -> list[bytes]:
    """The finish reason, and the usage where it was asked for and is known."""
    events = [writer.delta({}, finish_reason=answer.finish_reason)]
    if include_usage and answer.usage is not None:
        events.append(writer.usage(answer.usage))
    return events


def _write_content(answer: SimulatedAnswer, writer: ChunkWriter) -> list[bytes]:
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
                call = answer.calls[index]
                named = {"id": call.id, "type": "function"}
                function = {"name": call.name, "arguments": ""}
                start = {"index": index, **named, "function": function}
                events.append(writer.delta({"tool_calls": [start]}))
            fragment = {"index": index, "function": {"arguments": text}}
            events.append(writer.delta({"tool_calls": [fragment]}))
        else:
            name = "reasoning_content" if kind == "reasoning" else kind
            events.append(writer.delta({name: text}))
    return events


UNREADABLE = "The body must be a JSON object with a list of messages."
FAILURE = {"error": {"message": "Simulated failure inside the stream.", "code": 502}}


def build_error(complaint: Complaint) -> JsonObject:
    """An error as the chat-completions format writes it."""
    _, message, kind, code, param = complaint
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ChatSpeaker:
    def __init__(self, body: JsonObject, answer: SimulatedAnswer) -> None:
        self._answer = answer
        self._include_usage = needs_usage(body)
        self._writer = ChunkWriter(answer, include_usage=self._include_usage)
        self.done = DONE

    def opening(self) -> bytes:
        return self._writer.delta(ROLE)

    def text(self, text: str) -> bytes:
        return self._writer.text(text)

    def finish(self, finish_reason: str | None) -> list[bytes]:
        self._answer.finish_reason = finish_reason
        return write_closing(self._answer, self._writer, include_usage=self._include_usage)

    def failure(self, message: str) -> bytes:
        return write_chunk({"error": {"message": message, "code": 502}})


class SimulatedChat:
    name = "chat"
    speaker = ChatSpeaker
    event = staticmethod(write_chunk)
    error = staticmethod(build_error)

    def read_request(self, body: JsonObject) -> JsonObject:
        return body

    def complaint(self, headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
        return None if isinstance(body.get("messages"), list) else Complaint(400, UNREADABLE)

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        return NO_CACHE

    def document(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return build_completion(answer)

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        return build_stream(answer, include_usage=needs_usage(body))

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        document = {**build_completion(answer), "choices": []}
        chunk = write_chunk({**document, "object": "chat.completion.chunk"})
        return document, [chunk, DONE]

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        return FAILURE


def needs_usage(body: JsonObject) -> bool:
    settings = body.get("stream_options")
    return isinstance(settings, dict) and settings.get("include_usage") is True
