"""The hard filters and the soft preference, in their order (inference reference 7.5).

A filter is only there for a request that it could take something from. Each gets what the one
before left, in the order it came in, and leaves that order alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

from routing.entities.derived import Derived
from routing.entities.entries import EndpointEntry
from routing.selection.ask import NO_POLICY, Ask, Policy
from routing.selection.guarding import forbids_use, permitting, retaining_nothing
from routing.selection.references import Test, keys_of, naming

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


def steps(ask: Ask, policy: Policy = NO_POLICY) -> list[tuple[str, Keep]]:
    """The filters that could take something from this request, by name and in order."""
    found: list[tuple[str, Keep]] = []
    if policy is NO_POLICY:
        found.append((TIER_STEP, _tiers(ask.service_tier, _by_tier(ask.service_tier))))
    elif _names_nobody(policy):
        found += _standing(policy) if policy.standing else _steps_alone(policy)
        found.append((TIER_STEP, _tiers(ask.service_tier, _by_tier(ask.service_tier))))
    else:
        admitted = admission(ask, policy)
        found += [(name, partial(_passing, test)) for name, test in _policy(policy, admitted)]
        found.append((TIER_STEP, _tiers(ask.service_tier, admitted)))
    if ask.input_modalities or ask.output_modalities:
        found += [(name, partial(_passing, test)) for name, test in _media(ask)]
    if ask.tools:
        found.append((TOOLS_STEP, _with_tools))
    if policy.require_parameters and ask.required_parameters:
        found.append((PARAMETERS_STEP, partial(_passing, _supports(ask.required_parameters))))
    if ask.native_fields:
        found.append((PARAMETERS_STEP, partial(_passing, _knows(ask.native_fields))))
    fits = _fits(ask.prompt_tokens, ask.output_tokens)
    found.append((CONTEXT_STEP, partial(_passing, fits)))
    if ask.output_tokens is not None:
        found.append((MAX_TOKENS_STEP, partial(_long_enough, ask.output_tokens)))
    return found


def admission(ask: Ask, policy: Policy) -> Test:
    """Whether an endpoint's service tier is open to the request: it asks for the tier, a suffix
    opened it, or `only` or `order` gives the endpoint's full slug."""
    tiers = policy.admitted_tiers | {"default", ask.service_tier}
    named = keys_of(policy.only + policy.order)
    return lambda endpoint: endpoint.tier in tiers or endpoint.tag_key in named


def too_short(endpoint: EndpointEntry, output_tokens: int) -> bool:
    """Whether the endpoint gives less output than is asked for."""
    most = endpoint.max_completion_tokens
    return most is not None and output_tokens > most


def preferred(endpoints: Sequence[EndpointEntry], ask: Ask) -> list[EndpointEntry]:
    """Of one model's endpoints those that support what was supplied, where some do. Tools are no
    mere preference: without them the request is another one."""
    left, wanted = list(endpoints), ask.supplied_parameters
    for name in _PREFERRED:
        if name in wanted or (ask.tools and name == "tools"):
            able = [each for each in left if name in each.supported_parameters]
            left = able if name == "tools" else able or left
    return left


