"""A reliability diagram: how sure a model is, and how often it is right."""

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from routing.decisions.calibration import BINS, CalibrationReport

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
