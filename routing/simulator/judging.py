"""How the simulated model judges a question."""

import json
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from routing.simulator.options import Choices, weight_of

YES_NO = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said where `when` occurs in a question.

    `weights` are probabilities by option, label, `yes` and `no`; `tokens` are pairs of a token and
    its log-probability, `answer` a native answer, both told as they are. `step` is what is played
    where no script says otherwise.
    """

    when: str
    weights: dict[str, float] | None = None
    tokens: list[tuple[str, float]] | None = None
    answer: Any = None
    step: Any = None


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def weights_for(verdict: Verdict | None, question: str, choices: Choices) -> dict[str, float]:
    """By label: the verdict's, else made-up ones that are always the same."""
    if verdict is not None and verdict.weights is not None:
        given = verdict.weights
        return {label: weight_of(label, texts, given) for label, texts in choices.texts.items()}
    return {label: made_up(question, label, texts) for label, texts in choices.texts.items()}


def made_up(question: str, label: str, texts: list[str]) -> float:
    """The same for an option however it is asked for and wherever it stands among the others."""
    asked = question.strip().removeprefix("Question: ").partition("\n")[0]
    named = [label] if label in YES_NO or not texts else [text.partition(": ")[0] for text in texts]
    return sum(
        (1 + crc32(f"{asked}|{each}".encode("utf-8", "replace")) % 1000) ** 3 / 1e9
        for each in named
    )
