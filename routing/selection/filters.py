"""The hard filters and the soft preference, in their order.

A request gets only the filters that could exclude something. Each filter receives the endpoints
that the one before kept, and preserves their order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

from routing.entities.entries import EndpointEntry
from routing.entities.identity_cache import IdentityCache
from routing.selection.guardrail_filters import forbids_use, guardrail_test, zdr_test
from routing.selection.model_references import Test, keys_of, reference_test
from routing.selection.types import NO_POLICY, Policy, Requirements

Keep: TypeAlias = Callable[[Sequence[EndpointEntry]], list[EndpointEntry]]

GUARDRAILS_STEP: Final = "Filter by Guardrails"
IGNORED_STEP: Final = "Filter by Ignored Providers"
ALLOWED_STEP: Final = "Filter by Allowed Providers"
DATA_STEP: Final = "Filter by Data Policy"
ZDR_STEP: Final = "Filter by Zero Data Retention"
DISTILLABLE_STEP: Final = "Filter by Distillable Text"
QUANTIZATION_STEP: Final = "Filter by Quantization"
PRICE_STEP: Final = "Filter by Max Price"
TIER_STEP: Final = "Filter by Service Tier"
OUTPUT_MODALITY_STEP: Final = "Filter by Output Modality"
TOOLS_STEP: Final = "Filter by Tool Compatibility"
PARAMETERS_STEP: Final = "Filter by Parameters"
CONTEXT_STEP: Final = "Filter by Context Length"
MAX_TOKENS_STEP: Final = "Filter by Max Tokens"
# Applied as an endpoint is about to be asked, not to the catalogue.
LIMITS_STEP: Final = "Rate Limits"
PARKED_STEP: Final = "Credentials Parked"
INPUT_STEPS: Final = {
    "image": "Filter by Image Support",
    "audio": "Filter by Audio Support",
    "video": "Filter by Video Support",
    "file": "Filter by File Support",
}
# What else a quantization that is asked for lets in.
_ADMITS: Final = {"fp4": ("mxfp4", "nvfp4"), "fp8": ("mxfp8",)}
# Six places to the left.
_MILLIONTH: Final = -6
# More than any price of a million tokens.
_CAP_USD_MAX: Final = Decimal(10) ** 12
# Prices of a token are capped per million of them, the others per unit.
_PER_TOKEN: Final = frozenset({"prompt", "completion"})
# Parameters whose supporters are preferred within a model even without `require_parameters`.
_PREFERRED: Final = ("tools", "response_format", "verbosity")
_OUTPUT_CAP: Final = frozenset({"max_tokens", "max_completion_tokens"})

model_id_of = attrgetter("model_id")


def list_filters(requirements: Requirements, policy: Policy = NO_POLICY) -> list[tuple[str, Keep]]:
    """The filters that could exclude an endpoint for this request, by name and in order."""
    filters: list[tuple[str, Keep]] = []
    admitted = _tier_test(requirements.service_tier, policy)
    if policy is not NO_POLICY:
        named = policy.only or policy.order or policy.account_allowed
        ignored = policy.ignore or policy.account_ignored
        if policy.is_shared and not (named or ignored):
            filters += _shared_policy_filters(policy)
        else:
            # A provider that a policy names also stands for the tiers that the request opens.
            filters += _policy_filters(policy, admitted)
    filters.append((TIER_STEP, _tier_filter(requirements.service_tier, admitted)))
    if requirements.input_modalities:
        for modality, step in INPUT_STEPS.items():
            if modality in requirements.input_modalities:
                filters.append((step, partial(_keep_passing, partial(_takes_input, modality))))
    if requirements.output_modalities:
        gives = _output_test(requirements.output_modalities)
        filters.append((OUTPUT_MODALITY_STEP, partial(_keep_passing, gives)))
    if requirements.tools:
        filters.append((TOOLS_STEP, _keep_tool_models))
    if policy.require_parameters and requirements.required_parameters:
        supports = _parameters_test(requirements.required_parameters)
        filters.append((PARAMETERS_STEP, partial(_keep_passing, supports)))
    if native := requirements.native_fields:
        takes = partial(_keep_passing, lambda endpoint: native <= endpoint.taken_fields)
        filters.append((PARAMETERS_STEP, takes))
    fits = context_test(requirements.prompt_tokens, requirements.output_tokens)
    filters.append((CONTEXT_STEP, partial(_keep_passing, fits)))
    if requirements.output_tokens is not None:
        filters.append((MAX_TOKENS_STEP, partial(_keep_long_enough, requirements.output_tokens)))
    return filters


def prefer_supporting(
    endpoints: Iterable[EndpointEntry], requirements: Requirements
) -> list[EndpointEntry]:
    """The endpoints of one model that support the supplied parameters, or all if none does. Tools
    are required: if no endpoint supports them, the result is empty."""
    remaining, parameters = list(endpoints), requirements.supplied_parameters
    for name in _PREFERRED:
        if name in parameters or (requirements.tools and name == "tools"):
            able = [each for each in remaining if name in each.supported_parameters]
            remaining = able if name == "tools" else able or remaining
    return remaining


def _keep_passing(test: Test, endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
    return [each for each in endpoints if test(each)]


# --- Filters of the policy ------------------------------------------------------------------------


def policy_tests(policy: Policy) -> list[Test]:
    """The tests of a policy, with every service tier open."""
    return [test for _, test in _list_policy_tests(policy, lambda endpoint: True)]


def _policy_filters(policy: Policy, admitted: Test) -> list[tuple[str, Keep]]:
    tests = _list_policy_tests(policy, admitted)
    return [(name, partial(_keep_passing, test)) for name, test in tests]


# All requests of a key with guardrails share one policy object.
_shared_policy_filters: IdentityCache[Policy, list[tuple[str, Keep]]] = IdentityCache(
    lambda policy: _policy_filters(policy, lambda endpoint: True)
)


def _list_policy_tests(policy: Policy, admitted: Test) -> Iterator[tuple[str, Test]]:
    if (permitted := guardrail_test(policy)) is not None:
        yield GUARDRAILS_STEP, permitted
    if policy.account_ignored or policy.ignore:
        ignored = reference_test(policy.account_ignored + policy.ignore, admitted)
        yield IGNORED_STEP, lambda each: not ignored(each)
    # Without fallbacks `order` is a list of all that may be tried.
    order = () if policy.allow_fallbacks else policy.order
    allowing = [
        reference_test(references, admitted)
        for references in (policy.account_allowed, policy.only, order)
        if references
    ]
    if allowing:
        # The common case is a single list.
        alone = allowing[0] if len(allowing) == 1 else None
        yield ALLOWED_STEP, alone or (lambda each: all(test(each) for test in allowing))
    if policy.deny_data_collection or policy.region is not None or policy.forbidden_uses:
        yield DATA_STEP, partial(_meets_data_policy, policy)
    if policy.zdr:
        yield ZDR_STEP, attrgetter("zdr")
    elif policy.zdr_groups:
        yield ZDR_STEP, zdr_test(policy.zdr_groups)
    if policy.distillable_only:
        yield DISTILLABLE_STEP, attrgetter("distillable")
    if policy.quantizations:
        wanted = policy.quantizations
        wanted = wanted.union(*(_ADMITS.get(name, ()) for name in wanted))
        yield QUANTIZATION_STEP, lambda each: (each.quantization or "unknown") in wanted
    if policy.max_price_usd:
        yield PRICE_STEP, _price_test(policy.max_price_usd)


def _meets_data_policy(policy: Policy, endpoint: EndpointEntry) -> bool:
    if policy.deny_data_collection and endpoint.collects_data:
        return False
    if policy.forbidden_uses and forbids_use(policy.forbidden_uses, endpoint):
        return False
    return policy.region is None or endpoint.region == policy.region


def _price_test(caps_usd: Mapping[str, Decimal]) -> Test:
    """A test that every price is at most its cap; a price that is not published counts as 0."""
    caps = [
        (
            attrgetter(name),
            min(cap_usd, _CAP_USD_MAX).scaleb(_MILLIONTH) if name in _PER_TOKEN else cap_usd,
        )
        for name, cap_usd in caps_usd.items()
    ]

    def test(endpoint: EndpointEntry) -> bool:
        for price_of, cap_usd in caps:
            price_usd = price_of(endpoint.prices)
            if price_usd is not None and price_usd > cap_usd:
                return False
        return True

    return test


# --- Filters of the request -----------------------------------------------------------------------


def _tier_test(tier: str | None, policy: Policy) -> Test:
    """A test whether an endpoint's service tier is open to the request. It is where the request
    names the tier, a suffix opened it, or `only` or `order` names the endpoint's full slug."""
    if not (policy.admitted_tiers or policy.only or policy.order):
        return lambda endpoint: endpoint.tier == "default" or endpoint.tier == tier
    tiers = policy.admitted_tiers | {"default", tier}
    references = keys_of(policy.only + policy.order)
    return lambda endpoint: endpoint.tier in tiers or endpoint.tag_key in references


