"""Providers: how they do now, what went wrong, and which share of the view's traffic is theirs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from django.shortcuts import get_object_or_404

from accounts.models import Event
from console.queries.endpoint_health import read_learned
from console.queries.paging import Page, cut_page
from console.queries.usage import sum_by_endpoint
from console.scope import Scope
from console.words import Badge, format_price
from routing.admin.charts import STRETCH, Stretch
from routing.catalogue.listing import LearnedStats
from routing.catalogue.models import Endpoint, Provider
from routing.entities.prices import PriceError, Prices
from routing.entities.vocabulary import STATUS_DISABLED, STATUS_ROUTABLE_MIN

ENDPOINTS_SHOWN: Final = 100
_MILLION: Final = 1_000_000
_INCIDENTS_SHOWN: Final = 20
# A stretch in which half of the calls failed is an incident, if there were some.
_CALLS_MIN: Final = 4
_FAILING: Final = 0.5
# The columns of an endpoint that its health is judged by.
_JUDGED: Final = ("pk", "provider_id", "pricing", "status")


class ProviderUse(NamedTuple):
    """What a view's requests did at a provider; money in nano-USD."""

    requests: int = 0
    failed: int = 0
    spend_nano: int = 0

    @property
    def error_percent(self) -> float | None:
        return 100 * self.failed / self.requests if self.requests else None


class ProviderRow(NamedTuple):
    """A provider, its endpoints, its health now and its use; `share` is of all requests."""

    provider: Provider
    health: Badge
    models: int
    unpriced: int
    use: ProviderUse
    share: float | None
    latency_ms: float | None


def list_providers(scope: Scope, start: datetime, now: datetime) -> list[ProviderRow]:
    """All of them, those with the most requests first."""
    endpoints: dict[int, list[Endpoint]] = {}
    for each in Endpoint.objects.only(*_JUDGED):
        endpoints.setdefault(each.provider_id, []).append(each)
    uses, learned = read_uses(scope, start, now), read_learned()
    total = sum(use.requests for use in uses.values())
    rows = [
        _build_row(provider, endpoints.get(provider.pk, []), learned, uses, total)
        for provider in Provider.objects.order_by("name")
    ]
    return sorted(rows, key=lambda row: -row.use.requests)


