"""Models that the account may call, with prices, and how their endpoints do."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from django.db.models import Sum
from django.http import Http404

from accounts.guard_rules import NO_RULES, build_account_entry, narrow_rules
from accounts.models import Account
from console.queries.endpoint_health import read_learned
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
from routing.catalogue.query import ModelQuery, Now, filter_models
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.prices import Prices
from routing.statistics.models import EndpointSample

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


# What providers do with prompts, at an endpoint of the model at least.
_POLICIES: Final[Mapping[str, Callable[[EndpointEntry], bool]]] = {
    "zdr": lambda endpoint: endpoint.zdr,
    "private": lambda endpoint: not endpoint.collects_data,
}


def list_models(account: Account, wanted: Mapping[str, str]) -> list[ModelRow]:
    """Models that the account may call and that fit, the newest first. `wanted` has filters of
    `GET /models` by their names, where empty ones filter nothing; `text` instead of `q`, words in
    any order; and `policy`. Raises `SchemaInvalid`."""
    given = {name: value for name, value in wanted.items() if value}
    words = given.pop("text", "").casefold().split()
    has_policy = _POLICIES.get(given.pop("policy", ""))
    # The API lists models that write text, unless it is asked for others.
    query = ModelQuery.read({"output_modalities": "all", **given})
    learned = read_learned()
    models = filter_models(list_permitted_models(account), query, Now(time.time(), learned))
    return [
        _build_row(model, learned)
        for model in models
        if all(word in f"{model.id} {model.name}".casefold() for word in words)
        and (has_policy is None or any(map(has_policy, list_published(model))))
    ]


def list_providers_of_models(account: Account) -> list[tuple[str, str]]:
    """The providers of the account's models, as slugs and names."""
    providers = {
        endpoint.provider.slug: endpoint.provider.name
        for model in list_permitted_models(account)
        for endpoint in list_published(model)
    }
    return sorted(providers.items(), key=lambda pair: pair[1].casefold())


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
        stats = learned.find_stats(endpoint)
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
    known = [learned.find_stats(each).uptime_1d for each in published]
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
