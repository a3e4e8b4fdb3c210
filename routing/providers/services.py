"""Adding a real provider with the models it serves, and what an operator changes of one in service.

Every change leaves an audit record; web processes follow within a second.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from django.db import transaction

from accounts.services.records import SYSTEM, Actor, read_fields, record_change
from gateway.database.db import release_connection
from gateway.sealing import UnsealError
from routing.catalogue.models import Endpoint, Model, Provider
from routing.catalogue.pricebook import BookEntry, book_entry
from routing.catalogue.version import current_version
from routing.entities.vocabulary import STATUS_DISABLED
from routing.providers.discovery import FoundModel, KnownProvider, discover
from routing.providers.probes import TOTAL_S, ProbeResult, probe_models

_MILLION: Final = 1_000_000


@dataclass
class AddedModels:
    """The ids of the models by outcome."""

    version: int = 0
    enabled: list[str] = field(default_factory=list)
    unpriced: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    # Outcomes by probe, by model.
    probed: dict[str, dict[str, str]] = field(default_factory=dict)


def add_provider(
    provider: KnownProvider,
    key: str | None,
    *,
    pricing: dict[str, str] | None = None,
    named: Sequence[str] = (),
    probe_s: float = TOTAL_S,
    parked: bool = False,
    by: Actor = SYSTEM,
) -> AddedModels:
    """List the provider's models, or those `named`, then store it with them. Repeating it changes
    nothing.

    Models in the price book are enabled; `pricing` prices the others, which otherwise are stored
    disabled. For up to `probe_s` a few calls find out which parameters the enabled ones take, if
    the provider does not say. A new provider that is `parked` gets no requests yet, and all of its
    models are probed: prices come later. Existing rows keep an operator's changes. Raises
    `DiscoveryError` before anything is stored.
    """
    release_connection()
    models = discover(provider, key, named=named)
    books = {
        model.id: book_entry(provider.slug, model.upstream_model) for model in models if model.chats
    }
    probed: dict[str, ProbeResult] = {}
    if probe_s:
        priced = {
            name for name, book in books.items() if parked or pricing or (book and book.pricing)
        }
        # What has a priced endpoint may have been changed by an operator.
        rows = Endpoint.objects.filter(provider__slug=provider.slug, tag=provider.slug)
        there = set(rows.filter(pricing__isnull=False).values_list("model__slug", flat=True))
        unknown = [each for each in models if each.assumed and each.id in priced - there]
        release_connection()
        probed = probe_models(provider, key, unknown, within_s=probe_s)
    with transaction.atomic():
        row = _store_provider(provider, key, parked=parked, by=by)
        added = AddedModels()
        for model in models:
            probe_result = probed.get(model.id)
            if not model.chats or (probe_result and not probe_result.chats):
                added.skipped.append(model.id)
                continue
            endpoint = _add_model(added, row, model, books[model.id], pricing)
            if probe_result is None or endpoint is None:
                continue
            if endpoint.supported_parameters == model.supported_parameters:
                endpoint.supported_parameters = probe_result.parameters
                endpoint.save(update_fields=["supported_parameters"])
                added.probed[model.id] = probe_result.outcomes
        added.version = current_version()
    return added


def _store_provider(
    provider: KnownProvider, key: str | None, *, parked: bool, by: Actor
) -> Provider:
    base_url = provider.base_url.rstrip("/")
    row = Provider.objects.filter(slug=provider.slug).first()
    is_new = row is None
    if row is None:
        row = Provider(slug=provider.slug, name=provider.name, kind=provider.kind)
        row.status = STATUS_DISABLED if parked else 0
    else:
        try:
            credential = row.credential()
        except UnsealError:
            credential = None
        if (row.base_url, credential, row.kind) == (base_url, key, provider.kind):
            return row
    row.base_url, row.kind = base_url, provider.kind
    row.set_credential(key)
    row.save()
    record_change(
        by=by,
        action="added" if is_new else "updated",
        object_type="provider",
        object_id=row.slug,
        account_id=None,
        before=None,
        after=read_fields(row, ("name", "kind", "base_url", "status")),
    )
    return row


def find_kind(slug: str) -> str | None:
    """The wire kind of a stored provider."""
    return Provider.objects.filter(slug=slug).values_list("kind", flat=True).first()


def _add_model(
    added: AddedModels,
    provider: Provider,
    listed: FoundModel,
    book: BookEntry | None,
    fallback: dict[str, str] | None,
) -> Endpoint | None:
    """Store a model and its endpoint; None if a priced endpoint exists, which stays as it is."""
    pricing = (book.pricing if book else None) or fallback
    model = Model.objects.filter(slug=listed.id).first()
    endpoint = model.endpoints.filter(tag=provider.slug).first() if model else None
    if endpoint and endpoint.pricing is not None:
        added.kept.append(listed.id)
        return None
    if model is None:
        model = Model.objects.create(
            slug=listed.id,
            canonical_slug=listed.id,
            name=listed.name or (book.name if book else None) or listed.id,
            created=listed.created or int(time.time()),
            context_length=listed.context_length or (book.context_length if book else None),
            input_modalities=listed.input_modalities,
            output_modalities=["text"],
            visible=pricing is not None,
        )
    elif pricing is not None and not model.endpoints.filter(pricing__isnull=False).exists():
        # It was hidden because it had no price, and now has one.
        model.visible = True
        model.save(update_fields=["visible"])
    if endpoint is None:
        endpoint = Endpoint(
            model=model,
            provider=provider,
            tag=provider.slug,
            upstream_model=listed.upstream_model,
            context_length=listed.context_length,
            max_completion_tokens=listed.max_completion_tokens,
            supported_parameters=listed.supported_parameters,
        )
    if endpoint.pk is None or pricing is not None:
        endpoint.pricing = pricing
        endpoint.price_source = "book" if book and book.pricing else "hand"
        endpoint.save()
    (added.unpriced if pricing is None else added.enabled).append(listed.id)
    return endpoint


# --- A provider in service ------------------------------------------------------------------------


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
        record_change(
            by=by,
            action="switched",
            object_type="provider",
            object_id=provider.slug,
            account_id=None,
            before={"status": before},
            after={"status": status},
        )


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
            record_change(
                by=by,
                action="priced",
                object_type="endpoint",
                object_id=row.model.slug[:64],
                account_id=None,
                before={"pricing": before},
                after={"pricing": pricing},
            )
    return changed
