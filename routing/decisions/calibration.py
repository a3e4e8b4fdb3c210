"""How sure a model is, how often it is right, and the temperature that brings the two together."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from routing.decisions.logprobs import softmax

BINS: Final = 10
# Beyond these a temperature leaves nothing but the likeliest label, or no difference between them.
TEMPERATURE_MIN: Final = 0.05
TEMPERATURE_MAX: Final = 20.0
# What never was among the alternatives may be right all the same.
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


class Report(NamedTuple):
    """`error` is the expected calibration error, `loss` the mean logarithmic loss in nats."""

    accuracy: float
    error: float
    loss: float
    bins: tuple[Bin, ...]


def calibrated(probabilities: Sequence[float], temperature: float) -> tuple[float, ...]:
    """The same distribution with its log-probabilities divided by the temperature.

    What cannot be stays impossible.
    """
    possible = [math.log(each) / temperature for each in probabilities if each > 0]
    shares = iter(softmax(possible))
    return tuple(next(shares) if each > 0 else 0.0 for each in probabilities)


def fitted_temperature(examples: Sequence[Example]) -> float:
    """The temperature with the least loss, to three digits.

    The loss is convex in the inverse of the temperature, so that a golden-section search finds it.
    """

    logs = [_logs(each) for each in examples]
    count = len(examples)

    def loss(inverse: float) -> float:
        return math.fsum(_loss(each, inverse) for each in logs) / count

    inverse = _least(loss, 1 / TEMPERATURE_MAX, 1 / TEMPERATURE_MIN)
    rounded = float(f"{1 / inverse:.3g}")
    return min(TEMPERATURE_MAX, max(TEMPERATURE_MIN, rounded))


def mean_loss(examples: Sequence[Example], temperature: float) -> float:
    """In nats; what was thought impossible counts as one in a million million."""
    losses = (_loss(_logs(each), 1 / temperature) for each in examples)
    return math.fsum(losses) / len(examples)


def report_on(examples: Sequence[Example], temperature: float = 1.0) -> Report:
    """What the answers are worth once they went through the temperature."""
    judged = [Example(calibrated(each.probabilities, temperature), each.right) for each in examples]
    bins = _bins([(max(p), _best(p) == right) for p, right in judged])
    count = len(examples)
    return Report(
        accuracy=sum(each.answers * each.right for each in bins) / count,
        error=sum(each.answers * abs(each.sure - each.right) for each in bins) / count,
        loss=mean_loss(examples, temperature),
        bins=bins,
    )


def _best(probabilities: Sequence[float]) -> int:
    """The place of the likeliest; of equals the first."""
    return probabilities.index(max(probabilities))


def _bins(answers: Sequence[tuple[float, bool]]) -> tuple[Bin, ...]:
    """Equally wide ones, from the least sure to the surest."""
    within: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for sure, right in answers:
        within[min(BINS - 1, int(sure * BINS))].append((sure, right))
    return tuple(_bin(each) for each in within)


def _bin(answers: Sequence[tuple[float, bool]]) -> Bin:
    count = len(answers)
    if not count:
        return Bin(0, 0.0, 0.0)
    sure = math.fsum(each for each, _ in answers) / count
    return Bin(count, sure, sum(right for _, right in answers) / count)


def _logs(example: Example) -> list[float]:
    """Of each label, how much likelier it is than the right one, as a logarithm."""
    logs = [math.log(max(_SHARE_MIN, each)) for each in example.probabilities]
    right = logs[example.right]
    return [each - right for each in logs]


def _loss(logs: Sequence[float], inverse: float) -> float:
    """The right label's share is one of the sum of all, told in its own units."""
    most = max(logs) * inverse
    return most + math.log(math.fsum(math.exp(each * inverse - most) for each in logs))


def _least(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a convex function is least."""
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
