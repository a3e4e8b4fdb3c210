"""Data of charts, as `static/console/charts.js` draws them with Chart.js."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from routing.history.spans import DAY

Unit = Literal["usd", "count", "ms", "percent"]

# As JSON.
ChartData = dict[str, Any]


class Series(NamedTuple):
    """A named row of values, one for each moment; None is a gap. Its tone is its colour."""

    label: str
    values: Sequence[float | None]
    tone: Literal["plain", "good", "bad"] = "plain"


def bar_chart(
    moments: Sequence[datetime], series: Sequence[Series], *, unit: Unit, step: timedelta
) -> ChartData:
    """Bars side by side in time. The page has them as a table as well, for who cannot see them."""
    return _build("bar", moments, series, unit, step)


def line_chart(
    moments: Sequence[datetime], series: Sequence[Series], *, unit: Unit, step: timedelta
) -> ChartData:
    """Lines in time, with gaps where nothing was measured."""
    return _build("line", moments, series, unit, step)


def _build(
    kind: str, moments: Sequence[datetime], series: Sequence[Series], unit: Unit, step: timedelta
) -> ChartData:
    """The moments are `step` apart, without gaps: the axis gives each the same room."""
    return {
        "kind": kind,
        "unit": unit,
        "by_hour": step < DAY,
        # More than a day of hours has each hour more than once: their labels need the date.
        "needs_date": len(moments) * step > DAY + step,
        "moments": [moment.isoformat() for moment in moments],
        "series": [each._asdict() for each in series],
    }
