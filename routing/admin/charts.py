"""Small charts of endpoints' history, drawn as SVG inside the page: nothing else is loaded."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import F, FloatField, Q, QuerySet, Sum
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gateway.http.jsonio import JsonObject
from routing.statistics.endpoint_samples import build_newest_samples
from routing.statistics.models import EndpointSample

SPAN: Final = timedelta(hours=24)
STRETCH: Final = timedelta(minutes=5)
_WIDTH, _HEIGHT, _STRIP, _LEFT, _BELOW = 720, 90, 18, 56, 16
_HOURS_BETWEEN: Final = 6
# Of calls: some fail now and then; when half of them do it is down for most purposes.
_MANY: Final = 0.5
_GOOD, _SOME, _BAD, _LIMITED = "#2e8540", "#e5a000", "#c9252d", "#8a5fbf"
_LINES: Final = ("#1f77b4", "#8ab6d6")


class Stretch(NamedTuple):
    """Five minutes of one endpoint, or of several together. Times in milliseconds."""

    started_at: datetime
    calls: int
    errors: int
    rate_limited: int
    p50_ms: float | None
    p90_ms: float | None

    @property
    def uptime(self) -> float | None:
        """Percent."""
        return 100 * (self.calls - self.errors) / self.calls if self.calls else None

    @property
    def title(self) -> str:
        at = self.started_at.astimezone(UTC).strftime("%H:%M")
        calls = f"{self.calls} calls, {self.errors} failed, {self.rate_limited} rate limited"
        return f"{at} UTC: {calls}"


def draw_history(endpoints: Collection[int], *, until: datetime | None = None) -> SafeString:
    """Charts of the day up to `until`, now by default, of these endpoints together. What is not
    written yet is the last stretch, which ends now."""
    until = until or timezone.now()
    samples = EndpointSample.objects.filter(endpoint__in=endpoints, started_at__lt=until)
    stretches = load_stretches(samples.filter(started_at__gte=until - SPAN))
    if newest := build_newest_samples(endpoints, until.timestamp()):
        stretches.append(_merge_samples(newest))
    if not stretches:
        return format_html("<p>{}</p>", "No traffic in the last 24 hours.")
    uptimes = [(each.started_at, each.uptime) for each in stretches]
    medians = [(each.started_at, each.p50_ms) for each in stretches]
    slow = [(each.started_at, each.p90_ms) for each in stretches]
    longest_ms = max((value for _, value in medians + slow if value is not None), default=1)
    charts = [
        ("Status", _draw_status(stretches, until)),
        ("Uptime, percent", _draw_lines([uptimes], until, top=100.0, label="uptime")),
        (
            "Time to first token, milliseconds: median and 90th percentile",
            _draw_lines([medians, slow], until, top=_round_up(longest_ms), label="latency"),
        ),
    ]
    return format_html_join(
        "", '<figure class="history"><figcaption>{}</figcaption>{}</figure>', charts
    )


def load_stretches(samples: "QuerySet[EndpointSample]") -> list[Stretch]:
    """Endpoints together: counts are sums, times are averages weighted by calls."""
    rows: Iterable[Any] = (
        samples.values("started_at")
        .order_by("started_at")
        .annotate(
            all_calls=Sum("calls"),
            all_errors=Sum("errors"),
            all_limited=Sum("rate_limited"),
            timed=Sum("calls", filter=Q(first_token_p50_ms__isnull=False)),
            p50=_sum_by_calls("first_token_p50_ms"),
            p90=_sum_by_calls("first_token_p90_ms"),
        )
    )
    return [_build_stretch(row) for row in rows]


def _merge_samples(samples: Sequence[EndpointSample]) -> Stretch:
    timed = [each for each in samples if each.first_token_p50_ms is not None]
    row = {
        "started_at": samples[0].started_at,
        "all_calls": sum(each.calls for each in samples),
        "all_errors": sum(each.errors for each in samples),
        "all_limited": sum(each.rate_limited for each in samples),
        "timed": sum(each.calls for each in timed),
        "p50": sum(each.calls * (each.first_token_p50_ms or 0) for each in timed),
        "p90": sum(each.calls * (each.first_token_p90_ms or 0) for each in timed),
    }
    return _build_stretch(row)


def _sum_by_calls(field: str) -> Sum:
    return Sum(F(field) * F("calls"), output_field=FloatField())


def _build_stretch(row: JsonObject) -> Stretch:
    timed = row["timed"] or 0
    p50, p90 = ((row[name] / timed) if timed else None for name in ("p50", "p90"))
    return Stretch(
        row["started_at"], row["all_calls"], row["all_errors"], row["all_limited"], p50, p90
    )


# --- Drawing -----------------------------------------------------------------------------


def _draw_status(stretches: Sequence[Stretch], until: datetime) -> SafeString:
    width = f"{_WIDTH * (STRETCH / SPAN):.2f}"
    bars = format_html_join(
        "",
        '<rect x="{}" y="0" width="{}" height="{}" fill="{}"><title>{}</title></rect>',
        (
            (_x(each.started_at, until), width, _STRIP, _choose_colour(each), each.title)
            for each in stretches
        ),
    )
    return _draw_picture(bars, until, _STRIP, "status")


def _choose_colour(each: Stretch) -> str:
    if not each.calls:
        return _LIMITED
    failing = each.errors / each.calls
    return _GOOD if not failing else _SOME if failing < _MANY else _BAD


_Points = Sequence[tuple[datetime, float | None]]


def _draw_lines(
    series: Sequence[_Points], until: datetime, *, top: float, label: str
) -> SafeString:
    scale = format_html_join(
        "",
        '<line x1="0" x2="{}" y1="{}" y2="{}" stroke="currentColor" stroke-opacity="0.2"/>'
        '<text x="-6" y="{}" text-anchor="end">{}</text>',
        ((_WIDTH, y, y, y + 4, f"{value:g}") for value, y in ((top, 0), (0, _HEIGHT))),
    )
    lines = format_html_join(
        "",
        '<path d="{}" fill="none" stroke="{}" stroke-width="1.5" stroke-linecap="round"/>',
        (
            (" ".join(_draw_path(points, until, top)), colour)
            for points, colour in zip(series, _LINES, strict=False)
        ),
    )
    return _draw_picture(scale + lines, until, _HEIGHT, label)


def _draw_path(points: _Points, until: datetime, top: float) -> Iterator[str]:
    """A line that breaks where nothing is known; a point of its own shows as a dot."""
    before: datetime | None = None
    for at, value in points:
        if value is None:
            continue
        goes_on = before is not None and at - before <= STRETCH
        x, y = _x(at + STRETCH / 2, until), _HEIGHT * (1 - min(value / top, 1))
        yield f"L{x} {y:.1f}" if goes_on else f"M{x} {y:.1f}h0.1"
        before = at


def _draw_picture(content: SafeString, until: datetime, height: int, label: str) -> SafeString:
    last = until.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last -= timedelta(hours=last.hour % _HOURS_BETWEEN)
    ticks = [last - timedelta(hours=hours) for hours in range(0, 24, _HOURS_BETWEEN)]
    hours = format_html_join(
        "",
        '<text x="{}" y="{}" text-anchor="middle">{}</text>',
        (
            (_x(at, until), height + _BELOW - 3, at.strftime("%H:%M"))
            for at in ticks
            if at > until - SPAN
        ),
    )
    box = f"{-_LEFT} -6 {_WIDTH + _LEFT + 12} {height + _BELOW + 8}"
    return format_html(
        '<svg viewBox="{}" width="{}" role="img" aria-label="{}" font-size="11"'
        ' fill="currentColor">{}{}</svg>',
        *(box, _WIDTH + _LEFT + 12, f"{label} over the last 24 hours", content, hours),
    )


def _x(at: datetime, until: datetime) -> str:
    return f"{_WIDTH * (1 - (until - at) / SPAN):.1f}"


def _round_up(value: float) -> float:
    """The next 1, 2 or 5 with zeros behind it."""
    step = 1.0
    while True:
        for first in (1, 2, 5):
            if value <= first * step:
                return first * step
        step *= 10
