"""Credits: the balance, what moved it, payments, what expires, and what requests in flight hold."""

from datetime import UTC, datetime, time
from functools import partial
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase

from accounts.roles import Action
from accounts.services.books.statement import StatementPeriod
from accounts.services.books.statement_file import FORMATS, write_statement
from accounts.views.statement import download
from console.listing import Filter, Listing, is_value, list_choices
from console.page import PageContext, page, render_page
from console.queries.credits import (
    HoldRow,
    Month,
    Payment,
    StatementRow,
    read_expiry,
    read_hold_rows,
    read_holds,
    read_pace_nano,
    read_payments,
    read_statement,
    select_holds,
    select_payments,
)
from console.scope import Scope
from console.table import Column
from console.words import Badge

STATEMENT: Final = (
    Column("Day (UTC)", lambda row: f"{row.day:%Y-%m-%d}", "code", order="day"),
    Column("What", lambda row: row.what, order="what"),
    Column("Details", lambda row: row.detail, detail=True),
    Column("Amount", lambda row: row.amount_nano, "usd", order="amount"),
    Column("Balance after", lambda row: row.balance_nano, "usd"),
)
PAYMENTS: Final = (
    Column("When", lambda row: row.entry.created_at, "time", order="time"),
    Column("Paid", lambda row: row.paid_nano, "usd"),
    Column("Fee", lambda row: row.fee_nano, "usd"),
    Column("Credited", lambda row: row.entry.amount_nano, "usd", order="credited"),
    Column("By", lambda row: row.entry.source, detail=True),
    Column("Reference", lambda row: row.entry.source_ref, "code", detail=True),
)
HOLDS: Final = (
    Column("Since", lambda row: row.hold.created_at, "time", order="time"),
    Column("State", lambda row: row.state, "badge"),
    Column("Model", lambda row: row.hold.model, "code"),
    Column("Key", lambda row: row.key),
    Column("Held", lambda row: row.hold.amount_nano, "usd", order="held"),
)
_PAID_BY: Final = [Filter("text", "Reference")]
_HELD_BY: Final = [Filter("text", "Model or key")]
_PAYMENT_FIELDS: Final = {"time": "created_at", "credited": "amount_nano"}
_HOLD_FIELDS: Final = {"time": "created_at", "held": "amount_nano"}


@page
def show_credits(request: HttpRequest, page: PageContext) -> HttpResponse:
    _require_admin(page.scope)
    account = page.scope.account
    month = Month.read(request.GET.get("month", ""), page.now.date())
    payments = Listing[Payment](request, PAYMENTS, "Payments", filters=_PAID_BY, order="-time")
    rows = select_payments(account, payments.wanted["text"])
    payments.load_query(rows, _PAYMENT_FIELDS, read_payments)
    statement, holds = read_statement(account, month), read_holds(account)
    kinds = list_choices(row.what for row in statement.rows)
    moves = Listing[StatementRow](
        request,
        STATEMENT,
        "Statement",
        filters=[Filter("what", "What", is_value(lambda row: row.what), kinds)],
        name="statement",
    )
    moves.load_whole(statement.rows)
    open_holds = Listing[HoldRow](
        request, HOLDS, "Open holds", filters=_HELD_BY, order="time", name="holds"
    )
    held = select_holds(account, open_holds.wanted["text"])
    open_holds.load_query(held, _HOLD_FIELDS, partial(read_hold_rows, now=page.now))
    for listing in (payments, moves, open_holds):
        if listing.is_csv:
            return listing.respond()
    free_nano = account.balance_nano - account.held_nano
    day_nano = read_pace_nano(page.scope, page.now)
    context = {
        "title": "Credits",
        "account": account,
        "free_nano": free_nano,
        "days_left": free_nano / day_nano if day_nano > 0 and free_nano > 0 else None,
        "month": month,
        "next_month": Month(month.end) if month.end <= page.now.date() else None,
        "statement": statement,
        "moves": moves,
        "payments": payments,
        "expiry": read_expiry(account, page.now),
        "holds": holds,
        "holds_state": Badge("good", "agree") if holds.agree else Badge("warn", "moving"),
        "open_holds": open_holds,
    }
    return render_page(request, page, "console/credits.html", context)


@page
def download_statement(request: HttpRequest, page: PageContext) -> HttpResponseBase:
    """The whole statement of a month from the ledger, by workspace and key."""
    _require_admin(page.scope)
    month = Month.read(request.GET.get("month", ""), page.now.date())
    start, end = (datetime.combine(each, time(), UTC) for each in (month.first, month.end))
    period = StatementPeriod(start, min(end, page.now))
    form = FORMATS["json" if request.GET.get("format") == "json" else "csv"]
    return download(write_statement(page.scope.account.pk, period, form))


def _require_admin(scope: Scope) -> None:
    if not scope.allows(Action.BILLING):
        raise Http404
