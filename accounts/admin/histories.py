"""Lists that belong to an account or a key, of this app and of those above it."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString


@dataclass(frozen=True)
class History:
    """A changelist that can be narrowed to one account or key by these lookups."""

    title: str
    url_name: str
    account_lookup: str = "account__id__exact"
    key_lookup: str = "api_key__id__exact"


_histories = [
    History("Ledger entries", "admin:accounts_ledgerentry_changelist"),
    History("Holds", "admin:accounts_hold_changelist"),
    History("Changes", "admin:accounts_auditrecord_changelist", key_lookup="object_id__exact"),
]


def add_history(history: History) -> None:
    """For apps above this one, whose rows it cannot know."""
    _histories.append(history)


def render_account_histories(account_id: object) -> SafeString:
    return _render_links({history: history.account_lookup for history in _histories}, account_id)


def render_key_histories(key_id: object) -> SafeString:
    return _render_links({history: history.key_lookup for history in _histories}, key_id)


def _render_links(lookups: dict[History, str], value: object) -> SafeString:
    return format_html_join(
        " · ",
        '<a href="{}?{}">{}</a>',
        (
            (reverse(history.url_name), urlencode({lookup: str(value)}), history.title)
            for history, lookup in lookups.items()
        ),
    )
