"""Data of charts, as `static/console/charts.js` draws them with Chart.js."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

Unit = Literal["usd", "count", "ms", "percent"]

# As JSON.
ChartData = dict[str, Any]


class Series(NamedTuple):
    """A named row of values, one for each moment; None is a gap. Its tone is its colour."""

    label: str
    values: Sequence[float | None]
    tone: Literal["plain", "good", "bad"] = "plain"


def bar_chart(moments: Sequence[datetime], series: Sequence[Series], *, unit: Unit) -> ChartData:
    """Bars side by side in time. The page has them as a table as well, for who cannot see them."""
    return _build("bar", moments, series, unit)


def line_chart(moments: Sequence[datetime], series: Sequence[Series], *, unit: Unit) -> ChartData:
    """Lines in time, with gaps where nothing was measured."""
    return _build("line", moments, series, unit)


def _build(
    kind: str, moments: Sequence[datetime], series: Sequence[Series], unit: Unit
) -> ChartData:
    by_hour = any(moment.hour for moment in moments)
    return {
        "kind": kind,
        "unit": unit,
        "by_hour": by_hour,
        "moments": [moment.isoformat() for moment in moments],
        "series": [each._asdict() for each in series],
    }
