"""How the simulated model judges a question: its options, their weights, log-probabilities. And
what a moderation finds in a text."""

import json
import re
from dataclasses import dataclass
from math import log
from typing import Any
from zlib import crc32

from routing.simulator.encoding import JsonObject

# A label at the start of a line ("A) Paris"), as multiple-choice prompts list their options.
LABEL = re.compile(r"^\s*([A-Za-z0-9]{1,3})[).:]", re.MULTILINE)
# Of moderations: a text is of a category whose word stands in it.
CATEGORIES = ("harassment", "hate", "illicit", "self-harm", "sexual", "violence")
_FOUND, _NOT_FOUND = 0.9, 0.01
COMMON = ["yes", "no", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"0123456789"]
TOP_MAX = 20


def invent_logprobs(token: str, top: int, prompt_text: str) -> JsonObject:
    """One element of `logprobs.content`.

    The token itself has probability 0.5 to 0.75. Each alternative has half of what the one before
    it left over, so that the distribution never sums to more than one. Options the prompt labels
    come first among the alternatives.
    """
    share = 0.5 + crc32(token.encode("utf-8", "replace")) % 1000 / 4000
    first = _build_token(token, round(log(share), 6))
    ranked = [first]
    left = 1 - share
    others = dict.fromkeys([*LABEL.findall(prompt_text), *COMMON])
    others.pop(token, None)
    for alternative in list(others)[: min(top, TOP_MAX) - 1 if top else 0]:
        left /= 2
        ranked.append(_build_token(alternative, round(log(left), 6)))
    return {**first, "top_logprobs": ranked[:top]}


QUESTION = re.compile(r"^Question:", re.MULTILINE)
OPTION = re.compile(r"^([A-Za-z0-9]{1,3})\) (.*)$", re.MULTILINE)
GROUP = re.compile(r"^(?:\d+: )?(\{.*\}|\[.*\])$")
YES_OR_NO = re.compile(r"\byes or no\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choices:
    """What is asked, and the texts behind each label: several where a label stands for a group."""

    question: str
    texts: dict[str, list[str]]


def read_choices(prompt_text: str) -> Choices | None:
    """What the text after the last `Question:` offers; None where it offers nothing.

    An option is a line such as `A) refund`. One such as `A) 1: {"refund": null, "other": null}` or
    `0) ["calm", "cross"]` is a group of them.
    """
    *_, start = [0, *(found.start() for found in QUESTION.finditer(prompt_text))]
    question = prompt_text[start:]
    texts = {label: _read_members(text) for label, text in OPTION.findall(question)}
    if not texts and YES_OR_NO.search(question):
        texts = {"yes": [], "no": []}
    return Choices(question, texts) if texts else None


def _read_members(text: str) -> list[str]:
    found = GROUP.match(text)
    try:
        members = json.loads(found[1]) if found else [text]
    except ValueError:
        return [text]
    return [
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in members
    ]


def find_weight(label: str, texts: list[str], weights: dict[str, float]) -> float:
    """The weight that is given to a label itself, else the sum of what stands behind it."""
    if label in weights:
        return weights[label]
    total = 0.0
    for text in texts:
        # The key that is the text, or its beginning before a colon.
        fitting = [key for key in weights if text == key or text.startswith(f"{key}: ")]
        total += weights.get(max(fitting, key=len, default=""), 0.0)
    return total


def build_scored_token(tokens: list[tuple[str, float]], top: int) -> JsonObject:
    """The log-probabilities of a one-token answer: the first token given is the answer."""
    said = [_build_token(*each) for each in tokens]
    element = {**said[0], "top_logprobs": said[: min(top, TOP_MAX)]}
    return {"content": [element], "refusal": None}


def rank_tokens(weights: dict[str, float]) -> list[tuple[str, float]]:
    """Labels with their log-probabilities, likeliest first. What cannot be is not there. What sums
    to more than 1 is scaled down to it."""
    total = max(1.0, sum(weights.values()))
    ranked = sorted(weights.items(), key=lambda each: -each[1])
    return [(label, log(weight / total)) for label, weight in ranked if weight > 0]


def _build_token(token: str, logprob: float) -> JsonObject:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}


YES_NO = ("yes", "no")


@dataclass(frozen=True, slots=True)
class ScriptedVerdict:
    """The verdict where `when` occurs in a question.

    `weights` are probabilities by option, label, `yes` and `no`. `tokens` are pairs of a token and
    its log-probability, `answer` a native answer; both go out as they are. `step` is what is played
    where no script says otherwise.
    """

    when: str
    weights: dict[str, float] | None = None
    tokens: list[tuple[str, float]] | None = None
    answer: Any = None
    step: Any = None


def as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def find_weights(
    verdict: ScriptedVerdict | None, question: str, choices: Choices
) -> dict[str, float]:
    """By label: the verdict's, else made-up ones that are always the same."""
    if verdict is not None and verdict.weights is not None:
        given = verdict.weights
        return {label: find_weight(label, texts, given) for label, texts in choices.texts.items()}
    return {label: invent_weight(question, label, texts) for label, texts in choices.texts.items()}


def invent_weight(question: str, label: str, texts: list[str]) -> float:
    """The same for an option however it is asked for and wherever it stands among the others."""
    asked = question.strip().removeprefix("Question: ").partition("\n")[0]
    named = [label] if label in YES_NO or not texts else [text.partition(": ")[0] for text in texts]
    return sum(
        (1 + crc32(f"{asked}|{each}".encode("utf-8", "replace")) % 1000) ** 3 / 1e9
        for each in named
    )


def moderate(body: JsonObject) -> JsonObject:
    """The answer to a body with an `input`, which is a text or a list of texts."""
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    return {"id": "modr-simulated", "model": body.get("model"), "results": list(map(_judge, texts))}


def _judge(text: object) -> JsonObject:
    categories = {name: name in str(text).lower() for name in CATEGORIES}
    scores = {name: _FOUND if is_so else _NOT_FOUND for name, is_so in categories.items()}
    return {
        "flagged": any(categories.values()),
        "categories": categories,
        "category_scores": scores,
    }
