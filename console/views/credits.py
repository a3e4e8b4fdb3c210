"""Credits: the balance, what moved it, payments, what expires, and what requests in flight hold."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Final, NamedTuple

from django.conf import settings
from django.db.models import CharField, Count, Q, QuerySet, Sum
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase

from accounts.models import Account, ApiKey, Hold, LedgerEntry, SpendCounter
from accounts.models.ledger import CREDIT_KINDS
from accounts.roles import Action
from accounts.services.books.credits import find_expiring_credit_of
from accounts.services.books.statement import StatementPeriod
from accounts.services.books.statement_file import FORMATS, write_statement
from accounts.views.statement import download
from console.listing import Filter, Listing, is_value, list_choices
from console.page import PageContext, page, render_page
from console.queries.usage import sum_by_day
from console.scope import Scope
from console.table import Column
from console.words import Badge

SOON: Final = timedelta(days=30)
_PACE_DAYS: Final = 7
_CREDITS: Final = frozenset(CREDIT_KINDS)
# The kinds that the index of single entries is for, but for reversals, which counters have.
_KINDS: Final = sorted(_CREDITS)


class StatementRow(NamedTuple):
    """A movement, or what a UTC day's requests were charged, by its effect on the balance; and the
    balance after it. `at` is None for a day's charges."""

    day: date
    at: datetime | None
    what: str
    detail: str
    amount_nano: int
    balance_nano: int

    @property
    def moment(self) -> datetime:
        return self.at or datetime.combine(self.day, time(), UTC)


class Month(NamedTuple):
    """A calendar month in UTC: `2026-11`."""

    first: date

    @classmethod
    def read(cls, text: str, today: date) -> "Month":
        """The one that is named, else today's."""
        try:
            found = date.fromisoformat(f"{text}-01")
        except ValueError:
            found = today
        return cls(min(found, today).replace(day=1))

    @property
    def value(self) -> str:
        return f"{self.first:%Y-%m}"

    @property
    def label(self) -> str:
        return f"{self.first:%B %Y}"

    @property
    def end(self) -> date:
        return (self.first + timedelta(days=31)).replace(day=1)

    @property
    def before(self) -> "Month":
        return Month((self.first - timedelta(days=1)).replace(day=1))


class Statement(NamedTuple):
    """The rows of a month, the newest first, and the balances around them."""

    rows: list[StatementRow]
    opening_nano: int
    closing_nano: int


def read_statement(account: Account, month: Month) -> Statement:
    """The statement of a month. Charges are the running counters' sums: they say what the ledger's
    entries say, of which there may be millions. A request counts on the day it began."""
    later = 0
    # Of the month that goes on nothing is later.
    if month.end <= datetime.now(UTC).date():
        later = sum(amount for *_, amount in _list_movements(account, month.end, None))
    closing_nano = balance_nano = account.balance_nano - later
    rows = []
    movements = sorted(_list_movements(account, month.first, month.end), reverse=True)
    for day, moment, what, detail, amount_nano in movements:
        at = None if what == _CHARGES else moment
        rows.append(StatementRow(day, at, what, detail, amount_nano, balance_nano))
        balance_nano -= amount_nano
    return Statement(rows, balance_nano, closing_nano)


_CHARGES: Final = "Requests"
_Movement = tuple[date, datetime, str, str, int]


def _list_movements(account: Account, start: date, end: date | None) -> Iterator[_Movement]:
    """Day, moment, what, more words, and the effect on the balance; a day's charges come last."""
    entries = LedgerEntry.objects.filter(
        account=account, kind__in=_KINDS, created_at__gte=datetime.combine(start, time(), UTC)
    )
    counters = SpendCounter.objects.filter(
        scope=SpendCounter.Scope.KEY,
        window=SpendCounter.Window.DAY,
        window_start__gte=start,
        scope_id__in=ApiKey.objects.filter(account=account).values_list(
            Cast("pk", CharField()), flat=True
        ),
    )
    if end is not None:
        entries = entries.filter(created_at__lt=datetime.combine(end, time(), UTC))
        counters = counters.filter(window_start__lt=end)
    for entry in entries:
        what = entry.get_kind_display()
        detail = entry.note or f"{entry.source} {entry.source_ref}"
        yield entry.created_at.date(), entry.created_at, what, detail, entry.amount_nano
    charged = counters.values("window_start").annotate(nano=Sum("spent_nano"))
    for day, nano in charged.values_list("window_start", "nano"):
        if nano:
            end_of_day = datetime.combine(day, time.max, UTC)
            yield day, end_of_day, _CHARGES, "", -int(nano)


