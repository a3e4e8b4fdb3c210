"""What an operator changes of a provider in service: whether it gets requests, and its prices.

Every change leaves an audit record; web processes follow within a second.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from django.db import transaction

from accounts.services.records import Actor, record_change
from gateway.http.jsonio import JsonObject
from routing.catalogue.models import Endpoint, Provider
from routing.entities.vocabulary import STATUS_DISABLED

_MILLION: Final = 1_000_000


class PricePerMillion(NamedTuple):
    """USD for a million tokens in, and out."""

    prompt: Decimal
    completion: Decimal


def switch_provider(*, provider: Provider, parked: bool, by: Actor) -> None:
    """Send it no more requests until it is unparked, or send it requests again."""
    before, status = provider.status, STATUS_DISABLED if parked else 0
    with transaction.atomic():
        provider.status = status
        provider.save(update_fields=["status"])
        _record(by, "switched", provider, {"status": before}, {"status": status})


def price_endpoints(*, provider: Provider, prices: Mapping[int, PricePerMillion], by: Actor) -> int:
    """Set what tokens cost at these endpoints of the provider, by number; what else has a price
    there keeps it. Models that were hidden for want of one are shown. Returns how many changed."""
    changed = 0
    with transaction.atomic():
        rows = Endpoint.objects.select_for_update(no_key=True, of=("self",))
        for row in rows.filter(provider=provider, pk__in=prices).select_related("model"):
            each = prices[row.pk]
            pricing = {
                **(row.pricing or {}),
                **{name: f"{value / _MILLION:f}" for name, value in each._asdict().items()},
            }
            if pricing == row.pricing:
                continue
            before, was_hidden = row.pricing, row.pricing is None
            row.pricing, row.price_source = pricing, "hand"
            row.save(update_fields=["pricing", "price_source"])
            if was_hidden and not row.model.visible:
                row.model.visible = True
                row.model.save(update_fields=["visible"])
            changed += 1
            facts = {"pricing": before}, {"pricing": pricing}
            _record(by, "priced", provider, *facts, endpoint=row)
    return changed


def _record(
    by: Actor,
    action: str,
    provider: Provider,
    before: JsonObject,
    after: JsonObject,
    *,
    endpoint: Endpoint | None = None,
) -> None:
    record_change(
        by=by,
        action=action,
        object_type="provider" if endpoint is None else "endpoint",
        object_id=provider.slug if endpoint is None else f"{endpoint.model.slug}"[:64],
        account_id=None,
        before=before,
        after=after,
    )
