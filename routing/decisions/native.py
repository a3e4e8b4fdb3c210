"""Questions and answers of upstreams that speak the decisions format themselves."""

from collections.abc import Mapping
from decimal import Decimal
from math import floor, fsum, isfinite
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.decisions.question import Judgement, NoAnswer, TypedQuestion

# A model's own arithmetic: probabilities in half precision are right to eight binary digits, and so
# is their sum.
_ARITHMETIC_ERROR: Final = 2**-8
# Upstreams round to two decimals at least; a number with fewer ends in zeros.
_DECIMALS_MIN: Final = 2
# However much rounding may explain, at least half of the distribution must be there.
_ERROR_MAX: Final = 0.5
_ROUNDING: Final = 1e-6


def serialize_question(question: TypedQuestion) -> JsonObject:
    """The question's JSON."""
    fields: JsonObject = {"type": question.kind, "instructions": question.instructions}
    if question.kind == "choice":
        fields["criteria"] = dict(zip(question.labels, question.criteria, strict=True))
    elif question.kind == "score":
        fields["criteria"] = list(question.criteria)
    elif question.criteria != (None, None):
        fields["criteria"] = dict(zip(("true", "false"), question.criteria, strict=True))
    return fields


def read_judgement(question: TypedQuestion, answer: object) -> Judgement:
    """The distribution in an answer. Raises `NoAnswer` for one that is impossible."""
    if not isinstance(answer, dict):
        raise NoAnswer("a question was not answered")
    if answer.get("type") != question.kind:
        raise NoAnswer(f"an answer of another type than {question.kind}")
    if question.kind == "noul":
        yes = _read_share(answer.get("noul"))
        return Judgement((yes, 1.0 - yes))
    probabilities = answer.get("probabilities")
    shares = (
        _infer_shares(question, answer)
        if probabilities is None
        else _read_shares(question, probabilities)
    )
    return Judgement(shares, confidence=_read_confidence(answer))


def _read_share(value: Any) -> float:
    """A probability, by which a rounding error may be missed."""
    if not _is_number(value) or not -_ROUNDING <= value <= 1 + _ROUNDING:
        raise NoAnswer("a probability that is none")
    return min(1.0, max(0.0, float(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _read_shares(question: TypedQuestion, probabilities: object) -> tuple[float, ...]:
    if not isinstance(probabilities, Mapping) or not probabilities.keys() <= set(question.labels):
        raise NoAnswer("probabilities of something else than the labels")
    shares = [_read_share(probabilities.get(label, 0)) for label in question.labels]
    total = fsum(shares)
    # How far from 1 the sum of these may be. Each is off by up to half of its last decimal place,
    # so the more labels and the fewer decimals, the further.
    decimals = max(_DECIMALS_MIN, *map(_count_decimals, shares))
    if abs(total - 1) > min(_ERROR_MAX, len(shares) / 2 * 10.0**-decimals + _ARITHMETIC_ERROR):
        raise NoAnswer("probabilities that do not add up")
    return tuple(share / total for share in shares)


def _count_decimals(share: float) -> int:
    """With how many decimals the number is written."""
    exponent = Decimal(repr(share)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)  # It is a letter for what is no finite number.
    return -exponent


def _read_confidence(answer: Mapping[str, Any]) -> float | None:
    value: Any = answer.get("confidence")
    return float(value) if _is_number(value) and 0 <= value <= 1 else None


def _infer_shares(question: TypedQuestion, answer: Mapping[str, Any]) -> tuple[float, ...]:
    """The distribution behind an answer that has only a score or a choice."""
    if question.kind == "score":
        levels = len(question.labels)
        score: Any = answer.get("score")
        # The two levels beside a score, so that it is their mean.
        if not _is_number(score) or not 0 <= score <= levels - 1:
            raise NoAnswer("a score beyond the levels")
        below = floor(score)
        share = score - below
        return tuple(
            {below: 1 - share, below + 1: share}.get(level, 0.0) for level in range(levels)
        )
    if answer.get("choice") not in question.labels:
        raise NoAnswer("a choice of something else than the labels")
    confidence = _read_confidence(answer)
    # The chosen label as likely as the confidence says, the others alike.
    even = 1 / len(question.labels)
    likely = even + (1 if confidence is None else confidence) * (1 - even)
    rest = (1 - likely) / max(1, len(question.labels) - 1)
    return tuple(likely if label == str(answer["choice"]) else rest for label in question.labels)
