"""Verdicts: how the simulated model judges what it is asked, so that tests know the truth."""

import json
from collections.abc import Mapping
from typing import Any

from routing.simulator.judging import Verdict, as_text, weights_for
from routing.simulator.options import Choices, choices_in, scored, shares_of, tokens_of
from routing.simulator.prompt import read_prompt, token_limit
from routing.simulator.script import EMPTY_STEP, ScriptError, Step, read_step

VERDICT_KEYS = frozenset({"when", "weights", "tokens", "answer"})


def read_verdict(given: Any) -> Verdict:
    """Raises ScriptError."""
    if not isinstance(given, dict) or not isinstance(given.get("when", ""), str):
        raise ScriptError("a verdict is a JSON object whose `when` is a text")
    weights, tokens = given.get("weights"), given.get("tokens")
    if not (weights is None or (isinstance(weights, dict) and _are_weights(weights))):
        raise ScriptError("weights are numbers by option, 0 or more")
    if not (tokens is None or (isinstance(tokens, list) and tokens and all(map(_is_pair, tokens)))):
        raise ScriptError("tokens are pairs of a token and its log-probability")
    rest = {key: value for key, value in given.items() if key not in VERDICT_KEYS}
    return Verdict(
        when=given.get("when", ""),
        weights=weights,
        tokens=tokens and [(token, value) for token, value in tokens],
        answer=given.get("answer"),
        step=read_step(rest) if rest else None,
    )


def _are_weights(weights: Mapping[str, Any]) -> bool:
    return all(isinstance(each, (int, float)) and each >= 0 for each in weights.values())


def _is_pair(given: Any) -> bool:
    if not isinstance(given, list) or len(given) != 2:
        return False
    return isinstance(given[0], str) and isinstance(given[1], (int, float))


class Verdicts:
    """By persona; of several the first that fits a question counts."""

    def __init__(self) -> None:
        self._by_persona: dict[str, list[Verdict]] = {}

    def put(self, persona: str, given: Any) -> int:
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

    def find(self, persona: str, question: str) -> Verdict | None:
        of_persona = self._by_persona.get(persona, ())
        return next((each for each in of_persona if each.when in question), None)

    def of_chat(self, persona: str, body: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
        """What a chat that asks for one label, or for numbers by label, is answered with: the step
        to play and parts of the answer. Any other chat has neither."""
        if not _asks_for_a_judgement(body):
            return EMPTY_STEP, {}
        choices = choices_in(read_prompt(body["messages"]).user_text)
        if choices is None:
            return EMPTY_STEP, {}
        verdict = self.find(persona, choices.question)
        step = verdict.step if verdict else None
        return step or EMPTY_STEP, _judged(body, choices, verdict)

    def of_questions(self, persona: str, questions: Any) -> tuple[Step, dict[str, Any]]:
        """The same for decisions: the first step of any question's, a token for each question."""
        asked = questions if isinstance(questions, dict) else {}
        found = {
            name: verdict
            for name, question in asked.items()
            if (verdict := self.find(persona, as_text(question.get("instructions"))))
        }
        steps = (each.step for each in found.values() if each.step is not None)
        return next(steps, EMPTY_STEP), {"verdicts": found, "text": " ".join("1" for _ in asked)}


def _asks_for_a_judgement(body: dict[str, Any]) -> bool:
    return (body.get("logprobs") is True and token_limit(body) == 1) or _properties(body) != {}


def _properties(body: dict[str, Any]) -> dict[str, Any]:
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


def _judged(body: dict[str, Any], choices: Choices, verdict: Verdict | None) -> dict[str, Any]:
    weights = weights_for(verdict, choices.question, choices)
    if properties := _properties(body):
        if not properties.keys() <= weights.keys():
            return {}
        total = sum(weights.values()) or 1.0
        return {"text": json.dumps({label: weights[label] / total for label in properties})}
    tokens = tokens_of(shares_of(weights))
    if verdict is not None and verdict.tokens is not None:
        tokens = verdict.tokens
    if not tokens:
        return {}
    top = body.get("top_logprobs")
    return {"text": tokens[0][0], "logprobs": scored(tokens, top if isinstance(top, int) else 0)}
