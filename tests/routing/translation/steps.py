"""The steps of a call, as serving takes them: parse, ask upstream, read the answer, tell it."""

import json
from collections.abc import Iterator
from typing import Any

from gateway.http.jsonio import dumps
from routing.entities.exchange import Answer, Prompt, Terms
from routing.formats.caller import AnswerIdentity, CallerFormat, CompleteAnswer, Ending
from routing.formats.chat.answer import clean_delta, clean_message, has_content, normalize_finish
from routing.formats.chat.format import CHAT
from routing.formats.chat.forward import build_forwarded_body
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.upstreams.sse import SseParser
from routing.upstreams.wires import get_wire

FORMATS: dict[str, CallerFormat] = {format.wire: format for format in (CHAT, MESSAGES, RESPONSES)}
KINDS = list(FORMATS)
SUPPORTED = frozenset(
    {
        *("temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "tools"),
        *("tool_choice", "parallel_tool_calls", "response_format", "structured_outputs"),
        *("reasoning", "reasoning_effort", "include_reasoning"),
    }
)
SERVED = AnswerIdentity("gen-1760000000-abcdefghijklmnopqrst", 1_760_000_000, "acme/small", "Acme")
EVENT_BYTES_MAX = 1 << 20
USAGE: dict[str, Any] = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0, "video_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
    "cost": 0.25,
    "cost_details": {
        "upstream_inference_cost": None,
        "upstream_inference_prompt_cost": 0.125,
        "upstream_inference_completions_cost": 0.125,
    },
    "is_byok": False,
}


def parsed(kind: str, body: dict[str, Any]) -> ChatRequest:
    """A body in the format that a wire kind speaks, as its caller's request."""
    given = json.loads(json.dumps(body))
    return FORMATS[kind].parse(given, session_header=None, models_max=3)


def sent(kind: str, request: ChatRequest) -> dict[str, Any]:
    """What an upstream of the kind is sent by somebody who speaks another format."""
    body = request.body
    if kind == CHAT.wire:
        body = build_forwarded_body(
            request,
            upstream_model="up-1",
            supported=SUPPORTED,
            user_hash=None,
            stream_usage=True,
            max_tokens_cap=None,
        )
    asked = request.reasoning
    efforts = (asked.effort, asked.max_tokens) if asked else (None, None)
    prompt = Prompt(body, None, request.stream, request.max_output_tokens, *efforts, False)
    terms = Terms("up-1", SUPPORTED, None, "secret", None, 4096)
    made: dict[str, Any] = json.loads(get_wire(kind).request(prompt, terms).body)
    return made


def finish_of(native: str | None, message: dict[str, Any]) -> str:
    return normalize_finish(native, has_tool_calls=bool(message.get("tool_calls")))


def new_call_id() -> str:
    raise AssertionError("the upstream gave every call an id")


def read_whole(kind: str, body: bytes) -> Answer:
    return get_wire(kind).answer(body, "application/json")


def told_whole(format: CallerFormat, request: ChatRequest, answer: Answer) -> dict[str, Any]:
    """The body of a whole answer to a caller of another format than the upstream's."""
    message = clean_message(answer.message, exclude_reasoning=False, new_call_id=new_call_id)
    ending = ending_of(answer.native_finish, finish_of(answer.native_finish, message))
    whole = CompleteAnswer(SERVED, request, message, answer.logprobs, None, ending)
    told: dict[str, Any] = json.loads(dumps(format.write_answer(whole)))
    return told


def ending_of(native: str | None, finish: str) -> Ending:
    return Ending(finish, native, USAGE, None, None, None, None, None)


def told_stream(
    kind: str, format: CallerFormat, request: ChatRequest, stream: bytes
) -> tuple[bytes, str]:
    """The stream of an upstream as a caller of another format reads it, and how it ended."""
    writer, said = format.writer(SERVED, request), []
    native: str | None = None
    kinds: dict[str, Any] = {}
    started = False
    for delta, word in deltas_of(kind, stream):
        native = word or native
        clean = clean_delta(delta, exclude_reasoning=False, new_call_id=new_call_id)
        if not has_content(clean):
            continue
        kinds |= {name: True for name in ("tool_calls", "refusal") if clean.get(name)}
        if not started:
            started = True
            said.append(writer.write_opening())
        said.append(writer.delta(clean))
    finish = finish_of(native, kinds)
    said.append(writer.write_opening() if not started else b"")
    return b"".join(said) + writer.write_ending(ending_of(native, finish)), finish


def deltas_of(kind: str, stream: bytes) -> Iterator[tuple[dict[str, Any], str | None]]:
    reader, parser = get_wire(kind).reader(), SseParser(EVENT_BYTES_MAX)
    for payload in [*parser.feed(stream), *parser.finish()]:
        for event in reader.events(payload):
            assert event.error is None
            yield event.delta, event.native_finish
    assert reader.ended
