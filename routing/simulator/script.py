"""Scripts: what a persona answers next, gates that hold an answer back, verdicts on questions."""

import asyncio
import json
from collections import defaultdict, deque
from dataclasses import dataclass, field, fields
from typing import Any

from routing.simulator.encoding import JsonObject
from routing.simulator.faults import FAULTS
from routing.simulator.judging import (
    Choices,
    ScriptedVerdict,
    as_text,
    build_scored_token,
    find_weights,
    rank_tokens,
    read_choices,
)
from routing.simulator.prompt import read_prompt, read_token_limit

OVERRIDES = frozenset(
    {
        "text",
        "reasoning",
        "redacted",
        "refusal",
        "tool_calls",
        "finish_reason",
        "usage",
        "logprobs",
        "model",
        "answers",
    }
)
CUTS = ("close", "reset")


class ScriptError(Exception):
    """A script that cannot be played, said in one sentence."""


@dataclass(slots=True, kw_only=True)
class ScriptStep:
    """What one request gets: a fault, a fixed answer, events, or an overridden answer."""

    delay_s: float = 0.0
    gate: str | None = None
    fault: str | None = None
    options: JsonObject = field(default_factory=dict)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None
    body: str | None = None
    content_type: str | None = None
    events: list[str | JsonObject] | None = None
    override: JsonObject = field(default_factory=dict)

    @property
    def is_fixed(self) -> bool:
        """Whether the answer is a status and a body that are spelled out."""
        spelled_out = self.body is not None or self.json is not None
        return spelled_out or (self.status is not None and not self.override)

    @property
    def names_the_answer(self) -> bool:
        """Whether the step leaves no room for a fault that the model name asks for."""
        return self.fault is not None or self.events is not None or self.is_fixed


NUMBER = (int, float)
STEP_TYPES: dict[str, type | tuple[type, ...]] = {
    "delay_s": NUMBER,
    "gate": str,
    "fault": str,
    "options": dict,
    "status": int,
    "headers": dict,
    "body": str,
    "content_type": str,
    "events": list,
    "tool_calls": list,
    "answers": dict,
}
EVENT_TYPES: dict[str, type | tuple[type, ...]] = {
    "json": object,
    "text": str,
    "finish": (str, type(None)),
    "failure": str,
    "pause_s": NUMBER,
    "gate": str,
    "cut": str,
}
STEP_KEYS = frozenset(f.name for f in fields(ScriptStep)) - {"override"}
EMPTY_STEP = ScriptStep()


def read_step(given: object) -> ScriptStep:
    """Turn one JSON step into a Step. Raises ScriptError."""
    if not isinstance(given, dict):
        raise ScriptError("a step is a JSON object")
    unknown = sorted(given.keys() - STEP_KEYS - OVERRIDES)
    if unknown:
        raise ScriptError(f"unknown step keys: {', '.join(unknown)}")
    _check_types(given, STEP_TYPES)
    if "fault" in given and given["fault"] not in FAULTS:
        raise ScriptError(f"unknown fault: {given['fault']}")
    for item in given.get("events", []):
        if isinstance(item, str):
            continue
        if not isinstance(item, dict) or len(item) != 1 or not item.keys() <= EVENT_TYPES.keys():
            problem = f"an event is a string or an object with one of {sorted(EVENT_TYPES)}"
            raise ScriptError(problem)
        _check_types(item, EVENT_TYPES)
        if item.get("cut", "close") not in CUTS:
            raise ScriptError("cut is close or reset")
    override = {key: value for key, value in given.items() if key in OVERRIDES}
    return ScriptStep(override=override, **{k: v for k, v in given.items() if k in STEP_KEYS})


def _check_types(given: JsonObject, types: dict[str, type | tuple[type, ...]]) -> None:
    for key, wanted in types.items():
        if key in given and not isinstance(given[key], wanted):
            raise ScriptError(f"{key} has the wrong type")


class Scripts:
    """The steps still to play, by persona. Each request takes one, in order of arrival."""

    def __init__(self) -> None:
        self._steps: dict[str, deque[ScriptStep]] = {}
        self._repeating: set[str] = set()

    def put(self, persona: str, script: object) -> int:
        """Replace a persona's script. Returns the number of steps. Raises ScriptError."""
        if not isinstance(script, dict) or not isinstance(script.get("steps"), list):
            raise ScriptError('a script is {"steps": [...], "repeat": false}')
        steps = deque(read_step(step) for step in script["steps"])
        self.clear(persona)
        if steps:
            self._steps[persona] = steps
        if script.get("repeat"):
            self._repeating.add(persona)
        return len(steps)

    def take(self, persona: str) -> ScriptStep | None:
        """The step for the request that just came, or None for the normal behaviour."""
        steps = self._steps.get(persona)
        if steps is None:
            return None
        if len(steps) == 1 and persona in self._repeating:
            return steps[0]
        step = steps.popleft()
        if not steps:
            del self._steps[persona]
        return step

    def clear(self, persona: str | None = None) -> None:
        """Forget one persona's script, or all."""
        if persona is None:
            self._steps.clear()
            self._repeating.clear()
        else:
            self._steps.pop(persona, None)
            self._repeating.discard(persona)


