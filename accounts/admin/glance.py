"""What an account, a workspace or a key used lately, on its page. The figures are those of an app
above this one, which registers the function that reads them."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple
from uuid import UUID

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from gateway.http.jsonio import format_usd

Scope = Literal["account", "workspace", "key"]


class RecentUsage(NamedTuple):
    """Money is nano-USD."""

    requests: int
    tokens: int
    charge_nano: int


# The account, what of it, and the id of that: used by the title of a time.
Reader = Callable[[UUID, Scope, object], dict[str, RecentUsage]]
_readers: Final[list[Reader]] = []


def show_usage_by(reader: Reader) -> None:
    """From now on the pages show what this function says."""
    _readers[:] = [reader]


def render_usage(account_id: UUID, scope: Scope, pk: object) -> SafeString:
    """A small table: requests, tokens and USD by time."""
    if not _readers:
        return format_html("-")
    rows = [
        (title, f"{used.requests:,}", f"{used.tokens:,}", format_usd(used.charge_nano))
        for title, used in _readers[0](account_id, scope, pk).items()
    ]
    cells = format_html_join("", "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>", rows)
    heads = "<th></th><th>Requests</th><th>Tokens</th><th>USD</th>"
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{{}}</tbody></table>"
    return format_html(table, cells)
