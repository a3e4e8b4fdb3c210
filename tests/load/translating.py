"""CPU of translating a conversation: `python -m tests.load.translating SECONDS`.

Parsing is orjson and the check of the caller's format. Translating is what else is done until the
bytes for an upstream of another format are there. Prints a `Translating` as JSON.
"""

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

from tests.load.apart import print_measured, timed_us
from tests.support.speakers import SPEAKERS

# Caller format and wire kind.
TRANSLATIONS: Final = (
    ("messages", "openai"),
    ("chat", "anthropic"),
    ("responses", "openai"),
    ("chat", "responses"),
)
_BATCH: Final = 4
_MODEL: Final = "bench"


BYTES_MIN: Final = 100_000
_WORDS: Final = ("weather", "of", "a", "city", "north", "river", "is", "told", "by", "tools")
_ARGUMENTS: Final = {"place": {"type": "string"}, "days": {"type": "integer"}}
_SCHEMA: Final = {"type": "object", "properties": _ARGUMENTS, "required": ["place"]}
_TOOLS: Final = [
    {"name": name, "description": f"Looks for {name} by place and day.", "parameters": _SCHEMA}
    for name in ("weather", "trains", "hotels")
]
# Characters of what a user, a model and a tool say in one turn, about as agents and tools do.
_ASKED, _THOUGHT, _FOUND, _ANSWERED = 300, 150, 1200, 600

Messages = list[dict[str, Any]]


def conversation(format: str) -> bytes:
    """A body of a little more than `BYTES_MIN` bytes."""
    speaker, random, history = SPEAKERS[format], Random(7), list[dict[str, Any]]()
    for number in count(1):
        if len(json.dumps(history)) >= BYTES_MIN:
            break
        call_id, arguments = f"call_{number}", {"place": _text(random, 40), "days": number % 9 + 1}
        history += speaker.user(_text(random, _ASKED))
        history += _SPOKEN[format](_text(random, _THOUGHT), call_id, arguments)
        history += speaker.results({call_id: _text(random, _FOUND)})
        history += _SPOKEN[format](_text(random, _ANSWERED), f"end_{number}", None)
    history += speaker.user("And now?")
    body = speaker.body("bench/any", history, tools=_TOOLS, system=_text(random, 600), cap=400)
    return json.dumps(body).encode()


def _text(random: Random, chars: int) -> str:
    said = ""
    while len(said) < chars:
        said += f" {random.choice(_WORDS)}"
    return said.strip()


def _chat(text: str, call_id: str, arguments: dict[str, Any] | None) -> Messages:
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if arguments is not None:
        called = {"name": "weather", "arguments": json.dumps(arguments)}
        said["tool_calls"] = [{"id": call_id, "type": "function", "function": called}]
    return [said]


def _messages(text: str, call_id: str, arguments: dict[str, Any] | None) -> Messages:
    blocks: Messages = [{"type": "text", "text": text}]
    if arguments is not None:
        called = {"type": "tool_use", "id": call_id, "name": "weather", "input": arguments}
        blocks.append(called)
    return [{"role": "assistant", "content": blocks}]


def _responses(text: str, call_id: str, arguments: dict[str, Any] | None) -> Messages:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"id": f"msg_{call_id}", "status": "completed", "content": content}
    items: Messages = [{"type": "message", "role": "assistant", **item}]
    if arguments is not None:
        called = {"name": "weather", "arguments": json.dumps(arguments), "status": "completed"}
        items.append({"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, **called})
    return items


_SPOKEN: Final = {"chat": _chat, "messages": _messages, "responses": _responses}


@dataclass(frozen=True)
class Translating:
    """Microseconds of CPU: `parsing_us` by caller format; `whole_us`, parsing and translating
    together, by `caller-wire`. `body_bytes` by caller format."""

    body_bytes: dict[str, int]
    parsing_us: dict[str, float]
    whole_us: dict[str, float]

    def translating_us(self, caller: str, wire: str) -> float:
        return self.whole_us[f"{caller}-{wire}"] - self.parsing_us[caller]


def translator_of(caller: str, wire: str) -> Callable[[bytes], bytes]:
    """From a caller's body to the body for an upstream of that wire kind."""
    import orjson

    from routing.entities.exchange import Prompt, Terms
    from routing.formats.chat.format import CHAT
    from routing.formats.chat.forward import build_forwarded_body
    from routing.formats.messages.format import MESSAGES
    from routing.formats.responses.format import RESPONSES
    from routing.upstreams.wires import get_wire

    (format,) = (each for each in (CHAT, MESSAGES, RESPONSES) if each.name == caller)
    supported = frozenset({"temperature", "max_tokens", "tools", "tool_choice"})
    terms = Terms(_MODEL, supported, None, None, output_cap=None, output_default=4096)
    adapter = get_wire(wire)

    def translate(data: bytes) -> bytes:
        # As `routing.serving.attempts.upstream_call` does it.
        chat = format.parse(orjson.loads(data), session_header=None, models_max=3)
        body = chat.body
        if wire == "openai":
            body = build_forwarded_body(
                chat,
                upstream_model=_MODEL,
                supported=supported,
                user_hash=None,
                stream_usage=True,
                max_tokens_cap=None,
            )
        prompt = Prompt(body, None, chat.stream, chat.max_output_tokens, None, None, False)
        return adapter.request(prompt, terms).body

    return translate


def parsers() -> dict[str, Callable[[bytes], object]]:
    """Each parses a body and does what its format does with it before it translates."""
    import orjson

    from routing.formats.chat.request import parse_chat
    from routing.formats.messages.read import find_orphan_issues as orphan_results
    from routing.formats.messages.schema import check_messages
    from routing.formats.messages.schema import find_messages_issues as messages_issues
    from routing.formats.responses import schema as rules
    from routing.formats.responses.schema import check_responses

    def messages(data: bytes) -> object:
        body = orjson.loads(data)
        return messages_issues(check_messages(body)[1], 3), list(orphan_results(body["messages"]))

    def responses(data: bytes) -> object:
        body = orjson.loads(data)
        check_responses(body)
        return rules.find_responses_issues(body), rules.find_orphan_issues(body["input"])

    def chat(data: bytes) -> object:
        return parse_chat(orjson.loads(data), session_header=None)

    return {"chat": chat, "messages": messages, "responses": responses}


def measure_translating(seconds: float) -> Translating:
    """Everything in turn."""
    bodies = {caller: conversation(caller) for caller in SPEAKERS}
    works: dict[str, Callable[[], object]] = {
        caller: partial(parse, bodies[caller]) for caller, parse in parsers().items()
    }
    for caller, wire in TRANSLATIONS:
        works[f"{caller}-{wire}"] = partial(translator_of(caller, wire), bodies[caller])

    def time_works(share: float) -> dict[str, float]:
        one_s = share * seconds / len(works)
        return {name: timed_us(work, seconds=one_s, batch=_BATCH) for name, work in works.items()}

    time_works(0.1)
    # As a web worker does once it has loaded (`gateway.server.worker`).
    gc.collect()
    gc.freeze()
    found_us = time_works(1)
    return Translating(
        {caller: len(body) for caller, body in bodies.items()},
        {name: us for name, us in found_us.items() if name in bodies},
        {name: us for name, us in found_us.items() if name not in bodies},
    )


if __name__ == "__main__":
    print_measured(measure_translating)
