"""Values as people read them: money with every digit it has, times for the viewer's zone."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.money import format_dollars
from accounts.services.books.statement_file import escape_formula

NOTHING: Final = "\N{EN DASH}"
_S_IN_MS: Final = 1000
# The last sentence of a refusal may say what a program calls; pages lead there themselves.
_API_REMEDY: Final = re.compile(r" (?:[^.]|\.(?! ))*/(?:api/v1|admin)/.*$", re.DOTALL)


class Badge(NamedTuple):
    """A word with a colour: `good`, `bad`, `warn` or `plain`."""

    tone: str
    word: str

    def __str__(self) -> str:
        return self.word


def describe_refusal(text: str) -> str:
    """Why a request was refused, without what only a program's author makes use of."""
    return _API_REMEDY.sub("", text)


def format_money(amount_nano: int | None) -> str:
    """`$0.0000044`; at least cents."""
    if amount_nano is None:
        return NOTHING
    sign = "-" if amount_nano < 0 else ""
    return sign + format_dollars(abs(amount_nano))


def format_money_short(amount_nano: int | None) -> str:
    """For tiles and charts: cents from a dollar on, four digits that count below."""
    if amount_nano is None:
        return NOTHING
    usd = Decimal(amount_nano).scaleb(-9)
    if abs(usd) >= 1 or not amount_nano:
        return f"${usd:,.2f}" if amount_nano >= 0 else f"-${-usd:,.2f}"
    return format_money(int(Decimal(f"{usd:.4g}").scaleb(9)))


def format_price(usd_per_unit: Decimal | None) -> str:
    """A price of a token as USD for a million of them."""
    if usd_per_unit is None:
        return NOTHING
    per_million = usd_per_unit * 1_000_000
    if not per_million:
        return "free"
    digits = f"{per_million.normalize():f}"
    whole, _, fraction = digits.partition(".")
    return f"${whole}.{fraction.ljust(2, '0')}"


def format_count(number: float | None) -> str:
    """`1,234`."""
    return NOTHING if number is None else f"{number:,.0f}"


def format_count_short(number: int | None) -> str:
    """`1.2K`, `3.4M` from ten thousand on."""
    if number is None:
        return NOTHING
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size and number >= 10_000:
            return f"{number / size:.3g}{letter}"
    return f"{number:,}"


def format_ms(ms: float | None) -> str:
    """`142 ms`, `1.42 s` from a second on, `3 min 5 s` from two minutes on."""
    if ms is None:
        return NOTHING
    if ms < _S_IN_MS:
        return f"{ms:.0f} ms"
    seconds = ms / _S_IN_MS
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def format_percent(percent: float | None) -> str:
    """`99.4 %`."""
    return NOTHING if percent is None else f"{round(percent, 2):g} %"


def format_change(now: float, before: float) -> str:
    """`+12 %` against the period before, in which there was something."""
    change = (now - before) / before * 100
    return f"{change:+.0f} %" if abs(change) < 1000 else f"{now / before:,.0f} times"


def time_element(moment: datetime | None, form: str = "list") -> SafeString:
    """A moment in UTC, which the page's script turns into the viewer's zone, in one of
    its forms."""
    if moment is None:
        return format_html("{}", NOTHING)
    moment = moment.astimezone(UTC)
    iso = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    text = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return format_html('<time datetime="{}" data-form="{}">{}</time>', iso, form, text)


# In this order: most browsers name those too that they are like.
_BROWSERS: Final = {
    "Edg": "Edge",
    "OPR": "Opera",
    "Firefox": "Firefox",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
_SYSTEMS: Final = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "Linux": "Linux",
}


def describe_browser(agent: str) -> str:
    """`Firefox on Linux`; what it says of itself where that is not known."""
    found = [
        next((names[mark] for mark in names if mark in agent), "")
        for names in (_BROWSERS, _SYSTEMS)
    ]
    return " on ".join(filter(None, found)) or agent[:60]


def join_words(words: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def plain_value(value: Any) -> str:
    """A cell of a CSV file. What a spreadsheet would take for a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, int | float | Decimal):
        return str(value)
    return escape_formula(str(value))


def format_tags(tags: Mapping[str, str] | None) -> str:
    """`team=blue, feature=search`; empty where there are none."""
    return ", ".join(f"{name}={value}" for name, value in (tags or {}).items())
