"""Prices in lists: USD per million tokens, as providers publish them."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest

from routing.entities.prices import PriceError, Prices, plain

_MILLION: Final = 1_000_000


def has_price(prefix: str = "") -> Q:
    return Q(**{f"{prefix}pricing__isnull": False})


def per_million(pricing: Any, key: str) -> str | None:
    """One price of a pricing object; None where there is none."""
    try:
        prices = Prices.parse(pricing)
    except PriceError as error:
        return None if pricing is None else f"unusable: {error}"
    return plain(getattr(prices, key) * _MILLION)


class PricedRows:
    """Columns for pages of endpoints."""

    @admin.display(description="prompt (USD per million)")
    def prompt_price(self, endpoint: Any) -> str | None:
        return per_million(endpoint.pricing, "prompt")

    @admin.display(description="completion (USD per million)")
    def completion_price(self, endpoint: Any) -> str | None:
        return per_million(endpoint.pricing, "completion")


class PricedFilter(admin.SimpleListFilter):
    """Endpoints without a price are never called."""

    title = "price"
    parameter_name = "priced"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Priced"), ("no", "Without a price")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        match self.value():
            case "yes":
                return queryset.filter(has_price())
            case "no":
                return queryset.exclude(has_price())
        return queryset
