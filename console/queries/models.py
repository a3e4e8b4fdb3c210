"""Models that the account may call, with prices, and how their endpoints do."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from django.db.models import Sum
from django.http import Http404

from accounts.guard_rules import NO_RULES, build_account_entry, narrow_rules
from accounts.models import Account
from console.queries.endpoint_health import read_learned
from console.queries.paging import cut_page
from console.words import format_count, format_price
from routing.catalogue.listing import (
    LearnedStats,
    ListingRules,
    latency_s,
    list_permitted,
    list_published,
    throughput_tps,
    top_endpoint,
)
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.prices import Prices
from routing.statistics.models import EndpointSample

PAGE_ROWS: Final = 50
COMPARED_MAX: Final = 4
_WEEK: Final = timedelta(days=7)


class ModelRow(NamedTuple):
    """A model with the figures of the endpoint that stands for it, as far as they are known."""

    model: ModelEntry
    prices: Prices | None
    latency_ms: float | None
    throughput_tps: float | None
    uptime: float | None
    providers: int
    retains_nothing: bool

    @property
    def price_in(self) -> Decimal | None:
        return self.prices.prompt if self.prices else None

    @property
    def price_out(self) -> Decimal | None:
        return self.prices.completion if self.prices else None

    @property
    def modalities(self) -> str:
        inputs, outputs = self.model.input_modalities, self.model.output_modalities
        return f"{', '.join(inputs)} to {', '.join(outputs)}"


class ModelPage(NamedTuple):
    """Rows in order, how many fit the search in all, and where the next page begins."""

    rows: list[ModelRow]
    models: int
    next_cursor: str


class EndpointRow(NamedTuple):
    """An endpoint of a model. Figures are of this process: half an hour, uptime of a day; that of
    seven days is everybody's."""

    endpoint: EndpointEntry
    status: str
    tone: str
    latency_ms: float | None
    throughput_tps: float | None
    uptime: float | None
    uptime_7d: float | None

    @property
    def price_in(self) -> str:
        return format_price(self.endpoint.prices.prompt if self.endpoint.prices else None)

    @property
    def price_out(self) -> str:
        return format_price(self.endpoint.prices.completion if self.endpoint.prices else None)

    @property
    def output_max(self) -> str:
        return format_count(self.endpoint.max_completion_tokens)

    @property
    def data_policy(self) -> str:
        if self.endpoint.zdr:
            return "retains nothing"
        return "may train on it" if self.endpoint.collects_data else "may keep it for a while"


_Figure = Callable[[ModelRow], Any]
_FIGURES: Final[Mapping[str, _Figure]] = {
    "name": lambda row: row.model.name.casefold(),
    "in": lambda row: row.price_in,
    "out": lambda row: row.price_out,
    "context": lambda row: row.model.context_length,
    "latency": lambda row: row.latency_ms,
    "speed": lambda row: row.throughput_tps,
    "uptime": lambda row: row.uptime,
    "newest": lambda row: row.model.created,
}
NEWEST_FIRST: Final = "-newest"


def list_models(
    account: Account, text: str, *, order: str, cursor: str = "", limit: int = PAGE_ROWS
) -> ModelPage:
    """Models whose name or id contains every word; those without the figure come last."""
    learned = read_learned()
    words = text.casefold().split()
    models = [
        model
        for model in list_permitted_models(account)
        if all(word in f"{model.id} {model.name}".casefold() for word in words)
    ]
    rows = sort_rows([_build_row(model, learned) for model in models], order)
    page = cut_page(rows, cursor, limit)
    return ModelPage(page.rows, len(rows), page.next_cursor)


def sort_rows(rows: Sequence[ModelRow], order: str) -> list[ModelRow]:
    """In this order, else the newest first."""
    name, descends = order.lstrip("-"), order.startswith("-")
    if name not in _FIGURES:
        name, descends = "newest", True
    figure = _FIGURES[name]
    have = [row for row in rows if figure(row) is not None]
    lack = [row for row in rows if figure(row) is None]
    return [*sorted(have, key=figure, reverse=descends), *lack]


