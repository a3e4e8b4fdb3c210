"""How sure a model is, how often it is right, and the temperature that brings the two together."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from routing.decisions.logprobs import softmax

BINS: Final = 10
# Beyond these a temperature leaves nothing but the likeliest label, or no difference between them.
TEMPERATURE_MIN: Final = 0.05
TEMPERATURE_MAX: Final = 20.0
# A label that was not among the alternatives may still be right.
_SHARE_MIN: Final = 1e-12
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_STEPS: Final = 40


class Example(NamedTuple):
    """What was answered, and the place of the label that is right."""

    probabilities: tuple[float, ...]
    right: int


class Bin(NamedTuple):
    """Answers about as sure of themselves as one another: how many, how sure and how often right
    on average, both 0 to 1."""

    answers: int
    sure: float
    right: float


class CalibrationReport(NamedTuple):
    """`error` is the expected calibration error, `loss` the mean logarithmic loss in nats."""

    accuracy: float
    error: float
    loss: float
    bins: tuple[Bin, ...]


def apply_temperature(probabilities: Sequence[float], temperature: float) -> tuple[float, ...]:
    """The same distribution with its log-probabilities divided by the temperature; 0 stays 0."""
    possible = [math.log(each) / temperature for each in probabilities if each > 0]
    shares = iter(softmax(possible))
    return tuple(next(shares) if each > 0 else 0.0 for each in probabilities)


def fit_temperature(examples: Sequence[Example]) -> float:
    """The temperature with the least loss, to three digits. Of several, the one nearest 1.

    The loss is convex in the inverse of the temperature, so that a golden-section search finds it.
    """

    logs = [_relative_logs(each) for each in examples]
    count = len(examples)

    def loss(inverse: float) -> float:
        return math.fsum(_compute_loss(each, inverse) for each in logs) / count

    inverse = _minimize(loss, 1 / TEMPERATURE_MAX, 1 / TEMPERATURE_MIN)
    if loss(1.0) <= loss(inverse):
        return 1.0
    rounded = float(f"{1 / inverse:.3g}")
    return min(TEMPERATURE_MAX, max(TEMPERATURE_MIN, rounded))


def mean_loss(examples: Sequence[Example], temperature: float) -> float:
    """In nats; what was thought impossible counts as one in a million million."""
    losses = (_compute_loss(_relative_logs(each), 1 / temperature) for each in examples)
    return math.fsum(losses) / len(examples)


def build_report(examples: Sequence[Example], temperature: float = 1.0) -> CalibrationReport:
    """How good the answers are with this temperature applied."""
    judged = [
        Example(apply_temperature(each.probabilities, temperature), each.right) for each in examples
    ]
    within: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for shares, right in judged:
        sure = max(shares)
        within[min(BINS - 1, int(sure * BINS))].append((sure, shares.index(sure) == right))
    # Of equal width, from the least sure answers to the surest.
    bins = []
    for answers in within:
        count = max(1, len(answers))
        sure = math.fsum(share for share, _ in answers) / count
        bins.append(Bin(len(answers), sure, sum(is_right for _, is_right in answers) / count))
    count = len(examples)
    return CalibrationReport(
        accuracy=sum(each.answers * each.right for each in bins) / count,
        error=sum(each.answers * abs(each.sure - each.right) for each in bins) / count,
        loss=mean_loss(examples, temperature),
        bins=tuple(bins),
    )


def _relative_logs(example: Example) -> list[float]:
    """Of each label, how much likelier it is than the right one, as a logarithm."""
    logs = [math.log(max(_SHARE_MIN, each)) for each in example.probabilities]
    right = logs[example.right]
    return [each - right for each in logs]


def _compute_loss(logs: Sequence[float], inverse: float) -> float:
    """The loss of one answer, from `_relative_logs`, at the inverse of a temperature."""
    most = max(logs) * inverse
    return most + math.log(math.fsum(math.exp(each * inverse - most) for each in logs))


def _minimize(value: Callable[[float], float], low: float, high: float) -> float:
    """The lowest place where a convex function is least."""
    one, other = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_one, at_other = value(one), value(other)
    for _ in range(_STEPS):
        if at_one <= at_other:
            high, other, at_other = other, one, at_one
            one = high - _GOLDEN * (high - low)
            at_one = value(one)
        else:
            low, one, at_one = one, other, at_other
            other = low + _GOLDEN * (high - low)
            at_other = value(other)
    return (low + high) / 2
