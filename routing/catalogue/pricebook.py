"""The offline price book: what well-known providers charge, from the `genai-prices` package.

The package is imported at first use, because it is slow to import and only commands need it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.db import transaction
from django.db.models import QuerySet

from gateway.doctor.findings import Finding, Question
from gateway.http.jsonio import JsonObject
from routing.catalogue.models import Endpoint
from routing.catalogue.version import CatalogueVersion, bump_version, current_version
from routing.entities.prices import PriceError, Prices, plain
from routing.entities.vocabulary import STATUS_DISABLED, STATUS_REMOVED

if TYPE_CHECKING:
    from genai_prices.types import ConditionalPrice, ModelInfo, ModelPrice

_MILLION: Final = Decimal(1_000_000)
_THOUSAND: Final = Decimal(1_000)
# The book's key -> ours, and how many of our units its price buys.
_KEYS: Final = {
    "input_mtok": ("prompt", _MILLION),
    "output_mtok": ("completion", _MILLION),
    "cache_read_mtok": ("input_cache_read", _MILLION),
    "cache_write_mtok": ("input_cache_write", _MILLION),
    "cache_write_1h_mtok": ("input_cache_write_1h", _MILLION),
    "output_reasoning_mtok": ("internal_reasoning", _MILLION),
    "input_image_mtok": ("image_token", _MILLION),
    "output_image_mtok": ("image_output", _MILLION),
    "input_audio_mtok": ("audio", _MILLION),
    "output_audio_mtok": ("audio_output", _MILLION),
    "cache_audio_read_mtok": ("input_audio_cache", _MILLION),
    "requests_kcount": ("request", _THOUSAND),
    "web_searches_kcount": ("web_search", _THOUSAND),
}
# Searches in files kept at the provider; no request through the gateway can make one.
_NEVER_CHARGED: Final = frozenset({"storage_searches_kcount"})


@dataclass(frozen=True)
class BookEntry:
    """The book's entry of a model; `pricing` is None if `Prices` cannot express it."""

    name: str | None
    context_length: int | None
    pricing: JsonObject | None


def book_prices(provider_slug: str, model: str) -> JsonObject | None:
    """Today's pricing object of a provider's model, or None when the book has no usable one."""
    entry = book_entry(provider_slug, model)
    return entry.pricing if entry else None


def book_entry(provider_slug: str, model: str) -> BookEntry | None:
    """The book's entry for `model` as the provider itself names it."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, info = get_snapshot().find_provider_model(model, None, provider_slug, None)
    except LookupError:
        return None
    return BookEntry(info.name, info.context_window, _pricing(info, datetime.now(UTC)))


def _pricing(model: "ModelInfo", now: datetime) -> JsonObject | None:
    """The pricing object, or None if one of the book's prices has no counterpart in `Prices`."""
    base, by_time = _find_prices_in_force(model, now)
    try:
        pricing = _list_base_prices(base)
        overrides = list(_list_tiers(base))
        for conditional in by_time:
            overrides += _list_overrides_by_time(conditional, pricing)
        if overrides:
            pricing["overrides"] = overrides
        return Prices.parse(pricing).serialize()
    except (PriceError, KeyError):
        return None


def _find_prices_in_force(
    model: "ModelInfo", now: datetime
) -> "tuple[ModelPrice, list[ConditionalPrice]]":
    """The newest price list that has begun, and those after it that depend on the time of day."""
    from genai_prices.types import ModelPrice, TimeOfDateConstraint

    if isinstance(model.prices, ModelPrice):
        return model.prices, []
    base, by_time = model.prices[0].prices, []
    for conditional in model.prices[1:]:
        if isinstance(conditional.constraint, TimeOfDateConstraint):
            by_time.append(conditional)
        elif conditional.constraint is None or conditional.constraint.active(now):
            base, by_time = conditional.prices, []
    return base, by_time


def _list_prices(prices: "ModelPrice") -> Iterator[tuple[str, Any, Decimal]]:
    """Our key, the book's price and the divisor. Raises `KeyError` for a price without a key."""
    for book_key, price in vars(prices).items():
        if price is not None and book_key not in _NEVER_CHARGED:
            key, units = _KEYS[book_key]
            yield key, price, units


def _list_base_prices(prices: "ModelPrice") -> JsonObject:
    return {
        key: plain(getattr(price, "base", price) / units)
        for key, price, units in _list_prices(prices)
    }


