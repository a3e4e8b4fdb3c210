"""Replaying a period: the generations, and the rules that are tried on them."""

import random
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from django.db.models import Q, QuerySet

from accounts.guard_rules import CatalogueRules, GuardrailEntry, narrow_rules
from gateway.database.db import let_others_run
from routing.entities.entries import Snapshot
from routing.entities.prices import Prices
from routing.formats.provider_preferences import ProviderPreferences
from routing.metering.models import Generation
from routing.selection.resolution import apply_guardrails
from routing.selection.types import Policy
from routing.what_if.comparison import Comparison, GenerationRow, change_policy, compare

_MILLION: Final = 1_000_000
_PORTION_ROWS: Final = 500
# A row takes about 0.3 ms.
_ROWS_AT_ONCE: Final = 10


class Period(NamedTuple):
    """Which generations are replayed: those of `rows` from `since` to before `until`. At most
    `limit`, the newest first; None means all."""

    since: datetime
    until: datetime
    rows: QuerySet[Generation]
    limit: int | None = None


class PriceChange(NamedTuple):
    """Other prices for a model's endpoints of one provider (slug, name or tag), in USD per million
    tokens; None leaves a price as it is."""

    model: str
    provider: str
    prompt: Decimal | None = None
    completion: Decimal | None = None


class Rules(NamedTuple):
    """The rules that are tried. The `named` keys of `preferences` replace those of each request,
    the rest is added to what held then. `seed` is that of the draws of load balancing."""

    preferences: ProviderPreferences = ProviderPreferences()
    named: Collection[str] = ()
    ignored_providers: Sequence[str] = ()
    guardrail: GuardrailEntry | None = None
    prices: Sequence[PriceChange] = ()
    seed: int = 0


class NoSuchEndpoint(LookupError):
    """`at` is the place of the price change that fits no endpoint of the catalogue."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def replay_period(period: Period, rules: Rules, snapshot: Snapshot) -> Comparison:
    """What the period would have come to under the rules. Raises `NoSuchEndpoint`."""
    dice = random.Random(rules.seed)  # noqa: S311 - Load balancing; guards nothing.
    return compare(
        load_rows(period),
        snapshot,
        lambda policy: apply_rules(policy, rules),
        changed=change_prices(snapshot, rules.prices),
        random=dice.random,
    )


def apply_rules(policy: Policy, rules: Rules) -> Policy:
    """The policy of a request under the rules."""
    changed = change_policy(policy, rules.preferences, rules.named)
    if rules.ignored_providers:
        ignored = (*changed.account_ignored, *rules.ignored_providers)
        changed = replace(changed, account_ignored=ignored, is_shared=False)
    if rules.guardrail is not None:
        choice = CatalogueRules(
            allowed_models=changed.guard_models,
            ignored_models=changed.guard_ignored_models,
            allowed_providers=changed.guard_providers,
            ignored_providers=changed.guard_ignored_providers,
            regions=changed.guard_regions,
            zdr=changed.zdr_groups,
            denies_collection=changed.deny_data_collection,
            forbidden_uses=changed.forbidden_uses,
        )
        changed = apply_guardrails(changed, narrow_rules(choice, rules.guardrail))
    return changed


def change_prices(snapshot: Snapshot, changes: Sequence[PriceChange]) -> Snapshot:
    """The catalogue with other prices. Raises `NoSuchEndpoint`."""
    if not changes:
        return snapshot
    models = dict(snapshot.models)
    for at, change in enumerate(changes):
        named = snapshot.model(change.model)
        reference = change.provider.casefold()
        wanted = {"prompt": change.prompt, "completion": change.completion}
        given = {name: usd / _MILLION for name, usd in wanted.items() if usd is not None}
        endpoints, has_changed = [], False
        for endpoint in models[named.id].endpoints if named else ():
            if reference == endpoint.tag_key or reference in endpoint.provider.names:
                has_changed = True
                # Other prices stay; a discount and overrides would blur the question.
                prices = endpoint.prices or Prices(prompt=Decimal(0), completion=Decimal(0))
                prices = replace(prices, **given, discount=Decimal(0), overrides=())
                endpoint = replace(endpoint, prices=prices)
            endpoints.append(endpoint)
        if named is None or not has_changed:
            raise NoSuchEndpoint(at)
        models[named.id] = replace(models[named.id], endpoints=tuple(endpoints))
    return replace(snapshot, models=MappingProxyType(models))


def load_rows(period: Period) -> Iterator[GenerationRow]:
    """Newest first, portion by portion. A period may hold millions, and a cursor over all of them
    would keep a transaction open (on SQLite one that the ledger waits for)."""
    rows = period.rows.filter(created_at__gte=period.since, created_at__lt=period.until, lost=False)
    ordered = rows.order_by("-created_at", "-pk").values_list("pk", *GenerationRow._fields)
    behind, left = Q(), sys.maxsize if period.limit is None else period.limit
    while left > 0:
        portion = list(ordered.filter(behind)[: min(left, _PORTION_ROWS)])
        for at, (_, *values) in enumerate(portion):
            yield GenerationRow(*values)
            if at % _ROWS_AT_ONCE == 0:
                let_others_run()
        if len(portion) < _PORTION_ROWS:
            return
        left -= len(portion)
        pk, created_at = portion[-1][:2]
        # The first condition is the one that the index serves.
        behind = Q(created_at__lte=created_at) & (Q(created_at__lt=created_at) | Q(pk__lt=pk))