class Gates:
    """Named gates. A gate stays open once opened, so it does not matter who comes first."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._waiting: dict[str, int] = defaultdict(int)
        self._reached: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def wait(self, name: str) -> None:
        self._waiting[name] += 1
        self._reached[name].set()
        try:
            await self._open[name].wait()
        finally:
            self._waiting[name] -= 1

    async def wait_until_reached(self, name: str, timeout_s: float) -> None:
        """Wait until some answer has come to the gate, or time runs out."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._reached[name].wait()
        except TimeoutError:
            return

    def open(self, name: str) -> None:
        self._open[name].set()

    def clear(self) -> None:
        """Forget all gates, letting through whoever waits."""
        for event in self._open.values():
            event.set()
        self._open.clear()
        self._reached.clear()

    def serialize(self, name: str) -> JsonObject:
        return {
            "name": name,
            "open": name in self._open and self._open[name].is_set(),
            "reached": name in self._reached and self._reached[name].is_set(),
            "waiting": self._waiting.get(name, 0),
        }


VERDICT_KEYS = frozenset({"when", "weights", "tokens", "answer"})


def read_verdict(given: object) -> ScriptedVerdict:
    """Raises ScriptError."""
    if not isinstance(given, dict) or not isinstance(given.get("when", ""), str):
        raise ScriptError("a verdict is a JSON object whose `when` is a text")
    weights, tokens = given.get("weights"), given.get("tokens")
    values = weights.values() if isinstance(weights, dict) else ()
    is_fit = all(isinstance(each, (int, float)) and each >= 0 for each in values)
    if not is_fit or not isinstance(weights, dict | None):
        raise ScriptError("weights are numbers by option, 0 or more")
    if not (tokens is None or (isinstance(tokens, list) and tokens and all(map(_is_pair, tokens)))):
        raise ScriptError("tokens are pairs of a token and its log-probability")
    rest = {key: value for key, value in given.items() if key not in VERDICT_KEYS}
    return ScriptedVerdict(
        when=given.get("when", ""),
        weights=weights,
        tokens=tokens and [(token, value) for token, value in tokens],
        answer=given.get("answer"),
        step=read_step(rest) if rest else None,
    )


def _is_pair(given: object) -> bool:
    if not isinstance(given, list) or len(given) != 2:
        return False
    return isinstance(given[0], str) and isinstance(given[1], (int, float))


class Verdicts:
    """By persona; of several the first that fits a question counts."""

    def __init__(self) -> None:
        self._by_persona: dict[str, list[ScriptedVerdict]] = {}

    def put(self, persona: str, given: object) -> int:
        """Replace a persona's. Returns their number. Raises ScriptError."""
        if not isinstance(given, dict) or not isinstance(given.get("verdicts"), list):
            raise ScriptError('verdicts are {"verdicts": [...]}')
        self._by_persona[persona] = [read_verdict(each) for each in given["verdicts"]]
        return len(self._by_persona[persona])

    def clear(self, persona: str | None = None) -> None:
        if persona is None:
            self._by_persona.clear()
        else:
            self._by_persona.pop(persona, None)

    def find(self, persona: str, question: str) -> ScriptedVerdict | None:
        of_persona = self._by_persona.get(persona, ())
        return next((each for each in of_persona if each.when in question), None)

    def of_chat(self, persona: str, body: JsonObject) -> tuple[ScriptStep, JsonObject]:
        """What a chat that asks for one label, or for numbers by label, is answered with: the step
        to play and parts of the answer. Any other chat has neither."""
        is_label = body.get("logprobs") is True and read_token_limit(body) == 1
        if not is_label and not _read_number_properties(body):
            return EMPTY_STEP, {}
        choices = read_choices(read_prompt(body["messages"]).user_text)
        if choices is None:
            return EMPTY_STEP, {}
        verdict = self.find(persona, choices.question)
        step = verdict.step if verdict else None
        return step or EMPTY_STEP, _build_judgement(body, choices, verdict)

    def of_questions(self, persona: str, questions: object) -> tuple[ScriptStep, JsonObject]:
        """The same for decisions: the first step of any question's, a token for each question."""
        asked = questions if isinstance(questions, dict) else {}
        found = {
            name: verdict
            for name, question in asked.items()
            if (verdict := self.find(persona, as_text(question.get("instructions"))))
        }
        steps = (each.step for each in found.values() if each.step is not None)
        return next(steps, EMPTY_STEP), {"verdicts": found, "text": " ".join("1" for _ in asked)}


def _read_number_properties(body: JsonObject) -> JsonObject:
    """The properties of a schema that asks for numbers only."""
    shape = body.get("response_format")
    if not isinstance(shape, dict) or shape.get("type") != "json_schema":
        return {}
    schema = (shape.get("json_schema") or {}).get("schema") or {}
    properties = schema.get("properties") or {}
    only_numbers = all(
        isinstance(each, dict) and each.get("type") == "number" for each in properties.values()
    )
    return properties if only_numbers else {}


def _build_judgement(
    body: JsonObject, choices: Choices, verdict: ScriptedVerdict | None
) -> JsonObject:
    weights = find_weights(verdict, choices.question, choices)
    if properties := _read_number_properties(body):
        if not properties.keys() <= weights.keys():
            return {}
        total = sum(weights.values()) or 1.0
        return {"text": json.dumps({label: weights[label] / total for label in properties})}
    tokens = rank_tokens(weights)
    if verdict is not None and verdict.tokens is not None:
        tokens = verdict.tokens
    if not tokens:
        return {}
    top = body.get("top_logprobs")
    return {
        "text": tokens[0][0],
        "logprobs": build_scored_token(tokens, top if isinstance(top, int) else 0),
    }
