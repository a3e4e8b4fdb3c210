"""Filters of guardrails and of the account's own policy, which no request can change.

Models are named by id or canonical slug, providers by slug. A list that is None allows everything;
an empty list allows nothing (two lists without a common member make one).
"""

from collections.abc import Mapping
from functools import reduce
from types import MappingProxyType
from typing import Final, Protocol

from routing.entities.entries import EndpointEntry
from routing.entities.identity_cache import IdentityCache
from routing.selection.model_references import Test
from routing.selection.types import Policy

# The group of a model, by its author, for zero data retention; all others are `other`.
_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "anthropic",
        "openai": "openai",
        "google": "google",
        "x-ai": "xai",
        "xai": "xai",
    }
)
ZDR_GROUPS: Final = frozenset({*_GROUPS.values(), "other"})
PAID_TRAINING: Final = "paid training"
FREE_TRAINING: Final = "free training"
FREE_PUBLICATION: Final = "free publication"


class GuardrailChoice(Protocol):
    """The restrictions of all guardrails of a key together."""

    @property
    def allowed_models(self) -> frozenset[str] | None: ...
    @property
    def ignored_models(self) -> frozenset[str]: ...
    @property
    def allowed_providers(self) -> frozenset[str] | None: ...
    @property
    def ignored_providers(self) -> frozenset[str]: ...
    @property
    def regions(self) -> frozenset[str] | None: ...
    @property
    def zdr(self) -> frozenset[str]: ...
    @property
    def denies_collection(self) -> bool: ...
    @property
    def forbidden_uses(self) -> frozenset[str]: ...


def zdr_group(model_id: str) -> str:
    """`anthropic`, `openai`, `google`, `xai` or `other`."""
    return _GROUPS.get(model_id.partition("/")[0].casefold(), "other")


def _build_guardrail_test(policy: Policy) -> Test | None:
    tests: list[Test] = []
    models, ignored_models = policy.guard_models, policy.guard_ignored_models
    providers, ignored = policy.guard_providers, policy.guard_ignored_providers
    regions = policy.guard_regions
    if models is not None:
        tests.append(lambda each: each.canonical_slug in models or each.model_id in models)
    if ignored_models:
        tests.append(
            lambda each: (
                each.canonical_slug not in ignored_models and each.model_id not in ignored_models
            )
        )
    if providers is not None:
        tests.append(lambda each: each.provider.slug in providers)
    if ignored:
        tests.append(lambda each: each.provider.slug not in ignored)
    if regions is not None:
        tests.append(lambda each: each.region in regions)
    return reduce(_both, tests) if tests else None


def _both(first: Test, second: Test) -> Test:
    return lambda endpoint: first(endpoint) and second(endpoint)


# The test that the lists of models, providers and regions make; None if there are no lists.
# All requests of a key with guardrails share one policy object.
guardrail_test: IdentityCache[Policy, Test | None] = IdentityCache(
    _build_guardrail_test, may_keep=lambda test: test is not None
)


def forbids_use(forbidden: frozenset[str], endpoint: EndpointEntry) -> bool:
    """Whether the endpoint uses prompts (training, publication) in a forbidden way."""
    prices = endpoint.prices
    if prices is not None and prices.is_free:
        return (endpoint.collects_data and FREE_TRAINING in forbidden) or (
            endpoint.publishes_data and FREE_PUBLICATION in forbidden
        )
    return endpoint.collects_data and PAID_TRAINING in forbidden


def zdr_test(groups: frozenset[str]) -> Test:
    """A test that an endpoint retains no data, unless its model's group may be retained."""
    return lambda endpoint: endpoint.zdr or zdr_group(endpoint.model_id) not in groups