def _list_tiers(prices: "ModelPrice") -> Iterator[JsonObject]:
    """One override for each threshold and key, lowest threshold first so that the highest wins."""
    steps = [
        (tier.start, key, plain(tier.price / units))
        for key, price, units in _list_prices(prices)
        for tier in getattr(price, "tiers", ())
    ]
    for start in sorted({start for start, _, _ in steps}):
        replaced = {key: price for at, key, price in steps if at == start}
        yield {"min_prompt_tokens": start, **replaced}


def _list_overrides_by_time(
    conditional: "ConditionalPrice", base: JsonObject
) -> Iterator[JsonObject]:
    constraint: Any = conditional.constraint
    window = {
        "utc_start": _format_utc(constraint.start_time),
        "utc_end": _format_utc(constraint.end_time),
    }
    listed = _list_base_prices(conditional.prices)
    # The book replaces its whole list. A cache price it leaves out there is the prompt price again.
    absent = {key: listed["prompt"] for key in base if "cache" in key and key not in listed}
    yield {**window, **absent, **listed}
    for tier in _list_tiers(conditional.prices):
        yield {**window, **tier}


def _format_utc(moment: time) -> str:
    if moment.tzinfo is None:
        return moment.strftime("%H%M")
    at = datetime.combine(datetime(2000, 1, 2, tzinfo=UTC), moment)
    return at.astimezone(UTC).strftime("%H%M")


# What the book knows a price by: the provider's slug and its own name of the model.
_Entry = tuple[str, str]
_Pricing = JsonObject | None


@dataclass(frozen=True)
class Drift:
    """An endpoint whose price is not the book's of today. None is no price."""

    model: str
    tag: str
    before: _Pricing
    after: _Pricing


@dataclass
class PriceRefresh:
    """The result of a refresh. `unknown` endpoints (model, tag) are no longer in the book and keep
    their price."""

    version: int = 0
    drift: list[Drift] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    unchanged: int = 0


def refresh_prices(*, check: bool = False) -> PriceRefresh:
    """Compare the endpoints that are priced from the book with it, and store what moved.

    All of it is one version of the catalogue. A request keeps the prices it was admitted at, and
    its record names them: nothing that was charged changes. With `check` nothing is written.
    """
    # The book is slow to load, so prices are looked up before the lock is taken.
    prices = {entry: book_prices(*entry) for entry in set(map(_name_entry, _list_book_priced()))}
    with transaction.atomic():
        # Two at once, or a load meanwhile: the second compares with what the first has written.
        CatalogueVersion.objects.select_for_update().first()
        rows = list(_list_book_priced())
        refresh = PriceRefresh()
        for row in rows:
            today = prices.get(_name_entry(row))
            if today is None:
                refresh.unknown.append((row.model.slug, row.tag))
            elif today == row.pricing:
                refresh.unchanged += 1
            else:
                refresh.drift.append(Drift(row.model.slug, row.tag, row.pricing, today))
        moved = {(each.model, each.tag): each.after for each in refresh.drift}
        if moved and not check:
            with bump_version("default"):
                for row in rows:
                    if (row.model.slug, row.tag) in moved:
                        row.pricing = moved[row.model.slug, row.tag]
                        row.save(update_fields=["pricing"])
        refresh.version = current_version()
        return refresh


def _list_book_priced() -> QuerySet[Endpoint]:
    rows = Endpoint.objects.filter(price_source="book").order_by("model__slug", "tag")
    return rows.select_related("model", "provider")


def _name_entry(row: Endpoint) -> _Entry:
    return row.provider.slug, row.upstream_model


def examine_prices(question: Question) -> Iterator[Finding]:
    """What `manage.py doctor` says of the catalogue and its prices."""
    offered = Endpoint.objects.exclude(status__in=(STATUS_DISABLED, STATUS_REMOVED))
    total, unpriced = offered.count(), offered.filter(pricing__isnull=True).count()
    if not total:
        advice = "Run: manage.py add_provider NAME"
        yield Finding("catalogue", "warning", "no endpoint is offered", advice)
        return
    if unpriced:
        advice = "They are never called: give them a price in the admin, or disable them."
        text = f"{unpriced} of {total} endpoints have no price"
        yield Finding("prices", "warning", text, advice)
    drift = refresh_prices(check=True).drift
    if drift:
        advice = "Run: manage.py refresh_prices"
        text = f"{len(drift)} of {total} endpoints cost other than the price book says"
        yield Finding("prices", "warning", text, advice)
    if not (unpriced or drift):
        yield Finding("prices", "ok", f"each of {total} endpoints has its price")
