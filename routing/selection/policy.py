"""Building the policy of a request from its preferences, the workspace, account and guardrails."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Protocol

from routing.entities.identity_cache import IdentityCache
from routing.selection.guardrail_filters import ZDR_GROUPS, GuardrailChoice
from routing.selection.types import NO_POLICY, Policy, Resolution, Sort

# The region of endpoints without one; the main host serves all regions.
EVERYWHERE = "global"


class Preferences(Protocol):
    """The `provider` object of a request, parsed (`routing.formats.provider_preferences`)."""

    @property
    def allow_fallbacks(self) -> bool: ...
    @property
    def data_collection(self) -> str | None: ...
    @property
    def enforce_distillable_text(self) -> bool: ...
    @property
    def ignore(self) -> tuple[str, ...]: ...
    @property
    def only(self) -> tuple[str, ...]: ...
    @property
    def order(self) -> tuple[str, ...]: ...
    @property
    def max_price_usd(self) -> Mapping[str, Decimal]: ...
    @property
    def max_latency_s(self) -> Mapping[str, float]: ...
    @property
    def min_throughput_tps(self) -> Mapping[str, float]: ...
    @property
    def quantizations(self) -> tuple[str, ...]: ...
    @property
    def require_parameters(self) -> bool: ...
    @property
    def deadline_s(self) -> float | None: ...
    @property
    def sort(self) -> Sort | None: ...
    @property
    def partition(self) -> str | None: ...
    @property
    def zdr(self) -> bool: ...


def build_policy(
    preferences: Preferences | None,
    *,
    resolution: Resolution,
    default_sort: Sort | None = None,
    account_allowed: tuple[str, ...] | None = None,
    account_ignored: tuple[str, ...] = (),
    account_zdr: bool = False,
    account_denies_collection: bool = False,
    region: str | None = None,
    models_named: bool = False,
    guarded: GuardrailChoice | None = None,
) -> Policy:
    """The policy of one request.

    A sort comes from `provider.sort`, else from a suffix of the model, else from the workspace,
    which has no say where an `order` is given. An `order` also closes the tiers that a suffix
    opened. `region` is the regional host's, None or "global" on the main host.
    """
    if region == EVERYWHERE:
        region = None
    limits = (account_allowed, account_ignored, account_zdr, account_denies_collection, region)
    if preferences is None:
        if resolution.sort is None and default_sort is None and not any(limits):
            return NO_POLICY if guarded is None else _guardrails_policy(guarded)
        preferences = NO_PREFERENCES
    order = preferences.order
    named_sort = preferences.sort or resolution.sort
    workspace_sort = None if order or named_sort else default_sort
    policy = Policy(
        only=preferences.only,
        order=order,
        ignore=preferences.ignore,
        account_allowed=account_allowed,
        account_ignored=account_ignored,
        allow_fallbacks=preferences.allow_fallbacks,
        models_named=models_named,
        deny_data_collection=account_denies_collection or preferences.data_collection == "deny",
        zdr=account_zdr or preferences.zdr,
        distillable_only=preferences.enforce_distillable_text,
        region=region,
        quantizations=frozenset(preferences.quantizations),
        max_price_usd=preferences.max_price_usd,
        require_parameters=preferences.require_parameters,
        sort=named_sort or workspace_sort,
        sort_named=preferences.sort is not None,
        sort_is_default=workspace_sort is not None,
        across_models=preferences.partition == "none",
        max_latency_s=preferences.max_latency_s,
        min_throughput_tps=preferences.min_throughput_tps,
        deadline_s=preferences.deadline_s,
        admitted_tiers=frozenset() if order else resolution.admitted_tiers,
    )
    return policy if guarded is None else apply_guardrails(policy, guarded)


def apply_guardrails(policy: Policy, guarded: GuardrailChoice) -> Policy:
    """The policy with the restrictions of the guardrails added."""
    return replace(
        policy,
        guard_models=guarded.allowed_models,
        guard_ignored_models=guarded.ignored_models,
        guard_providers=guarded.allowed_providers,
        guard_ignored_providers=guarded.ignored_providers,
        guard_regions=guarded.regions,
        zdr=policy.zdr or guarded.zdr == ZDR_GROUPS,
        zdr_groups=guarded.zdr,
        deny_data_collection=policy.deny_data_collection or guarded.denies_collection,
        forbidden_uses=guarded.forbidden_uses,
    )


# Most requests of a key with guardrails have no preferences of their own.
_guardrails_policy: IdentityCache[GuardrailChoice, Policy] = IdentityCache(
    lambda guarded: apply_guardrails(NO_POLICY, guarded)
)


class _NoPreferences:
    """A request without a `provider` object."""

    allow_fallbacks = True
    data_collection = None
    deadline_s = None
    enforce_distillable_text = False
    ignore = only = order = quantizations = ()
    require_parameters = zdr = False
    sort = partition = None
    max_price_usd: Mapping[str, Decimal] = {}
    max_latency_s: Mapping[str, float] = {}
    min_throughput_tps: Mapping[str, float] = {}


NO_PREFERENCES: Preferences = _NoPreferences()
