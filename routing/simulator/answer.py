"""Composes an answer: what the simulated model says, counted token by token."""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from routing.simulator import prompt as requests
from routing.simulator.encoding import JsonObject
from routing.simulator.judging import as_text, invent_logprobs
from routing.simulator.prompt import NO_CACHE, CacheUse, SimulatedPrompt

WORDS = ("simulated", "words", "follow", "one", "another", "until", "all", "are", "said")
WORD = re.compile(r"\s*\S+|\s+")
ARGUMENT_PIECE_LENGTH = 12
FINGERPRINT = "fp_simulated"

Kind = Literal["reasoning", "content", "refusal", "tool"]


class SimulatedPiece(NamedTuple):
    """One token's worth of output. `call` says which tool call a `tool` piece belongs to."""

    kind: Kind
    text: str
    call: int = 0


class SimulatedToolCall(NamedTuple):
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class SimulatedAnswer:
    """One whole answer, before it is written as JSON or as a stream.

    `usage` and `finish_reason` are the chat format's, `stop_sequence` is the one that was met,
    `redacted` is reasoning that nobody may read. `answers` are scripted ones of decisions, and
    `verdicts` what the others follow, both by the questions' names.
    """

    id: str
    created: int
    model: str
    pieces: list[SimulatedPiece]
    calls: list[SimulatedToolCall]
    finish_reason: str | None
    usage: Any
    service_tier: str | None = None
    logprobs: Any = None
    stop_sequence: str | None = None
    redacted: str | None = None
    answers: JsonObject | None = None
    verdicts: JsonObject | None = None

    def text(self, kind: Kind, call: int = 0) -> str:
        return "".join(p.text for p in self.pieces if p.kind == kind and p.call == call)


class AnswerSeed(NamedTuple):
    """What makes one answer differ from the next under the same seed."""

    id: str
    created: int


def split_words(text: str) -> list[str]:
    """Split a text into tokens: a word with the space before it."""
    return WORD.findall(text)


def compose_answer(
    body: JsonObject,
    identity: AnswerSeed,
    override: JsonObject,
    cache: CacheUse = NO_CACHE,
) -> SimulatedAnswer:
    """Answer a request in the chat shape. `override` replaces parts of what would have been said.

    Keys of `override`: text, reasoning, redacted, refusal, tool_calls (name and arguments),
    finish_reason, usage (null leaves it out), logprobs, model, id, answers, verdicts. An overridden
    text is written whole.
    """
    prompt = requests.read_prompt(body["messages"])
    calls = _compose_calls(body, prompt, identity, override)
    text, stop_sequence = _choose_text(body, prompt, calls, override)
    pieces = _cut_pieces(body, prompt, calls, text, override)
    finish_reason = "tool_calls" if calls else "stop"
    limit = requests.read_token_limit(body)
    is_scripted = "text" in override or "tool_calls" in override
    if limit is not None and len(pieces) > limit and not is_scripted:
        pieces, finish_reason = pieces[:limit], "length"
    tier = body.get("service_tier")
    return SimulatedAnswer(
        id=override.get("id", identity.id),
        created=identity.created,
        model=override.get("model", str(body.get("model"))),
        pieces=pieces,
        calls=calls,
        finish_reason=override.get("finish_reason", finish_reason),
        usage=override["usage"] if "usage" in override else build_usage(prompt, pieces, cache),
        service_tier="default" if tier == "auto" else tier,
        logprobs=_compose_logprobs(body, prompt, pieces, override),
        stop_sequence=stop_sequence if finish_reason == "stop" else None,
        redacted=override.get("redacted"),
        answers=override.get("answers"),
        verdicts=override.get("verdicts"),
    )


def build_usage(
    prompt: SimulatedPrompt, pieces: list[SimulatedPiece], cache: CacheUse = NO_CACHE
) -> JsonObject:
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


def compose_text(body: JsonObject, prompt: SimulatedPrompt) -> str:
    """What the model says when nothing was scripted and no tool is called."""
    shape = body.get("response_format")
    kind = shape.get("type") if isinstance(shape, dict) else None
    if kind == "json_schema":
        schema = (shape.get("json_schema") or {}).get("schema") or {} if shape else {}
        return json.dumps(build_example(schema, optional=True))
    said = f"Simulated answer to: {prompt.user_text[:60]}"
    if kind == "json_object":
        return json.dumps({"answer": said}, ensure_ascii=False)
    if requests.is_clock(body) and prompt.last_role == "tool":
        return f"Simulated answer by the clock: {prompt.tool_text[:100]}"
    wanted = requests.read_word_count(prompt.user_text)
    if wanted is None:
        return said
    return " ".join(WORDS[n % len(WORDS)] for n in range(wanted))


