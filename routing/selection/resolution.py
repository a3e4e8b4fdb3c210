"""From the model references of a request to models, and its policy over their endpoints.

A name that the catalogue has as an id or alias is always that model, whatever it looks like.
Otherwise its dynamic suffixes are removed, and the rest is a family (`~author/name-latest`), a
virtual router, or a model. If several references have a suffix that sorts, the first one counts,
because a request has one order. Opened tiers and the plugin of `:online` hold for all models.

The policy of a request is built from its preferences, the workspace, account and guardrails.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from routing.entities.entries import DECIDING, ModelEntry, Snapshot
from routing.entities.identity_cache import IdentityCache
from routing.selection.auto import (
    NO_AUTO_OPTIONS,
    AutoSettings,
    auto_need,
    choose_auto_models,
    choose_free_models,
    free_need,
)
from routing.selection.guardrail_filters import ZDR_GROUPS, GuardrailChoice
from routing.selection.model_references import (
    ROUTERS,
    Family,
    ModelReference,
    SuffixEffect,
    family_of,
    parse_reference,
)
from routing.selection.price_bands import list_pool
from routing.selection.types import NO_POLICY, Policy, Requirements, Resolution, Sort

# Where one of these comes out, a model can take part in a conversation.
_CONVERSED: Final = frozenset({"text", "image", "audio"})
_AUTO: Final = "router/auto"
_FREE: Final = "router/free"
# Routers that are built in, by what they may be called.
_VIRTUAL: Final[Mapping[str, str]] = {
    _AUTO: _AUTO,
    "auto": _AUTO,
    "router/auto-beta": "router/auto-beta",
    _FREE: _FREE,
}
_ROUTER_STRATEGIES: Final = frozenset(ROUTERS.values())


class ReferenceProblem(Exception):
    """A reference that cannot be resolved; `reference` is as the caller wrote it."""

    def __init__(self, reference: str) -> None:
        super().__init__(reference)
        self.reference = reference


class UnknownModelReference(ReferenceProblem):
    """Nothing has that name."""


class WrongKind(ReferenceProblem):
    """The model does not answer requests of this format."""


class _Resolved(NamedTuple):
    """The models of one reference. `strategy` is None for a model that was named by its id."""

    models: Sequence[ModelEntry]
    strategy: str | None = None
    effects: Sequence[SuffixEffect] = ()
    virtual: str | None = None


class _Request(NamedTuple):
    """The inputs that all references of a request share."""

    snapshot: Snapshot
    requirements: Requirements
    auto: AutoSettings
    random: Callable[[], float]
    sticky_model: str | None


def resolve_models(
    snapshot: Snapshot,
    references: Sequence[str],
    requirements: Requirements,
    *,
    auto: AutoSettings,
    random: Callable[[], float],
    sticky_model: str | None = None,
) -> Resolution:
    """The models that the references name, in order and without repeats.

    `sticky_model` is the id of the model that a virtual router chose for this conversation before.
    The result is empty if all references are routers or families that find no model. Raises
    `UnknownModelReference` and `WrongKind`.
    """
    plain = snapshot.models.get(references[0]) if len(references) == 1 else None
    if plain is not None and references[0] not in ROUTERS:
        return Resolution((_check_serves(plain, requirements, references[0]),), "direct")
    request = _Request(snapshot, requirements, auto, random, sticky_model)
    resolved = [_resolve_reference(request, reference) for reference in references]
    models = tuple(dict.fromkeys([model for each in resolved for model in each.models]))
    effects = [effect for each in resolved for effect in each.effects]
    virtual = next((each.virtual for each in resolved if each.virtual), None)
    # The value of `router_metadata.strategy`: of the first virtual router, else of the first
    # reference, else whether there are several models.
    routers = [each.strategy for each in resolved if each.strategy in _ROUTER_STRATEGIES]
    own = routers[0] if routers else resolved[0].strategy
    pool: tuple[ModelEntry, ...] = ()
    if virtual and not models:
        wishes = auto.wishes.get(virtual, NO_AUTO_OPTIONS)
        need = (
            free_need(requirements) if virtual == _FREE else auto_need(requirements, auto, wishes)
        )
        pool = list_pool(snapshot, need)
    return Resolution(
        models=models,
        strategy=own or ("fallback" if len(models) > 1 else "direct"),
        sort=next((effect.sort for effect in effects if effect.sort), None),
        admitted_tiers=_opened_tiers(effects),
        plugins=tuple(dict.fromkeys([effect.plugin for effect in effects if effect.plugin])),
        virtual=virtual,
        pool=pool,
    )


def find_model(snapshot: Snapshot, reference: str) -> ModelEntry | None:
    """The one model that a reference names outright or as the newest of its family."""
    model = snapshot.model(reference)
    if model is not None:
        return model
    base = parse_reference(reference).base
    family = family_of(base)
    return snapshot.model(base) if family is None else _newest_of_family(snapshot, family)


def newest_by_family(snapshot: Snapshot) -> dict[str, ModelEntry]:
    """The newest listed model of each family; of equally new ones one without a variant."""
    newest: dict[str, ModelEntry] = {}
    for model in sorted(
        snapshot.listing, key=lambda model: (-model.created, ":" in model.id, model.id)
    ):
        if model.family is not None:
            newest.setdefault(model.family, model)
    return newest


def _resolve_reference(request: _Request, reference: str) -> _Resolved:
    """Raises `UnknownModelReference` and `WrongKind`."""
    model = request.snapshot.model(reference)
    name = ModelReference(reference) if model is not None else parse_reference(reference)
    if model is None:
        model = request.snapshot.model(name.base)
    if model is not None:
        strategy = ROUTERS.get(name.base) or (None if model.id == name.base else "alias")
        return _Resolved(
            [_check_serves(model, request.requirements, reference)], strategy, name.effects
        )
    family = family_of(name.base)
    if family is None:
        return _resolve_router(request, name, reference)
    model = _newest_of_family(request.snapshot, family)
    if model is None:
        # The family is there, its newest model lacks the variant: an entry that does not exist.
        if family.variant and family.name in request.snapshot.derive(newest_by_family):
            raise UnknownModelReference(reference)
        return _Resolved([], "latest")
    return _Resolved(
        [_check_serves(model, request.requirements, reference)], "latest", name.effects
    )


def _newest_of_family(snapshot: Snapshot, family: Family) -> ModelEntry | None:
    model = snapshot.derive(newest_by_family).get(family.name)
    if model is None or not family.variant:
        return model
    return snapshot.models.get(model.id + family.variant)


def _resolve_router(request: _Request, name: ModelReference, reference: str) -> _Resolved:
    """The models that a virtual router chooses; none if it is not built in."""
    strategy = ROUTERS.get(name.base)
    if strategy is None:
        raise UnknownModelReference(reference)
    virtual = _VIRTUAL.get(name.base)
    if virtual is None:
        return _Resolved([], strategy)
    snapshot, requirements, auto, random, sticky = request
    tiers = _opened_tiers(name.effects)
    if virtual == _FREE:
        models = choose_free_models(
            snapshot, requirements, auto, tiers=tiers, random=random, sticky_model=sticky
        )
    else:
        wishes = auto.wishes.get(virtual, NO_AUTO_OPTIONS)
        models = choose_auto_models(
            snapshot, requirements, auto, wishes, tiers=tiers, sticky_model=sticky
        )
    return _Resolved(models, strategy, name.effects, virtual)


def _check_serves(model: ModelEntry, requirements: Requirements, reference: str) -> ModelEntry:
    """The model. Raises `WrongKind` if it cannot answer requests of this format."""
    if model.endpoints and not any(each.serves(requirements.kinds) for each in model.endpoints):
        raise WrongKind(reference)
    if requirements.kinds <= DECIDING:
        return model
    modalities = model.output_modalities
    if (
        modalities
        and _CONVERSED.isdisjoint(modalities)
        and requirements.output_modalities.isdisjoint(modalities)
    ):
        raise WrongKind(reference)
    return model


def _opened_tiers(effects: Sequence[SuffixEffect]) -> frozenset[str]:
    return frozenset([effect.tier for effect in effects if effect.tier])


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
