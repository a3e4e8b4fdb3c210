"""From a distribution to the answer that a caller reads (inference reference 6.2)."""

from math import fsum
from typing import Any

from routing.decisions.question import Judged, Question


def answer_of(question: Question, judged: Judged) -> dict[str, Any]:
    """The answer's JSON; its numbers are worked out from the probabilities alone."""
    shares = judged.probabilities
    if question.kind == "noul":
        return {"type": "noul", "noul": shares[0]}
    confidence = judged.confidence
    told = confidence_of(shares) if confidence is None else confidence
    answer: dict[str, Any] = {"type": question.kind}
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


def confidence_of(shares: tuple[float, ...]) -> float:
    """How far the likeliest of k labels is above chance: 0 where all are alike, 1 where it is
    certain."""
    even = 1 / len(shares)
    if even == 1:
        return 1.0
    return min(1.0, max(0.0, (max(shares) - even) / (1 - even)))