def _compose_calls(
    body: JsonObject, prompt: SimulatedPrompt, identity: AnswerSeed, override: JsonObject
) -> list[SimulatedToolCall]:
    if "tool_calls" in override:
        wanted = [
            (str(call["name"]), as_text(call.get("arguments", {})))
            for call in override["tool_calls"]
        ]
    elif "text" in override or "refusal" in override:
        wanted = []
    else:
        wanted = [
            (str(tool.get("name")), json.dumps(build_example(tool.get("parameters") or {}) or {}))
            for tool in requests.list_called_tools(body, prompt)
        ]
    stem = identity.id.rpartition("-")[2]
    return [
        SimulatedToolCall(f"call_{stem}_{n}", name, text) for n, (name, text) in enumerate(wanted)
    ]


def _choose_text(
    body: JsonObject,
    prompt: SimulatedPrompt,
    calls: list[SimulatedToolCall],
    override: JsonObject,
) -> tuple[str, str | None]:
    """What is written beside everything else, and the stop sequence that ended it."""
    given = override.get("text")
    if given is not None or calls or "refusal" in override:
        return given or "", None
    text = compose_text(body, prompt)
    met = [(text.find(stop), stop) for stop in requests.list_stop_sequences(body) if stop in text]
    if not met:
        return text, None
    end, sequence = min(met)
    return text[:end], sequence


def _cut_pieces(
    body: JsonObject,
    prompt: SimulatedPrompt,
    calls: list[SimulatedToolCall],
    text: str,
    override: JsonObject,
) -> list[SimulatedPiece]:
    thought = override.get("reasoning")
    if thought is None and requests.needs_reasoning(body):
        thought = f"Simulated reasoning about: {prompt.user_text[:60]}"
    pieces = [SimulatedPiece("reasoning", word) for word in split_words(thought or "")]
    pieces += [
        SimulatedPiece("refusal", word) for word in split_words(override.get("refusal") or "")
    ]
    pieces += [SimulatedPiece("content", word) for word in split_words(text)]
    for index, call in enumerate(calls):
        pieces += [
            SimulatedPiece("tool", call.arguments[at : at + ARGUMENT_PIECE_LENGTH], index)
            for at in range(0, len(call.arguments), ARGUMENT_PIECE_LENGTH)
        ]
    return pieces


def _compose_logprobs(
    body: JsonObject,
    prompt: SimulatedPrompt,
    pieces: list[SimulatedPiece],
    override: JsonObject,
) -> Any:
    if "logprobs" in override:
        return override["logprobs"]
    if body.get("logprobs") is not True:
        return None
    top = body.get("top_logprobs")
    top = top if isinstance(top, int) else 0
    said = (piece.text for piece in pieces if piece.kind == "content")
    return {"content": [invent_logprobs(t, top, prompt.user_text) for t in said], "refusal": None}


DEPTH_MAX = 12
OPTIONAL_DEPTH_MAX = 3
FORMATS = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "simulated@example.com",
    "uri": "https://example.com/simulated",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def build_example(schema: object, *, optional: bool = False) -> Any:
    """Build a value from a schema: required properties, and the optional ones when asked."""
    return _ExampleBuilder(schema, optional).build(schema, 0)


class _ExampleBuilder:
    def __init__(self, root: object, optional: bool) -> None:
        self._root = root
        self._optional = optional

    def build(self, schema: object, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            return None
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if schema.get(choice):
                return self.build(schema[choice][0], depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = kind[0] if kind else None
        if not isinstance(kind, str):
            kind = "object" if "properties" in schema or "required" in schema else "string"
        if kind == "object":
            properties = schema.get("properties") or {}
            names = list(schema.get("required") or [])
            if self._optional and depth < OPTIONAL_DEPTH_MAX:
                names += [name for name in properties if name not in names]
            return {name: self.build(properties.get(name, {}), depth + 1) for name in names}
        if kind == "array":
            length = max(schema.get("minItems", 1), 0)
            return [self.build(schema.get("items", {}), depth + 1) for _ in range(min(length, 100))]
        if kind == "string":
            text = FORMATS.get(schema.get("format", ""), "simulated")
            text = text.ljust(schema.get("minLength", 0), "x")
            return text[: schema["maxLength"]] if "maxLength" in schema else text
        if kind in ("integer", "number"):
            return _build_number(schema)
        return True if kind == "boolean" else None

    def _resolve(self, schema: JsonObject) -> JsonObject:
        """Follow one local `$ref` and lay the parts of `allOf` over each other."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            target = self._root
            for step in reference.lstrip("#/").split("/") if reference != "#" else []:
                target = target.get(step, {}) if isinstance(target, dict) else {}
            return target if isinstance(target, dict) else {}
        merged = dict(schema)
        for part in merged.pop("allOf", None) or []:
            part = self._resolve(part)
            properties = {**merged.get("properties", {}), **part.get("properties", {})}
            required = [*merged.get("required", []), *part.get("required", [])]
            merged = {**merged, **part, "properties": properties, "required": required}
        return merged


def _build_number(schema: JsonObject) -> float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + 1
    if low is not None:
        return float(low) if isinstance(low, float) and not low.is_integer() else int(low)
    return int(min(1, high)) if high is not None else 1