def list_permitted_models(account: Account) -> tuple[ModelEntry, ...]:
    """The models that the account may call, with the endpoints that it may use."""
    policy = build_account_entry(account)
    # What the account allows itself. Guardrails narrow single keys further.
    rules = ListingRules(
        allowed_providers=tuple(account.allowed_providers or ()) or None,
        ignored_providers=tuple(account.ignored_providers or ()),
        guarded=narrow_rules(NO_RULES, policy) if policy else None,
    )
    return list_permitted(catalogue.current(), rules)


def find_model(account: Account, model_id: str) -> ModelEntry:
    """The model of that id, with the endpoints that the account may use. Raises `Http404`."""
    for model in list_permitted_models(account):
        if model.id == model_id:
            return model
    raise Http404


def list_endpoints(model: ModelEntry, now: datetime) -> list[EndpointRow]:
    """Its endpoints, the cheapest first."""
    learned = read_learned()
    endpoints = sorted(list_published(model), key=lambda each: (each.token_usd, each.tag))
    uptimes = _read_week_uptimes([each.pk for each in endpoints], now)
    rows = []
    for endpoint in endpoints:
        stats = learned.of(endpoint)
        status, tone = "works", "good"
        if not endpoint.routable:
            status, tone = "switched off", "plain"
        elif endpoint.pk in learned.standing.parked:
            status, tone = "parked", "warn"
        elif endpoint.pk in learned.standing.unstable:
            status, tone = "fails", "bad"
        latency = stats.latency_30m_s or stats.latency_s
        speed = stats.throughput_30m_tps or stats.throughput_tps
        rows.append(
            EndpointRow(
                endpoint,
                status,
                tone,
                None if latency is None else latency.p50 * 1000,
                None if speed is None else speed.p50,
                stats.uptime_1d,
                uptimes.get(endpoint.pk),
            )
        )
    return rows


def _read_week_uptimes(pks: Sequence[int], now: datetime) -> dict[int, float]:
    """Percent of calls in seven days that were answered, by endpoint."""
    samples = EndpointSample.objects.filter(endpoint__in=pks, started_at__gte=now - _WEEK)
    counts = samples.values_list("endpoint").order_by().annotate(Sum("calls"), Sum("errors"))
    return {pk: 100 * (calls - errors) / calls for pk, calls, errors in counts if calls}


class ComparedModel(NamedTuple):
    """A model beside others."""

    row: ModelRow
    uptime_7d: float | None
    output_max: int | None


def compare_models(account: Account, ids: Sequence[str], now: datetime) -> list[ComparedModel]:
    """Those of these models that the account may call, in this order; four at most."""
    permitted = {model.id: model for model in list_permitted_models(account)}
    chosen = [permitted[each] for each in dict.fromkeys(ids) if each in permitted][:COMPARED_MAX]
    learned = read_learned()
    pks = [endpoint.pk for model in chosen for endpoint in list_published(model)]
    uptimes = _read_week_uptimes(pks, now)
    compared = []
    for model in chosen:
        published = list_published(model)
        week = [uptimes[each.pk] for each in published if each.pk in uptimes]
        outputs = [each.max_completion_tokens for each in published if each.max_completion_tokens]
        compared.append(
            ComparedModel(
                _build_row(model, learned), max(week, default=None), max(outputs, default=None)
            )
        )
    return compared


def _build_row(model: ModelEntry, learned: LearnedStats) -> ModelRow:
    best = top_endpoint(model)
    published = list_published(model)
    latency = latency_s(model, learned)
    known = [learned.of(each).uptime_1d for each in published]
    uptimes = [each for each in known if each is not None]
    return ModelRow(
        model,
        best.prices if best else None,
        None if latency is None else latency * 1000,
        throughput_tps(model, learned),
        max(uptimes, default=None),
        len({each.provider.slug for each in published}),
        any(each.zdr for each in published),
    )
