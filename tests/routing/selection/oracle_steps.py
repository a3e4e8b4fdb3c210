"""Sections 7.2 and 7.5 of the inference reference, read aloud: plain, slow and exact.

It knows the values of `routing.selection.types` and nothing of how the gateway chooses.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.selection.types import EndpointState, Policy, Requirements

Pair = tuple[ModelEntry, EndpointEntry]
Test = Callable[[Pair], bool]

IGNORED: Final = "Filter by Ignored Providers"
ALLOWED: Final = "Filter by Allowed Providers"
DATA: Final = "Filter by Data Policy"
ZDR: Final = "Filter by Zero Data Retention"
DISTILLABLE: Final = "Filter by Distillable Text"
QUANTIZATION: Final = "Filter by Quantization"
MAX_PRICE: Final = "Filter by Max Price"
TIER: Final = "Filter by Service Tier"
MEDIA: Final = {
    "image": "Filter by Image Support",
    "audio": "Filter by Audio Support",
    "video": "Filter by Video Support",
    "file": "Filter by File Support",
}
OUTPUT: Final = "Filter by Output Modality"
TOOLS: Final = "Filter by Tool Compatibility"
PARAMETERS: Final = "Filter by Parameters"
CONTEXT: Final = "Filter by Context Length"
MAX_TOKENS: Final = "Filter by Max Tokens"
# Of the steps that follow the table, which names none: 7.5 rule 3 and `allow_fallbacks: false`.
SOFT: Final = "soft preference"
NOT_A_FALLBACK: Final = "no fallback"
ABSENT: Final = "no candidate"

_MILLION: Final = Decimal(1_000_000)
_ALSO: Final = {"fp4": {"mxfp4", "nvfp4"}, "fp8": {"mxfp8"}}
_ASKED_TIER: Final = {"priority": "priority", "flex": "flex"}
_SOFT: Final = ("tools", "response_format", "verbosity")


@dataclass(frozen=True)
class Case:
    """One call of `select`; `chance` is what the random source says, each time."""

    models: Sequence[ModelEntry]
    ask: Requirements
    policy: Policy
    state: EndpointState
    chance: float


def is_candidate(pair: Pair, ask: Requirements) -> bool:
    """7.5 rule 1 and 7.7: there, priced, not down, and of a kind that can serve the request."""
    each = pair[1]
    return each.prices is not None and each.status > -3 and each.provider.kind in ask.kinds


def keys(pairs: Sequence[Pair]) -> set[int]:
    return {each.pk for _, each in pairs}


# --- 7.2 -----------------------------------------------------------------------------------------


def names(reference: str, each: EndpointEntry, *, opted: bool) -> bool:
    """Whether a provider reference means this endpoint; `opted`: its tier is opted in."""
    said = reference.lower()
    base = {each.provider.slug.lower(), each.provider.name.lower()}
    return said == each.tag.lower() or (said in base and opted)


def is_opted_by_tier(case: Case, each: EndpointEntry) -> bool:
    """Whether its tier was asked for or opened by a suffix; the default tier always is."""
    asked = _ASKED_TIER.get(case.ask.service_tier or "")
    return each.tier in {"default", asked, *case.policy.admitted_tiers}


def is_opted(case: Case, each: EndpointEntry) -> bool:
    """The same, or it was itself named in full as one to use."""
    named = map(str.lower, [*case.policy.only, *case.policy.order])
    return is_opted_by_tier(case, each) or each.tag.lower() in named


def named_by(case: Case, references: Sequence[str]) -> Callable[[EndpointEntry], bool]:
    return lambda each: any(names(r, each, opted=is_opted(case, each)) for r in references)


# --- 7.5 -----------------------------------------------------------------------------------------


def steps(case: Case) -> Iterator[tuple[str, Callable[[list[Pair]], Test]]]:
    """The hard filters in their order: of the pairs that are left, which ones each keeps."""
    ask, policy = case.ask, case.policy
    ignored = named_by(case, [*policy.account_ignored, *policy.ignore])
    yield IGNORED, lambda pairs: lambda pair: not ignored(pair[1])
    yield ALLOWED, lambda pairs: lambda pair: _is_allowed(case, pair[1])
    yield DATA, lambda pairs: lambda pair: _data_policy(policy, pair[1])
    yield ZDR, lambda pairs: lambda pair: pair[1].zdr or not policy.zdr
    yield DISTILLABLE, lambda pairs: lambda pair: pair[0].distillable or not policy.distillable_only
    yield QUANTIZATION, lambda pairs: lambda pair: _quantization(policy, pair[1])
    yield MAX_PRICE, lambda pairs: lambda pair: _max_price(policy, pair[1])
    yield TIER, lambda pairs: lambda pair: _tier(case, pairs, pair)
    for modality, step in MEDIA.items():
        yield step, _takes(ask, modality)
    yield OUTPUT, lambda pairs: lambda pair: ask.output_modalities <= {*pair[1].output_modalities}
    yield TOOLS, lambda pairs: lambda pair: not ask.tools or _some_can(pairs, pair[0], "tools")
    yield PARAMETERS, lambda pairs: lambda pair: _parameters(case, pair[1])
    yield CONTEXT, lambda pairs: lambda pair: _context(ask, pair[1])
    yield MAX_TOKENS, lambda pairs: lambda pair: _max_tokens(ask, pair[1])


def _is_allowed(case: Case, each: EndpointEntry) -> bool:
    policy = case.policy
    if not all(
        named_by(case, listed)(each) for listed in (policy.account_allowed, policy.only) if listed
    ):
        return False
    # Decision of 7.6 rule 1: without fallbacks the list of `order` is as good as `only`.
    listed_only = policy.order and not policy.allow_fallbacks
    return not listed_only or named_by(case, policy.order)(each)


def _data_policy(policy: Policy, each: EndpointEntry) -> bool:
    if policy.region is not None and each.region != policy.region:
        return False
    return not (policy.deny_data_collection and each.collects_data)


def _quantization(policy: Policy, each: EndpointEntry) -> bool:
    admitted = set(policy.quantizations)
    for word in policy.quantizations:
        admitted |= _ALSO.get(word, set())
    return not policy.quantizations or (each.quantization or "unknown") in admitted


def _max_price(policy: Policy, each: EndpointEntry) -> bool:
    for name, cap in policy.max_price_usd.items():
        price: Decimal = getattr(each.prices, name) or Decimal(0)
        if price * (_MILLION if name in ("prompt", "completion") else 1) > cap:
            return False
    return True


def _tier(case: Case, pairs: list[Pair], pair: Pair) -> bool:
    """With `flex` a model that has such endpoints keeps no others."""
    own, each = pair
    if case.ask.service_tier == "flex" and any(
        model is own and other.tier == "flex" for model, other in pairs
    ):
        return each.tier == "flex"
    return is_opted(case, each)


def _takes(ask: Requirements, modality: str) -> Callable[[list[Pair]], Test]:
    wanted = modality in ask.input_modalities
    return lambda pairs: lambda pair: not wanted or modality in pair[1].input_modalities


def _can(pair: Pair, parameter: str) -> bool:
    return parameter in pair[1].supported_parameters


def _some_can(pairs: list[Pair], model: ModelEntry, parameter: str) -> bool:
    return any(own is model and _can((own, each), parameter) for own, each in pairs)


def _parameters(case: Case, each: EndpointEntry) -> bool:
    if not case.policy.require_parameters:
        return True
    supported = set(each.supported_parameters)
    if supported & {"max_tokens", "max_completion_tokens"}:
        supported |= {"max_tokens", "max_completion_tokens"}
    return case.ask.required_parameters <= supported


def _context(ask: Requirements, each: EndpointEntry) -> bool:
    """An endpoint never gives more than its own maximum, so no more has to fit."""
    output = min(ask.output_tokens or 0, each.max_completion_tokens or ask.output_tokens or 0)
    fits = each.context_length is None or ask.prompt_tokens + output <= each.context_length
    return fits and (each.max_prompt_tokens is None or ask.prompt_tokens <= each.max_prompt_tokens)


def _max_tokens(ask: Requirements, each: EndpointEntry) -> bool:
    return each.max_completion_tokens is None or (
        (ask.output_tokens or 0) <= each.max_completion_tokens
    )


def after_soft_preference(ask: Requirements, pairs: list[Pair]) -> list[Pair]:
    """7.5 rule 3: where some endpoints of a model support it, its others are dropped.

    `tools` is never ignored, also where the step of that name left somebody whom a later one took.
    """
    for parameter in _SOFT:
        if parameter in ask.supplied_parameters:
            pairs = [
                pair
                for pair in pairs
                if _can(pair, parameter)
                or (parameter != "tools" and not _some_can(pairs, pair[0], parameter))
            ]
    return pairs
