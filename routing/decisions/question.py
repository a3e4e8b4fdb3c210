"""A question, the distribution over its labels, and the answer that a caller reads."""

from math import fsum
from typing import Any, Final, Literal, NamedTuple

from gateway.http.jsonio import JsonObject, dumps

QuestionKind = Literal["noul", "choice", "score"]
# What a noul's answer is one of; the first is what its number speaks of.
YES_NO: Final = ("yes", "no")


class NoAnswer(Exception):
    """What came back answers nothing; the text says why."""


class TypedQuestion(NamedTuple):
    """`labels` are what the answer is one of: yes and no, the caller's own, or the numbers of the
    levels. `criteria` describe them, one each: text, object or array, None where nothing is said.
    """

    kind: QuestionKind
    instructions: Any
    labels: tuple[str, ...]
    criteria: tuple[Any, ...]


class Judgement(NamedTuple):
    """A distribution over the labels of a question: a probability each, which sum to 1.

    `confidence` is an upstream's own, None where it has to be worked out; `label_mass` is the share
    of the probability that fell on labels at all, None where that is not known.
    """

    probabilities: tuple[float, ...]
    confidence: float | None = None
    label_mass: float | None = None


def render_text(value: Any) -> str:
    """What a model reads: text as it is, anything else as compact JSON."""
    return value if type(value) is str else dumps(value).decode()


def build_answer(question: TypedQuestion, judged: Judgement) -> JsonObject:
    """The answer's JSON; its numbers are worked out from the probabilities alone."""
    shares = judged.probabilities
    if question.kind == "noul":
        return {"type": "noul", "noul": shares[0]}
    confidence = judged.confidence
    told = compute_confidence(shares) if confidence is None else confidence
    answer: JsonObject = {"type": question.kind}
    if question.kind == "choice":
        # Of equals the first.
        answer["choice"] = question.labels[shares.index(max(shares))]
    else:
        answer["score"] = fsum(level * share for level, share in enumerate(shares))
    answer["confidence"] = told
    answer["probabilities"] = dict(zip(question.labels, shares, strict=True))
    if question.kind == "score":
        answer["legend"] = dict(zip(question.labels, question.criteria, strict=True))
    return answer


def compute_confidence(shares: tuple[float, ...]) -> float:
    """How far the likeliest of k labels is above chance: 0 where all are alike, 1 where it is
    certain."""
    even = 1 / len(shares)
    if even == 1:
        return 1.0
    return min(1.0, max(0.0, (max(shares) - even) / (1 - even)))
