"""What templates of the console write: money, times, durations, icons."""

from functools import cache
from typing import TYPE_CHECKING, Any

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import table, words
from console.page import keep_query

if TYPE_CHECKING:
    # The admin's theme loads every library of tags, before there are pages of the admin.
    from console.queries.request_detail import Stage

register = template.Library()
register.filter("money", words.format_money)
register.filter("money_short", words.format_money_short)
register.filter("count", words.format_count)
register.filter("ms", words.format_ms)
register.filter("percent", words.format_percent)
register.filter("moment", words.time_element)
register.filter("refusal", words.describe_refusal)


@register.filter
def moment_precise(value: Any) -> SafeString:
    """A moment with its milliseconds."""
    return words.time_element(value, "precise")


@register.filter
def moment_near(value: Any) -> SafeString:
    """A moment to the minute, such as a forecast knows."""
    return words.time_element(value, "near")


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """An icon of `static/console/icons.svg`, which says nothing to who cannot see it."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>',
        static("console/icons.svg"),
        name,
    )


@register.simple_tag
def badge(tone: str, word: Any) -> SafeString:
    return table.badge(words.Badge(tone, str(word)))


@register.simple_tag(takes_context=True)
def query(context: Any, **changes: str | None) -> str:
    """The query of this page with some fields changed."""
    return keep_query(context["request"], **changes)


@register.simple_tag
def bar(stage: "Stage", total_ms: float) -> SafeString:
    """A bar of the waterfall; even the shortest can be seen."""
    scale = 100 / total_ms if total_ms else 0
    length = max(stage.length_ms * scale, 0.4)
    return format_html(
        '<svg aria-hidden="true"><rect class="{}" x="{}%" width="{}%" height="16" rx="4"></rect>'
        "</svg>",
        *(stage.tone, f"{min(stage.start_ms * scale, 99.6):.2f}", f"{length:.2f}"),
    )


@register.simple_tag
def sign_in_providers() -> Any:
    """Identity providers at which people may sign in."""
    return settings.OIDC_PROVIDERS


@register.simple_tag
def mails_links() -> bool:
    """Whether people who forgot their password may have a link mailed."""
    return bool(settings.EMAIL_CONFIRMATION)