def _passing(test: Test, endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
    return [each for each in endpoints if test(each)]


# --- What a policy takes out ----------------------------------------------------------------------


def steps_of_policy(policy: Policy) -> list[Test]:
    """What a policy takes out where every service tier is open."""
    return [test for _, test in _policy(policy, lambda endpoint: True)]


def _names_nobody(policy: Policy) -> bool:
    """Whether no reference opens a tier or names an endpoint."""
    return not (
        policy.only
        or policy.order
        or policy.ignore
        or policy.account_allowed
        or policy.account_ignored
        or policy.admitted_tiers
    )


def _steps_alone(policy: Policy) -> list[tuple[str, Keep]]:
    return [
        (name, partial(_passing, test)) for name, test in _policy(policy, lambda endpoint: True)
    ]


# The policy of a key that has guardrails stays the same object.
_standing: Derived[Policy, list[tuple[str, Keep]]] = Derived(_steps_alone)


def _policy(policy: Policy, admitted: Test) -> Iterator[tuple[str, Test]]:
    if (permitted := permitting(policy)) is not None:
        yield GUARDRAILS_STEP, permitted
    if policy.account_ignored or policy.ignore:
        ignored = naming(policy.account_ignored + policy.ignore, admitted)
        yield IGNORED_STEP, lambda each: not ignored(each)
    if allowing := list(_allowing(policy, admitted)):
        # Nearly always there is one list at most.
        alone = allowing[0] if len(allowing) == 1 else None
        yield ALLOWED_STEP, alone or (lambda each: all(test(each) for test in allowing))
    if policy.deny_data_collection or policy.region is not None or policy.forbidden_uses:
        yield DATA_STEP, partial(_is_private, policy)
    if policy.zdr:
        yield ZDR_STEP, attrgetter("zdr")
    elif policy.zdr_groups:
        yield ZDR_STEP, retaining_nothing(policy.zdr_groups)
    if policy.distillable_only:
        yield DISTILLABLE_STEP, attrgetter("distillable")
    if policy.quantizations:
        yield QUANTIZATION_STEP, _quantized(policy.quantizations)
    if policy.max_price_usd:
        yield PRICE_STEP, _affordable(policy.max_price_usd)


def _allowing(policy: Policy, admitted: Test) -> Iterator[Test]:
    """The lists that an endpoint must be on. Without fallbacks that of `order` is one of them."""
    for references in (policy.account_allowed, policy.only):
        if references:
            yield naming(references, admitted)
    if policy.order and not policy.allow_fallbacks:
        yield naming(policy.order, admitted)


def _is_private(policy: Policy, endpoint: EndpointEntry) -> bool:
    if policy.deny_data_collection and endpoint.collects_data:
        return False
    if policy.forbidden_uses and forbids_use(policy.forbidden_uses, endpoint):
        return False
    return policy.region is None or endpoint.region == policy.region


def _quantized(wanted: frozenset[str]) -> Test:
    admitted = wanted.union(*(_ADMITS.get(name, ()) for name in wanted))
    return lambda endpoint: (endpoint.quantization or "unknown") in admitted


def _affordable(caps_usd: Mapping[str, Decimal]) -> Test:
    """Within every cap, equal included; a price that is not published counts as 0."""
    caps = [
        (attrgetter(name), _per_token(cap_usd) if name in _PER_TOKEN else cap_usd)
        for name, cap_usd in caps_usd.items()
    ]

    def test(endpoint: EndpointEntry) -> bool:
        for price_of, cap_usd in caps:
            price_usd = price_of(endpoint.prices)
            if price_usd is not None and price_usd > cap_usd:
                return False
        return True

    return test


def _per_token(cap_usd: Decimal) -> Decimal:
    # A caller may write a million digits, which no arithmetic takes.
    return min(cap_usd, _CAP_USD_MAX).scaleb(_MILLIONTH)


# --- What the request itself takes out ------------------------------------------------------------


def _by_tier(service_tier: str | None) -> Test:
    return lambda endpoint: endpoint.tier == "default" or endpoint.tier == service_tier


def _tiers(service_tier: str | None, admitted: Test) -> Keep:
    """Endpoints of the tiers that are open; `flex` keeps to flex wherever a model has it."""

    def keep(endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
        left = _passing(admitted, endpoints)
        if service_tier != "flex":
            return left
        by_model = (list(group) for _, group in groupby(left, key=model_id_of))
        return [each for group in by_model for each in _flex(group)]

    return keep


def _flex(endpoints: list[EndpointEntry]) -> list[EndpointEntry]:
    return [each for each in endpoints if each.tier == "flex"] or endpoints


def _media(ask: Ask) -> Iterator[tuple[str, Test]]:
    if ask.input_modalities:
        for modality, step in INPUT_STEPS.items():
            if modality in ask.input_modalities:
                yield step, partial(_takes, modality)
    if ask.output_modalities:
        yield OUTPUT_MODALITY_STEP, _produces(ask.output_modalities)


def _takes(modality: str, endpoint: EndpointEntry) -> bool:
    return modality in endpoint.input_modalities


def _produces(modalities: frozenset[str]) -> Test:
    if len(modalities) == 1:
        (modality,) = modalities
        return lambda endpoint: modality in endpoint.output_modalities
    return lambda endpoint: modalities.issubset(endpoint.output_modalities)


def _with_tools(endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
    """The endpoints of models of which some endpoint takes tools; which one is `preferred`'s."""
    able = {each.model_id for each in endpoints if "tools" in each.supported_parameters}
    return [each for each in endpoints if each.model_id in able]


def _supports(required: frozenset[str]) -> Test:
    """All of them; of the output cap's two spellings either will do."""
    named = required - _OUTPUT_CAP
    if named == required:
        return lambda endpoint: required <= endpoint.supported_parameters

    def test(endpoint: EndpointEntry) -> bool:
        supported = endpoint.supported_parameters
        return named <= supported and not _OUTPUT_CAP.isdisjoint(supported)

    return test


def _knows(fields: frozenset[str]) -> Test:
    return lambda endpoint: fields <= endpoint.taken_fields


def _fits(prompt_tokens: int, output_tokens: int | None) -> Test:
    if not output_tokens:
        return lambda endpoint: prompt_tokens <= endpoint.prompt_tokens_max

    def test(endpoint: EndpointEntry) -> bool:
        room = endpoint.context_length
        wanted = min(output_tokens, endpoint.max_completion_tokens or output_tokens)
        fits = room is None or prompt_tokens + wanted <= room
        return fits and prompt_tokens <= endpoint.prompt_tokens_max

    return test


def _long_enough(output_tokens: int, endpoints: Sequence[EndpointEntry]) -> list[EndpointEntry]:
    """Endpoints that give the output asked for. All of them where none can: then it is lowered."""
    able = [each for each in endpoints if not too_short(each, output_tokens)]
    return able or list(endpoints)
