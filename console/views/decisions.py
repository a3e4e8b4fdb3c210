"""Decisions: what models decided, where they abstained, and how far they can be trusted."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.page import PageContext, page, render_page
from console.queries.decisions import list_calibrations, sum_decisions
from console.table import Column, Table, csv_response, render_table

COLUMNS: Final = (
    Column("Model", lambda row: row.model, link=lambda row: _link(row.model)),
    Column("Requests", lambda row: row.requests, "count"),
    Column("Questions", lambda row: row.questions, "count"),
    Column("Answered", lambda row: row.ways, detail=True),
    Column("Abstained", lambda row: row.abstained_percent, "percent"),
    Column("Failed", lambda row: row.failed, "count", detail=True),
    Column("Temperature", lambda row: row.temperature and f"{row.temperature:g}", detail=True),
    Column("Cost", lambda row: row.charge_nano, "usd"),
)
QUESTION_COLUMNS: Final = (
    Column("Question", lambda row: row.name),
    Column("Model", lambda row: row.model),
    Column("Asked", lambda row: row.times, "count"),
    Column("On the options", lambda row: row.mean_percent, "percent"),
    Column("Abstained", lambda row: row.abstained, "count"),
)
_QUESTIONS_SHOWN: Final = 50


@page
def show_decisions(request: HttpRequest, page: PageContext) -> HttpResponse:
    sums = sum_decisions(page.scope, page.period.start(page.now), page.now)
    if request.GET.get("csv") == "questions":
        return csv_response("questions", QUESTION_COLUMNS, sums.list_questions())
    if request.GET.get("csv"):
        return csv_response("decisions", COLUMNS, sums.models)
    questions = sums.list_questions()[:_QUESTIONS_SHOWN]
    asked = Table(QUESTION_COLUMNS, questions, "Questions that were asked", csv="questions")
    context = {
        "title": "Decisions",
        "sums": sums,
        "table": render_table(request, Table(COLUMNS, sums.models, "Models that decided")),
        "questions": questions,
        "question_table": render_table(request, asked),
        "calibrations": list_calibrations(page.scope),
    }
    return render_page(request, page, "console/decisions.html", context)


def _link(model_id: str) -> str:
    return reverse("console:model", args=[model_id])
