"""How sure a model is, how often it is right, and the temperature that brings the two together.

A reliability diagram shows it before and after.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from routing.decisions.logprobs import softmax

BINS: Final = 10
# Beyond these a temperature leaves nothing but the likeliest label, or no difference between them.
TEMPERATURE_MIN: Final = 0.05
TEMPERATURE_MAX: Final = 20.0
# A label that was not among the alternatives may still be right.
_SHARE_MIN: Final = 1e-12
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_STEPS: Final = 40
# The diagram.
_SIDE: Final = 320
_MARGIN: Final = 48
_GAP: Final = 56
_TOP: Final = 64
_HEIGHT: Final = _TOP + _SIDE + 72
_WIDTH: Final = 2 * _MARGIN + 2 * _SIDE + _GAP
_BAR: Final = _SIDE / BINS
_TICKS: Final = (0, 0.25, 0.5, 0.75, 1)
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}"
    ".frame{fill:none;stroke:#888}.ideal{stroke:#888;stroke-dasharray:5 4}"
    ".bar{fill:#9dbbdb}.sure{stroke:#c2410c;stroke-width:2}"
)
_AXIS: Final = "how sure it was"
_LEGEND: Final = "Bar: share that was right. Line: how sure on average. Number: answers."


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


def draw_reliability(title: str, before: CalibrationReport, after: CalibrationReport) -> str:
    """Two panels as SVG. A model is as sure as it is right where the line ends the bar."""
    panels = (("Before", before, _MARGIN), ("After", after, _MARGIN + _SIDE + _GAP))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{_MARGIN}" y="24">{escape(title)}</text>',
    ]
    for name, report, left in panels:
        parts += _draw_panel(name, report, left)
    parts.append(_draw_text(_LEGEND, _WIDTH / 2, _HEIGHT - 10, anchor="middle"))
    return "\n".join([*parts, "</svg>", ""])


def _draw_panel(name: str, report: CalibrationReport, left: int) -> Iterator[str]:
    bottom, middle = _TOP + _SIDE, left + _SIDE / 2
    caption = f"{name}: {report.accuracy:.1%} right, calibration error {report.error:.3f}"
    yield _draw_text(caption, left, _TOP - 12)
    yield f'<rect class="frame" x="{left}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}"/>'
    for place, each in enumerate(report.bins):
        if not each.answers:
            continue
        x, height, sure = left + place * _BAR, each.right * _SIDE, bottom - each.sure * _SIDE
        yield (
            f'<rect class="bar" x="{x + 1:g}" y="{bottom - height:g}" width="{_BAR - 2:g}" '
            f'height="{height:g}"><title>{each.answers} answers, {each.sure:.3f} sure, '
            f"{each.right:.3f} right</title></rect>"
        )
        ends = f'x1="{x + 1:g}" x2="{x + _BAR - 1:g}"'
        yield f'<line class="sure" {ends} y1="{sure:g}" y2="{sure:g}"/>'
        yield _draw_text(str(each.answers), x + _BAR / 2, bottom - 5, anchor="middle")
    yield f'<line class="ideal" x1="{left}" y1="{bottom}" x2="{left + _SIDE}" y2="{_TOP}"/>'
    for tick in _TICKS:
        yield _draw_text(f"{tick:g}", left + tick * _SIDE, bottom + 18, anchor="middle")
        yield _draw_text(f"{tick:g}", left - 6, bottom - tick * _SIDE + 4, anchor="end")
    yield _draw_text(_AXIS, middle, bottom + 38, anchor="middle")


def _draw_text(text: str, x: float, y: float, *, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