def _build_row(
    provider: Provider,
    endpoints: Sequence[Endpoint],
    learned: LearnedStats,
    uses: Mapping[str, ProviderUse],
    total: int,
) -> ProviderRow:
    use = uses.get(provider.slug, ProviderUse())
    known = [learned.figures.get(each.pk) for each in endpoints]
    percentiles = [each.latency_30m_s or each.latency_s for each in known if each is not None]
    times = sorted(each.p50 for each in percentiles if each is not None)
    return ProviderRow(
        provider,
        judge_health(provider, endpoints, learned),
        len(endpoints),
        sum(each.pricing is None for each in endpoints),
        use,
        100 * use.requests / total if total else None,
        # The median of its endpoints' median times to a first token.
        times[len(times) // 2] * 1000 if times else None,
    )


def find_provider(
    slug: str, scope: Scope, start: datetime, now: datetime
) -> "tuple[ProviderRow, list[EndpointPrice]]":
    """The provider, and the first of its models with their prices. Raises `Http404`."""
    provider = get_object_or_404(Provider, slug=slug)
    endpoints = _load_priced_last(provider)
    uses = read_uses(scope, start, now)
    total = sum(use.requests for use in uses.values())
    row = _build_row(provider, endpoints, read_learned(), uses, total)
    return row, [_build_price(each) for each in endpoints[:ENDPOINTS_SHOWN]]


def judge_health(provider: Provider, endpoints: Sequence[Endpoint], learned: LearnedStats) -> Badge:
    """How it does now, as far as this process knows, in a word."""
    if provider.status <= STATUS_DISABLED:
        return Badge("plain", "parked")
    if provider.status < STATUS_ROUTABLE_MIN:
        return Badge("bad", "down")
    usable = [each.pk for each in endpoints if each.pricing is not None and each.status >= -2]
    if not usable:
        return Badge("warn", "no prices")
    resting = [pk for pk in usable if pk in learned.standing.parked]
    failing = [pk for pk in usable if pk in learned.standing.unstable]
    for tone, pks, word in (("bad", failing, "failing"), ("warn", resting, "asked for a pause")):
        if pks:
            return Badge(tone, word if len(pks) == len(usable) else f"{word}: {len(pks)} models")
    return Badge("good", "works")


def read_uses(scope: Scope, start: datetime, now: datetime) -> dict[str, ProviderUse]:
    """By slug, which endpoints' tags begin with."""
    uses: dict[str, ProviderUse] = {}
    for each in sum_by_endpoint(scope, start, now):
        slug = each.tag.partition("/")[0]
        use = uses.get(slug, ProviderUse())
        uses[slug] = ProviderUse(
            use.requests + each.requests,
            use.failed + each.failed,
            use.spend_nano + each.spend_nano,
        )
    return uses


class EndpointPrice(NamedTuple):
    """An endpoint with its prices as USD for a million tokens; None where it has none."""

    endpoint: Endpoint
    prompt: Decimal | None
    completion: Decimal | None

    @property
    def prompt_text(self) -> str:
        return format_price(None if self.prompt is None else self.prompt / _MILLION)

    @property
    def completion_text(self) -> str:
        return format_price(None if self.completion is None else self.completion / _MILLION)


def list_prices(provider: Provider, text: str, cursor: str) -> Page[EndpointPrice]:
    """The provider's models whose name contains the text, those without a price first."""
    page = cut_page(_load_priced_last(provider, text), cursor, ENDPOINTS_SHOWN)
    return Page([_build_price(row) for row in page.rows], page.next_cursor)


def _load_priced_last(provider: Provider, text: str = "") -> list[Endpoint]:
    rows = Endpoint.objects.filter(provider=provider, model__slug__icontains=text)
    by_name = rows.select_related("model").order_by("model__slug")
    return sorted(by_name, key=lambda row: row.pricing is not None)


def _build_price(row: Endpoint) -> EndpointPrice:
    try:
        prices = Prices.parse(row.pricing)
    except PriceError:
        return EndpointPrice(row, None, None)
    return EndpointPrice(row, _scale(prices.prompt), _scale(prices.completion))


def _scale(usd: Decimal) -> Decimal:
    """USD for a million, without the zeros that say nothing."""
    text = f"{(usd * _MILLION).normalize():f}"
    return Decimal(text)


class Incident(NamedTuple):
    """A time in which calls of the provider failed, or a probe; `end` is None while it lasts."""

    start: datetime
    end: datetime | None
    what: str


def list_incidents(
    provider: Provider, samples: Sequence[Stretch], since: datetime, *, has_counts: bool
) -> list[Incident]:
    """When at least half of the calls failed, and when the gateway reported it; newest first.
    Operators alone see how many calls all accounts made."""
    found: list[Incident] = []
    calls = errors = 0
    for each in samples:
        if each.calls < _CALLS_MIN or each.errors / each.calls < _FAILING:
            continue
        start, end = each.started_at, each.started_at + STRETCH
        if found and found[-1].end is not None and start <= found[-1].end:
            start = found.pop().start
            calls, errors = calls + each.calls, errors + each.errors
        else:
            calls, errors = each.calls, each.errors
        what = f"{errors} of {calls}" if has_counts else f"{100 * errors / calls:.0f} % of"
        found.append(Incident(start, end, f"{what} calls failed"))
    found += _list_reported_incidents(provider, since)
    return sorted(found, key=lambda incident: incident.start, reverse=True)[:_INCIDENTS_SHOWN]


def _list_reported_incidents(provider: Provider, since: datetime) -> list[Incident]:
    """What watchers reported of the provider: down, until it was back."""
    events = Event.objects.filter(
        account__isnull=True, kind__in=("provider.down", "provider.up"), at__gte=since
    ).order_by("at")
    found: list[Incident] = []
    for event in events.filter(data__provider=provider.slug):
        if event.kind == "provider.down":
            found.append(Incident(event.at, None, event.text.partition(" Requests go")[0]))
        elif found and found[-1].end is None:
            found[-1] = found[-1]._replace(end=event.at)
    return found
