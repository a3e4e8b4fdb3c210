"""Making up an answer: what the simulated model says, counted token by token."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from routing.simulator import prompt as asked
from routing.simulator.cache import NO_CACHE, CacheUse
from routing.simulator.logprobs import token_logprobs
from routing.simulator.prompt import Prompt
from routing.simulator.schema import example

WORDS = ("simulated", "words", "follow", "one", "another", "until", "all", "are", "said")
WORD = re.compile(r"\s*\S+|\s+")
ARGUMENT_PIECE_LENGTH = 12
FINGERPRINT = "fp_simulated"

Kind = Literal["reasoning", "content", "refusal", "tool"]


class Piece(NamedTuple):
    """One token's worth of output. `call` says which tool call a `tool` piece belongs to."""

    kind: Kind
    text: str
    call: int = 0


class ToolCall(NamedTuple):
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Answer:
    """One whole answer, before it is written as JSON or as a stream.

    `usage` and `finish_reason` are the chat format's, `stop_sequence` is the one that was met,
    `redacted` is reasoning that nobody may read. `answers` are scripted ones of decisions, and
    `verdicts` what the others follow, both by the questions' names.
    """

    id: str
    created: int
    model: str
    pieces: list[Piece]
    calls: list[ToolCall]
    finish_reason: str | None
    usage: Any
    service_tier: str | None = None
    logprobs: Any = None
    stop_sequence: str | None = None
    redacted: str | None = None
    answers: dict[str, Any] | None = None
    verdicts: dict[str, Any] | None = None

    def text(self, kind: Kind, call: int = 0) -> str:
        return "".join(p.text for p in self.pieces if p.kind == kind and p.call == call)


class Identity(NamedTuple):
    """What makes one answer differ from the next under the same seed."""

    id: str
    created: int


def words(text: str) -> list[str]:
    """Split a text into tokens: a word with the space before it."""
    return WORD.findall(text)


def compose(
    body: dict[str, Any],
    identity: Identity,
    override: dict[str, Any],
    cache: CacheUse = NO_CACHE,
) -> Answer:
    """Answer a request in the chat shape. `override` replaces parts of what would have been said.

    Keys of `override`: text, reasoning, redacted, refusal, tool_calls (name and arguments),
    finish_reason, usage (null leaves it out), logprobs, model, id, answers, verdicts. An overridden
    text is said whole.
    """
    prompt = asked.read_prompt(body["messages"])
    calls = _calls(body, prompt, identity, override)
    text, stop_sequence = _text(body, prompt, calls, override)
    pieces = _pieces(body, prompt, calls, text, override)
    pieces, finish_reason = _limited(body, pieces, calls, override)
    tier = body.get("service_tier")
    return Answer(
        id=override.get("id", identity.id),
        created=identity.created,
        model=override.get("model", str(body.get("model"))),
        pieces=pieces,
        calls=calls,
        finish_reason=override.get("finish_reason", finish_reason),
        usage=override["usage"] if "usage" in override else count(prompt, pieces, cache),
        service_tier="default" if tier == "auto" else tier,
        logprobs=_logprobs(body, prompt, pieces, override),
        stop_sequence=stop_sequence if finish_reason == "stop" else None,
        redacted=override.get("redacted"),
        answers=override.get("answers"),
        verdicts=override.get("verdicts"),
    )


