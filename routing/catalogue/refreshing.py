"""Bringing the prices that come from the price book to what the book says today."""

from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from routing.catalogue.models import Endpoint
from routing.catalogue.pricebook import book_prices
from routing.catalogue.version import CatalogueVersion, current_version, version_bumped

# What the book knows a price by: the provider's slug and its own name of the model.
_Entry = tuple[str, str]
_Pricing = dict[str, Any] | None


@dataclass(frozen=True)
class Drift:
    """An endpoint whose price is not the book's of today. None is no price."""

    model: str
    tag: str
    before: _Pricing
    after: _Pricing


@dataclass
class Refreshed:
    """What a refresh found. `unknown` endpoints (model, tag) are in the book no more: they keep the
    price they have."""

    version: int = 0
    drift: list[Drift] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    unchanged: int = 0


def refresh_prices(*, check: bool = False) -> Refreshed:
    """Compare the endpoints that are priced from the book with it, and store what moved.

    All of it is one version of the catalogue. A request keeps the prices it was admitted at, and
    its record names them: nothing that was charged changes. With `check` nothing is written.
    """
    # The book is slow to load, so it is asked before others are made to wait.
    prices = {entry: book_prices(*entry) for entry in set(map(_entry, _priced_from_book()))}
    with transaction.atomic():
        # Two at once, or a load beside: the second compares with what the first has written.
        CatalogueVersion.objects.select_for_update().first()
        rows = list(_priced_from_book())
        found = _compared(rows, prices)
        moved = {(each.model, each.tag): each.after for each in found.drift}
        if moved and not check:
            with version_bumped("default"):
                for row in rows:
                    if (row.model.slug, row.tag) in moved:
                        row.pricing = moved[row.model.slug, row.tag]
                        row.save(update_fields=["pricing"])
        found.version = current_version()
        return found


def _priced_from_book() -> QuerySet[Endpoint]:
    rows = Endpoint.objects.filter(price_source="book").order_by("model__slug", "tag")
    return rows.select_related("model", "provider")


def _entry(row: Endpoint) -> _Entry:
    return row.provider.slug, row.upstream_model


def _compared(rows: list[Endpoint], prices: dict[_Entry, _Pricing]) -> Refreshed:
    result = Refreshed()
    for row in rows:
        today = prices.get(_entry(row))
        if today is None:
            result.unknown.append((row.model.slug, row.tag))
        elif today == row.pricing:
            result.unchanged += 1
        else:
            result.drift.append(Drift(row.model.slug, row.tag, row.pricing, today))
    return result
