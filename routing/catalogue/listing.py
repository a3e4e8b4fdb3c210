"""Which models and endpoints the API shows, to everybody and to one account."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry, Snapshot
from routing.entities.vocabulary import STATUS_REMOVED
from routing.selection.filters import policy_tests
from routing.selection.guardrail_filters import GuardrailChoice
from routing.selection.policy import apply_guardrails
from routing.selection.provider_references import reference_test
from routing.selection.types import NO_POLICY

# Accounts' listings kept with a snapshot; past it the memory of them begins anew.
_LISTINGS_MAX: Final = 8


class Rules(NamedTuple):
    """What an account's requests are held to; None and empty say nothing. Providers are named as in
    inference reference 7.2, and a provider's name means its tiers too. `region` is a regional
    host's. `guarded` is hashable."""

    allowed_providers: tuple[str, ...] | None = None
    ignored_providers: tuple[str, ...] = ()
    zdr: bool = False
    denies_collection: bool = False
    region: str | None = None
    guarded: GuardrailChoice | None = None


NO_RULES: Final = Rules()


def published(model: ModelEntry) -> list[EndpointEntry]:
    """The endpoints the API shows: priced and not removed."""
    return [
        endpoint
        for endpoint in model.endpoints
        if endpoint.prices is not None and endpoint.status > STATUS_REMOVED
    ]


def top(model: ModelEntry) -> EndpointEntry | None:
    """The endpoint that stands for a model: the cheapest of those that could serve it best."""
    return min(published(model), key=_rank, default=None)


def _rank(endpoint: EndpointEntry) -> tuple[object, ...]:
    assert endpoint.prices is not None
    price = endpoint.prices.prompt + endpoint.prices.completion
    return (not endpoint.routable, endpoint.tier != "default", price, endpoint.tag)


def permitted(snapshot: Snapshot, rules: Rules) -> tuple[ModelEntry, ...]:
    """The listed models with the endpoints that the rules leave; those left none are not there."""
    if rules == NO_RULES:
        return snapshot.listing
    known = snapshot.derive(_Listings)
    found = known.by_rules.get(rules)
    if found is None:
        found = _narrowed(snapshot.listing, rules)
        # Replaced whole: this may run in several threads.
        kept = known.by_rules if len(known.by_rules) < _LISTINGS_MAX else {}
        known.by_rules = {**kept, rules: found}
    return found


class _Listings:
    def __init__(self, snapshot: Snapshot) -> None:
        self.by_rules: dict[Rules, tuple[ModelEntry, ...]] = {}


def _narrowed(models: Iterable[ModelEntry], rules: Rules) -> tuple[ModelEntry, ...]:
    ignored = reference_test(rules.ignored_providers, _open)
    allowed = reference_test(rules.allowed_providers, _open) if rules.allowed_providers else _open

    policy = apply_guardrails(NO_POLICY, rules.guarded) if rules.guarded else NO_POLICY
    guards = policy_tests(policy)

    def allows(endpoint: EndpointEntry) -> bool:
        return (
            (not rules.zdr or endpoint.zdr)
            and not (rules.denies_collection and endpoint.collects_data)
            and rules.region in (None, endpoint.region)
            and not ignored(endpoint)
            and allowed(endpoint)
            and all(test(endpoint) for test in guards)
        )

    left = [_with_only(model, tuple(filter(allows, model.endpoints))) for model in models]
    return tuple(filter(published, left))


def _open(endpoint: EndpointEntry) -> bool:
    """A request may open every service tier."""
    return True


def _with_only(model: ModelEntry, endpoints: tuple[EndpointEntry, ...]) -> ModelEntry:
    all_left = len(endpoints) == len(model.endpoints)
    return model if all_left else replace(model, endpoints=endpoints)