def count(prompt: Prompt, pieces: list[Piece], cache: CacheUse = NO_CACHE) -> dict[str, Any]:
    """Usage as the chat-completions format reports it; reasoning is part of the completion."""
    reasoning = sum(1 for piece in pieces if piece.kind == "reasoning")
    details = {"cached_tokens": cache.read}
    if cache.written:
        details["cache_write_tokens"] = cache.written
    return {
        "prompt_tokens": prompt.tokens,
        "completion_tokens": len(pieces),
        "total_tokens": prompt.tokens + len(pieces),
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def reply_text(body: dict[str, Any], prompt: Prompt) -> str:
    """What the model says when nothing was scripted and no tool is called."""
    shape = body.get("response_format")
    kind = shape.get("type") if isinstance(shape, dict) else None
    if kind == "json_schema":
        schema = (shape.get("json_schema") or {}).get("schema") or {} if shape else {}
        return json.dumps(example(schema, optional=True))
    said = f"Simulated answer to: {prompt.user_text[:60]}"
    if kind == "json_object":
        return json.dumps({"answer": said}, ensure_ascii=False)
    if asked.is_clock(body) and prompt.last_role == "tool":
        return f"Simulated answer by the clock: {prompt.tool_text[:100]}"
    wanted = asked.wanted_words(prompt.user_text)
    if wanted is None:
        return said
    return " ".join(WORDS[n % len(WORDS)] for n in range(wanted))


def _calls(
    body: dict[str, Any], prompt: Prompt, identity: Identity, override: dict[str, Any]
) -> list[ToolCall]:
    if "tool_calls" in override:
        wanted = [
            (str(c["name"]), _as_text(c.get("arguments", {}))) for c in override["tool_calls"]
        ]
    elif "text" in override or "refusal" in override:
        wanted = []
    else:
        wanted = [
            (str(tool.get("name")), json.dumps(example(tool.get("parameters") or {}) or {}))
            for tool in asked.wanted_tools(body, prompt)
        ]
    stem = identity.id.rpartition("-")[2]
    return [ToolCall(f"call_{stem}_{n}", name, text) for n, (name, text) in enumerate(wanted)]


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _text(
    body: dict[str, Any], prompt: Prompt, calls: list[ToolCall], override: dict[str, Any]
) -> tuple[str, str | None]:
    """What is said beside everything else, and the stop sequence that ended it."""
    given = override.get("text")
    if given is not None or calls or "refusal" in override:
        return given or "", None
    return _stopped(reply_text(body, prompt), asked.stop_sequences(body))


def _pieces(
    body: dict[str, Any],
    prompt: Prompt,
    calls: list[ToolCall],
    text: str,
    override: dict[str, Any],
) -> list[Piece]:
    thought = override.get("reasoning")
    if thought is None and asked.wants_reasoning(body):
        thought = f"Simulated reasoning about: {prompt.user_text[:60]}"
    pieces = [Piece("reasoning", word) for word in words(thought or "")]
    pieces += [Piece("refusal", word) for word in words(override.get("refusal") or "")]
    pieces += [Piece("content", word) for word in words(text)]
    for index, call in enumerate(calls):
        pieces += [
            Piece("tool", call.arguments[at : at + ARGUMENT_PIECE_LENGTH], index)
            for at in range(0, len(call.arguments), ARGUMENT_PIECE_LENGTH)
        ]
    return pieces


def _stopped(text: str, sequences: list[str]) -> tuple[str, str | None]:
    met = [(text.find(sequence), sequence) for sequence in sequences if sequence in text]
    if not met:
        return text, None
    end, sequence = min(met)
    return text[:end], sequence


def _limited(
    body: dict[str, Any], pieces: list[Piece], calls: list[ToolCall], override: dict[str, Any]
) -> tuple[list[Piece], str]:
    limit = asked.token_limit(body)
    scripted = "text" in override or "tool_calls" in override
    if limit is not None and len(pieces) > limit and not scripted:
        return pieces[:limit], "length"
    return pieces, "tool_calls" if calls else "stop"


def _logprobs(
    body: dict[str, Any], prompt: Prompt, pieces: list[Piece], override: dict[str, Any]
) -> Any:
    if "logprobs" in override:
        return override["logprobs"]
    if body.get("logprobs") is not True:
        return None
    top = body.get("top_logprobs")
    top = top if isinstance(top, int) else 0
    said = (piece.text for piece in pieces if piece.kind == "content")
    return {"content": [token_logprobs(t, top, prompt.user_text) for t in said], "refusal": None}
