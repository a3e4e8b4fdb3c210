"""What an account, a workspace or a key used lately, and links to its lists."""

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.ports import UsageScope, higher_apps
from gateway.http.jsonio import format_usd


def render_usage(account_id: UUID, scope: UsageScope, pk: object) -> SafeString:
    """A small table: requests, tokens and USD by time."""
    rows = [
        (title, f"{used.requests:,}", f"{used.tokens:,}", format_usd(used.charge_nano))
        for title, used in higher_apps().read_recent_usage(account_id, scope, pk).items()
    ]
    cells = format_html_join("", "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
    heads = "<th></th><th>Requests</th><th>Tokens</th><th>USD</th>"
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{{}}</tbody></table>"
    return format_html(table, cells)


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
