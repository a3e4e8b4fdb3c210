"""GET /credits/statement: an account's statement for a period (ours)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time

from django.http import HttpRequest, HttpResponseBase

from accounts.services.statement import StatementPeriod
from accounts.services.statement_file import FORMATS, StatementFormat, write_statement
from accounts.views.managed import ManagedViewSet
from accounts.views.openapi.statement_description import describe_statement
from accounts.views.statement_download import download
from gateway.database.db import Lane, run_queries
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue, describe_options


class StatementViewSet(ManagedViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    @describe_statement
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        period, form = read_query(request.GET.dict(), now=datetime.now(UTC))
        made = run_queries(Lane.OPERATOR, lambda: write_statement(caller.account_id, period, form))
        return download(made)


def read_query(
    query: Mapping[str, str], *, now: datetime
) -> tuple[StatementPeriod, StatementFormat]:
    """The period and the form asked for. Raises `SchemaInvalid`.

    Without `start` it begins with the month of now, without `end` it goes up to now.
    """
    issues: list[Issue] = []
    month = datetime.combine(now.date().replace(day=1), time(), UTC)
    start = _moment(query.get("start"), month, "start", issues)
    end = _moment(query.get("end"), max(now, start), "end", issues)
    if not issues and end < start:
        issues.append(Issue("end", "Invalid input: expected a moment not before start"))
    form = query.get("format") or "json"
    if form not in FORMATS:
        issues.append(Issue("format", describe_options(FORMATS)))
    if issues:
        raise SchemaInvalid(issues)
    return StatementPeriod(start, end), FORMATS[form]


def _moment(text: str | None, usual: datetime, name: str, issues: list[Issue]) -> datetime:
    """A day, which begins at midnight UTC, or an ISO 8601 moment in UTC."""
    if not text:
        return usual
    try:
        if len(text) == len("YYYY-MM-DD"):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.utcoffset():
        issues.append(Issue(name, "Invalid ISO date, or datetime in UTC"))
        return usual
    return moment
