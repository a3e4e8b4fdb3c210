"""The options that a multiple-choice prompt lists, as the simulated model reads them."""

import json
import re
from dataclasses import dataclass
from math import log
from typing import Any

from routing.simulator.logprobs import TOP_MAX

QUESTION = re.compile(r"^Question:", re.MULTILINE)
OPTION = re.compile(r"^([A-Za-z0-9]{1,3})\) (.*)$", re.MULTILINE)
GROUP = re.compile(r"^(?:\d+: )?(\{.*\}|\[.*\])$")
YES_OR_NO = re.compile(r"\byes or no\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choices:
    """What is asked, and the texts behind each label: several where a label stands for a group."""

    question: str
    texts: dict[str, list[str]]


def choices_in(prompt_text: str) -> Choices | None:
    """What the text after the last `Question:` offers; None where it offers nothing.

    An option is a line such as `A) refund`. One such as `A) 1: {"refund": null, "other": null}` or
    `0) ["calm", "cross"]` is a group of them.
    """
    *_, start = [0, *(found.start() for found in QUESTION.finditer(prompt_text))]
    question = prompt_text[start:]
    texts = {label: _members(text) for label, text in OPTION.findall(question)}
    if not texts and YES_OR_NO.search(question):
        texts = {"yes": [], "no": []}
    return Choices(question, texts) if texts else None


def _members(text: str) -> list[str]:
    found = GROUP.match(text)
    try:
        members = json.loads(found[1]) if found else [text]
    except ValueError:
        return [text]
    return [
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in members
    ]


def shares_of(weights: dict[str, float]) -> dict[str, float]:
    """Probabilities: what sums to more than 1 is scaled down to it."""
    total = max(1.0, sum(weights.values()))
    return {label: weight / total for label, weight in weights.items()}


def weight_of(label: str, texts: list[str], weights: dict[str, float]) -> float:
    """The weight that is given to a label itself, else the sum of what stands behind it."""
    if label in weights:
        return weights[label]
    return sum(weights.get(_key(text, weights), 0.0) for text in texts)


def _key(text: str, weights: dict[str, float]) -> str:
    """The key that is the text, or its beginning before a colon."""
    fitting = [key for key in weights if text == key or text.startswith(f"{key}: ")]
    return max(fitting, key=len, default="")


def scored(tokens: list[tuple[str, float]], top: int) -> dict[str, Any]:
    """The log-probabilities of a one-token answer: the first token given is what is said."""
    said = [_entry(*each) for each in tokens]
    element = {**said[0], "top_logprobs": said[: min(top, TOP_MAX)]}
    return {"content": [element], "refusal": None}


def tokens_of(shares: dict[str, float]) -> list[tuple[str, float]]:
    """Labels with their log-probabilities, likeliest first. What cannot be is not there."""
    ranked = sorted(shares.items(), key=lambda each: -each[1])
    return [(label, log(share)) for label, share in ranked if share > 0]


def _entry(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}
