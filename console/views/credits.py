"""Credits: the balance, what moved it, payments, what expires, and what requests in flight hold."""

from datetime import UTC, datetime, time
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase

from accounts.roles import Action
from accounts.services.books.statement import StatementPeriod
from accounts.services.books.statement_file import FORMATS, write_statement
from accounts.views.statement import download
from console.page import PageContext, page, render_page
from console.queries.credits import (
    Month,
    list_payments,
    read_expiry,
    read_holds,
    read_pace_nano,
    read_statement,
)
from console.scope import Scope
from console.table import Column, Table, csv_response, read_pages, render_rows, render_table
from console.words import Badge

STATEMENT: Final = (
    Column("Day (UTC)", lambda row: f"{row.day:%Y-%m-%d}", "code"),
    Column("What", lambda row: row.what),
    Column("Details", lambda row: row.detail, detail=True),
    Column("Amount", lambda row: row.amount_nano, "usd"),
    Column("Balance after", lambda row: row.balance_nano, "usd"),
)
PAYMENTS: Final = (
    Column("When", lambda row: row.entry.created_at, "time"),
    Column("Paid", lambda row: row.paid_nano, "usd"),
    Column("Fee", lambda row: row.fee_nano, "usd"),
    Column("Credited", lambda row: row.entry.amount_nano, "usd"),
    Column("By", lambda row: row.entry.source, detail=True),
    Column("Reference", lambda row: row.entry.source_ref, "code", detail=True),
)
HOLDS: Final = (
    Column("Since", lambda row: row.hold.created_at, "time"),
    Column("State", lambda row: row.state, "badge"),
    Column("Model", lambda row: row.hold.model, "code"),
    Column("Key", lambda row: row.key),
    Column("Held", lambda row: row.hold.amount_nano, "usd"),
)


@page
def show_credits(request: HttpRequest, page: PageContext) -> HttpResponse:
    _require_admin(page.scope)
    account = page.scope.account
    month = Month.read(request.GET.get("month", ""), page.now.date())
    if request.GET.get("csv"):
        paid = read_pages(lambda cursor: list_payments(account, cursor))
        return csv_response("payments", PAYMENTS, paid)
    payments = list_payments(account, request.GET.get("cursor", ""))
    payment_table = Table(PAYMENTS, payments.rows, "Payments", next_cursor=payments.next_cursor)
    statement, holds = read_statement(account, month), read_holds(account, page.now)
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
        "statement_table": render_rows(STATEMENT, statement.rows, "Statement"),
        "has_payments": bool(payments.rows),
        "payment_table": render_table(request, payment_table),
        "expiry": read_expiry(account, page.now),
        "holds": holds,
        "holds_state": Badge("good", "agree") if holds.agree else Badge("warn", "moving"),
        "hold_table": render_rows(HOLDS, holds.rows, "Open holds"),
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
