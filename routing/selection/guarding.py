"""What guardrails and the account's own policy take out, whatever the request says.

Models go by canonical slug, providers by slug. A list that is None allows everything, an empty one
nothing: lists that have nothing in common leave none.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Final, Protocol

from routing.entities.derived import Derived
from routing.entities.entries import EndpointEntry
from routing.selection.ask import Policy
from routing.selection.references import Test

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


class Guarded(Protocol):
    """All that guardrails say of the choice, put together."""

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


def _permitting(policy: Policy) -> Test | None:
    tests = list(_tests(policy))
    return reduce(_both, tests) if tests else None


def _both(first: Test, second: Test) -> Test:
    return lambda endpoint: first(endpoint) and second(endpoint)


def _says_something(test: Test | None) -> bool:
    return test is not None


# Whether the lists of models, providers and regions leave an endpoint; None where there are none.
# The policy of a key that has guardrails stays the same object.
permitting: Derived[Policy, Test | None] = Derived(_permitting, may_keep=_says_something)


def _tests(policy: Policy) -> Iterator[Test]:
    models, ignored_models = policy.guard_models, policy.guard_ignored_models
    providers, ignored = policy.guard_providers, policy.guard_ignored_providers
    regions = policy.guard_regions
    if models is not None:
        yield lambda each: each.canonical_slug in models or each.model_id in models
    if ignored_models:
        yield (
            lambda each: (
                each.canonical_slug not in ignored_models and each.model_id not in ignored_models
            )
        )
    if providers is not None:
        yield lambda each: each.provider.slug in providers
    if ignored:
        yield lambda each: each.provider.slug not in ignored
    if regions is not None:
        yield lambda each: each.region in regions


def forbids_use(forbidden: frozenset[str], endpoint: EndpointEntry) -> bool:
    """Whether the endpoint does with what it is sent what may not be done."""
    prices = endpoint.prices
    if prices is not None and prices.is_free:
        return (endpoint.collects_data and FREE_TRAINING in forbidden) or (
            endpoint.publishes_data and FREE_PUBLICATION in forbidden
        )
    return endpoint.collects_data and PAID_TRAINING in forbidden


def retaining_nothing(groups: frozenset[str]) -> Test:
    """Whether an endpoint keeps nothing, or is of a model that may be kept something of."""
    return lambda endpoint: endpoint.zdr or zdr_group(endpoint.model_id) not in groups