def _tier_filter(service_tier: str | None, admitted: Test) -> Keep:
    """A filter that keeps endpoints of open tiers; `flex` keeps only flex if a model has it."""

    def keep(endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
        remaining = _keep_passing(admitted, endpoints)
        if service_tier != "flex":
            return remaining
        kept: list[EndpointEntry] = []
        for _, group in groupby(remaining, key=model_id_of):
            of_model = list(group)
            kept += [each for each in of_model if each.tier == "flex"] or of_model
        return kept

    return keep


def _takes_input(modality: str, endpoint: EndpointEntry) -> bool:
    return modality in endpoint.input_modalities


def _output_test(modalities: frozenset[str]) -> Test:
    if len(modalities) == 1:
        (modality,) = modalities
        return lambda endpoint: modality in endpoint.output_modalities
    return lambda endpoint: modalities.issubset(endpoint.output_modalities)


def _keep_tool_models(endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
    """The endpoints of models of which some endpoint takes tools. `prefer_supporting` then keeps
    the endpoints that do."""
    able = {each.model_id for each in endpoints if "tools" in each.supported_parameters}
    return [each for each in endpoints if each.model_id in able]


def _parameters_test(required: frozenset[str]) -> Test:
    """A test for all required parameters; either spelling of the output cap will do."""
    named = required - _OUTPUT_CAP
    if named == required:
        return lambda endpoint: required <= endpoint.supported_parameters

    def test(endpoint: EndpointEntry) -> bool:
        supported = endpoint.supported_parameters
        return named <= supported and not _OUTPUT_CAP.isdisjoint(supported)

    return test


def context_test(prompt_tokens: int, output_tokens: int | None) -> Test:
    """A test that prompt and output fit; an endpoint gives no more output than its maximum."""
    if not output_tokens:
        return lambda endpoint: prompt_tokens <= endpoint.prompt_tokens_max

    def test(endpoint: EndpointEntry) -> bool:
        room = endpoint.context_length
        tokens = min(output_tokens, endpoint.max_completion_tokens or output_tokens)
        fits = room is None or prompt_tokens + tokens <= room
        return fits and prompt_tokens <= endpoint.prompt_tokens_max

    return test


def _keep_long_enough(
    output_tokens: int, endpoints: Sequence[EndpointEntry]
) -> list[EndpointEntry]:
    """The endpoints that can give the requested output. If none can, all of them stay, and
    `Plan.output_caps` lowers the output."""
    able = [each for each in endpoints if not each.is_output_below(output_tokens)]
    return able or list(endpoints)