class Payment(NamedTuple):
    """Money that came in: what was paid, what was kept of it, and what the balance got."""

    entry: LedgerEntry
    paid_nano: int
    fee_nano: int


def select_payments(account: Account, text: str) -> QuerySet[LedgerEntry]:
    """Entries of payments whose reference has the text."""
    rows = LedgerEntry.objects.filter(account=account, kind=LedgerEntry.Kind.PURCHASE)
    if text:
        rows = rows.filter(source_ref__icontains=text)
    return rows.select_related("purchase_fee")


def read_payments(entries: Iterable[LedgerEntry]) -> list[Payment]:
    """The payments of entries that `select_payments` found."""
    payments = []
    for row in entries:
        fee = getattr(row, "purchase_fee", None)
        paid_nano = fee.paid_nano if fee else row.amount_nano
        payments.append(Payment(row, paid_nano, fee.fee_nano if fee else 0))
    return payments


def read_pace_nano(scope: Scope, now: datetime) -> float:
    """What all of the account spent a day: over seven days, or as long as it exists, though over a
    day at least."""
    days = sum_by_day(scope.widen(), now, days=_PACE_DAYS)
    since = max(days[0].start, scope.account.created_at)
    spent_nano = sum(day.used.spend_nano for day in days)
    return spent_nano / max((now - since) / timedelta(days=1), 1)


class Expiry(NamedTuple):
    """How long credits last (None: for ever), and what would expire within 30 days, were nothing
    spent until then."""

    days: int | None
    soon_nano: int


def read_expiry(account: Account, now: datetime) -> Expiry:
    days = settings.CREDIT_EXPIRY_DAYS
    if not days:
        return Expiry(None, 0)
    found = find_expiring_credit_of(account, now + SOON - timedelta(days=days))
    return Expiry(days, found.amount_nano if found else 0)


class HoldRow(NamedTuple):
    """What a request in flight may cost at most. A late one is settled by the sweep."""

    hold: Hold
    key: str
    is_late: bool

    @property
    def state(self) -> Badge:
        return Badge("warn", "late") if self.is_late else Badge("good", "in flight")


@dataclass(frozen=True)
class Holds:
    """The account's open holds, and whether they sum up to what the account says it holds."""

    count: int
    sum_nano: int
    held_nano: int

    @property
    def agree(self) -> bool:
        return self.sum_nano == self.held_nano


def read_holds(account: Account) -> Holds:
    """The account's row and its holds as of one moment: in one statement."""
    rows = Account.objects.filter(pk=account.pk).annotate(
        count=Count("holds"), nano=Sum("holds__amount_nano")
    )
    count, nano, held_nano = rows.values_list("count", "nano", "held_nano").get()
    return Holds(count, int(nano or 0), held_nano)


def select_holds(account: Account, text: str) -> QuerySet[Hold]:
    """Open holds whose model or key has the text."""
    rows = Hold.objects.filter(account=account).select_related("api_key")
    if text:
        rows = rows.filter(Q(model__icontains=text) | Q(api_key__name__icontains=text))
    return rows


def read_hold_rows(holds: Iterable[Hold], now: datetime) -> list[HoldRow]:
    return [HoldRow(row, row.api_key.name, row.lease_expires_at < now) for row in holds]


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
        "holds_state": Badge("good", "agree") if holds.agree else Badge("bad", "differ"),
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
