"""A bar chart as SVG, from plain numbers: panels one below the other, a bar for each gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _MARGIN = 760, 24
_LABELS, _VALUES = 120, 110
_TITLE_HEIGHT, _PANEL_TITLE_HEIGHT, _BAR_HEIGHT, _BAR_GAP, _PANEL_GAP = 44, 26, 20, 6, 18
_NOTE_LINE_HEIGHT = 17
_BAR_MIN = 2.0
_OURS, _OTHERS, _INK, _FAINT, _PAPER = "#1a7f5a", "#a9b4c0", "#1f2933", "#5b6770", "#ffffff"


@dataclass(frozen=True)
class Panel:
    """One figure of every gateway; `form` writes a value, such as "{:,.0f} us"."""

    title: str
    form: str
    values: Mapping[str, float]


def chart(title: str, panels: Sequence[Panel], *, marked: str, notes: Sequence[str]) -> str:
    """The whole SVG. The bar of `marked` is in colour; `notes` are lines below the panels."""
    height = _TITLE_HEIGHT + sum(map(_panel_height, panels))
    end = height + _NOTE_LINE_HEIGHT * len(notes) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{end}" '
        f'viewBox="0 0 {_WIDTH} {end}" role="img" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{end}" fill="{_PAPER}"/>',
        _text(_MARGIN, 30, title, size=17, weight="bold"),
    ]
    top = _TITLE_HEIGHT
    for panel in panels:
        parts += _panel(panel, top, marked)
        top += _panel_height(panel)
    parts += [
        _text(_MARGIN, height + 8 + _NOTE_LINE_HEIGHT * line, note, size=12, fill=_FAINT)
        for line, note in enumerate(notes)
    ]
    return "\n".join([*parts, "</svg>", ""])


def _panel_height(panel: Panel) -> int:
    return _PANEL_TITLE_HEIGHT + len(panel.values) * (_BAR_HEIGHT + _BAR_GAP) + _PANEL_GAP


def _panel(panel: Panel, top: int, marked: str) -> list[str]:
    parts = [_text(_MARGIN, top + 16, panel.title, size=13, weight="bold")]
    left = _MARGIN + _LABELS
    longest, greatest = _WIDTH - left - _VALUES - _MARGIN, max(panel.values.values())
    y = top + _PANEL_TITLE_HEIGHT
    for name, value in panel.values.items():
        fill, middle = _OURS if name == marked else _OTHERS, y + _BAR_HEIGHT - 6
        # The smallest can still be seen.
        length = max(_BAR_MIN, longest * value / greatest)
        parts += [
            _text(left - 8, middle, name, size=13, anchor="end"),
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{_BAR_HEIGHT}" '
            f'rx="2" fill="{fill}"/>',
            _text(left + length + 8, middle, panel.form.format(value), size=13),
        ]
        y += _BAR_HEIGHT + _BAR_GAP
    return parts


def _text(x: float, y: float, text: str, **look: str | int) -> str:
    told = {"fill": _INK, "anchor": "start", "weight": "normal", **look}
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="{told["size"]}" font-weight="{told["weight"]}" '
        f'text-anchor="{told["anchor"]}" fill="{told["fill"]}">{escape(text)}</text>'
    )
