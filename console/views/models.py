"""The catalogue of models, and the page of one: endpoints, charts, snippets."""

from collections.abc import Callable, Sequence
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.charts import ChartData, Series, bar_chart, line_chart
from console.listing import Filter, Listing
from console.page import PageContext, page, render_page
from console.queries.endpoint_health import HealthHistory, load_health_history
from console.queries.models import (
    COMPARED_MAX,
    ComparedModel,
    ModelRow,
    compare_models,
    find_model,
    list_endpoints,
    list_models,
    list_permitted_models,
    list_providers_of_models,
)
from console.queries.snippets import list_snippets
from console.table import Column
from console.words import NOTHING, format_count, format_ms, format_percent, format_price
from routing.entities.vocabulary import INPUT_MODALITIES, OUTPUT_MODALITIES

COLUMNS: Final = (
    Column(
        "Model",
        lambda row: row.model.name,
        link=lambda row: reverse("console:model", args=[row.model.id]),
        order="name",
    ),
    Column("Id", lambda row: row.model.id, "code"),
    Column("In, per million", lambda row: row.price_in, "price", order="in"),
    Column("Out, per million", lambda row: row.price_out, "price", order="out"),
    Column("Context", lambda row: row.model.context_length, "count", order="context"),
    Column("First token", lambda row: row.latency_ms, "ms", order="latency"),
    Column("Tokens/s", lambda row: row.throughput_tps, "count", order="speed"),
    Column("Uptime, 24 hours", lambda row: row.uptime, "percent", order="uptime"),
    Column("Providers", lambda row: row.providers, "count", order="providers"),
    Column("Modalities", lambda row: row.modalities, minor=True),
    Column("Retains nothing", lambda row: "possible" if row.retains_nothing else None, minor=True),
)


_POLICIES: Final = (("zdr", "Retains nothing"), ("private", "Does not train on it"))
# What is compared, and how it is written.
_LINES: Final[Sequence[tuple[str, Callable[[ComparedModel], str]]]] = (
    ("In, per million", lambda each: format_price(each.row.price_in)),
    ("Out, per million", lambda each: format_price(each.row.price_out)),
    ("Context", lambda each: format_count(each.row.model.context_length)),
    ("Output at most", lambda each: format_count(each.output_max)),
    ("First token, median", lambda each: format_ms(each.row.latency_ms)),
    ("Tokens/s", lambda each: format_count(each.row.throughput_tps)),
    ("Uptime, 24 hours", lambda each: format_percent(each.row.uptime)),
    ("Uptime, 7 days", lambda each: format_percent(each.uptime_7d)),
    ("Providers", lambda each: format_count(each.row.providers)),
    ("Modalities", lambda each: each.row.modalities),
    ("Retains nothing", lambda each: "possible" if each.row.retains_nothing else NOTHING),
    ("Knows up to", lambda each: each.row.model.knowledge_cutoff or NOTHING),
)


@page
def show_models(request: HttpRequest, page: PageContext) -> HttpResponse:
    account = page.scope.account
    filters = (
        Filter("text", "Name or id"),
        Filter("providers", "Provider", choices=list_providers_of_models(account)),
        Filter("input_modalities", "Takes", choices=[(each, each) for each in INPUT_MODALITIES]),
        Filter("output_modalities", "Gives", choices=[(each, each) for each in OUTPUT_MODALITIES]),
        Filter("max_price", "In, at most USD", is_number=True),
        Filter("max_output_price", "Out, at most USD", is_number=True),
        Filter("context", "Context, at least", is_number=True),
        Filter("policy", "Data policy", choices=_POLICIES),
    )
    listing = Listing[ModelRow](request, COLUMNS, "Models", filters=filters)
    found = list_models(account, listing.wanted)
    listing.load_whole(found)
    if listing.is_csv:
        return listing.respond()
    context = {"title": "Models", "count": len(found), "list": listing}
    return render_page(request, page, "console/models.html", context)


@page
def show_model(request: HttpRequest, page: PageContext, model_id: str) -> HttpResponse:
    model = find_model(page.scope.account, model_id)
    pks = [each.pk for each in model.endpoints]
    history = load_health_history(pks, page.now, page.period.length)
    context = {
        "title": model.name,
        "nav": "Models",
        "model": model,
        "endpoints": list_endpoints(model, page.now),
        "snippets": list_snippets(request.build_absolute_uri("/"), model=model.id),
        "charts": _list_charts(history, has_counts=page.scope.is_operator),
        "charts_label": history.label,
    }
    return render_page(request, page, "console/model.html", context)


@page
def show_comparison(request: HttpRequest, page: PageContext) -> HttpResponse:
    """Up to four models beside each other."""
    named = [each.strip() for each in request.GET.getlist("model") if each.strip()]
    compared = compare_models(page.scope.account, named[:COMPARED_MAX], page.now)
    known = [each.row.model.id for each in compared]
    context = {
        "title": "Compare models",
        "nav": "Models",
        "compared": compared,
        "fields": [*known, *([""] * COMPARED_MAX)][:COMPARED_MAX],
        "unknown": [each for each in named[:COMPARED_MAX] if each not in known],
        "ids": [model.id for model in list_permitted_models(page.scope.account)],
        "lines": [(label, [write(each) for each in compared]) for label, write in _LINES],
    }
    return render_page(request, page, "console/compare.html", context)


def _list_charts(history: HealthHistory, *, has_counts: bool) -> list[tuple[str, str, ChartData]]:
    """Id, title and data of each; none where nobody asked the model. How many calls other accounts
    make is for operators."""
    moments, step, stretches = history.moments, history.step, history.stretches
    if not stretches:
        return []
    times = [
        Series("Median", [each.p50_ms for each in stretches]),
        Series("90 % within", [each.p90_ms for each in stretches], "good"),
    ]
    charts = [("times", "Time to first token", line_chart(moments, times, unit="ms", step=step))]
    if has_counts:
        calls = [
            Series("Answered", [each.calls - each.errors for each in stretches]),
            Series("Failed", [each.errors for each in stretches], "bad"),
        ]
        charts.append(("calls", "Attempts", bar_chart(moments, calls, unit="count", step=step)))
    uptime = [Series("Uptime", [each.uptime for each in stretches])]
    charts.append(("uptime", "Uptime", line_chart(moments, uptime, unit="percent", step=step)))
    return charts
