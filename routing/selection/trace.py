"""The stored trace: every endpoint with its verdict, and the inputs of the choice.

One JSON object per generation, version 1. It contains nothing of a prompt: only names of the
catalogue, the caller's provider preferences, names of the given parameters, and counts. Empty
values are omitted.

It is written for every request and rarely read, so endpoints stand in columns. `tag`, `usd` and
`figures` have a value for each: first the endpoints of the order, then the excluded ones, whose
filters are in `removed`. Elsewhere an endpoint is its index in these columns.
`routing.selection.replay.read_rows` turns them into rows. The caller of `build_trace` may add
`guardrails`, the findings of content filters, and `hedge`, the race of two endpoints. It may add
`queue`, the waiting for a place, and `classifier`, what that of a virtual router said. `last` says
which endpoints a sort puts last, `stay` whether the conversation stays with its `sticky` endpoint,
and what that was decided from.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from routing.entities.entries import EndpointEntry
from routing.entities.identity_cache import IdentityCache
from routing.selection.types import (
    NO_POLICY,
    POLICY_FIELDS,
    EndpointState,
    EndpointStats,
    Excluded,
    Percentiles,
    Plan,
    Policy,
    Requirements,
)

VERSION: Final = 1
# Endpoints named in a trace; those beyond are only counted, by filter.
ENDPOINTS_MAX: Final = 256
# Callers may list any number of references; a list that is cut here is marked with `cut`.
WORDS_MAX: Final = 64
WORD_CHARS_MAX: Final = 300
# Weights are whole parts of this.
WEIGHTS_SUM: Final = 10_000
# The fields of `Requirements` that are sets of names, besides the wire kinds.
WORD_SETS: Final = (
    *("input_modalities", "output_modalities", "supplied_parameters", "required_parameters"),
    "native_fields",
)
_word_sets = attrgetter("kinds", *WORD_SETS)
_MILLION: Final = 1_000_000
_values = attrgetter(*POLICY_FIELDS)
_DEFAULTS: Final = _values(NO_POLICY)
_OF_GUARDRAILS: Final = frozenset(
    {
        *(name for name in POLICY_FIELDS if name.startswith("guard_")),
        *("zdr", "zdr_groups", "deny_data_collection", "forbidden_uses"),
    }
)


class TracedAttempt(NamedTuple):
    """An attempt at an endpoint, by its key; `error` is its error type, None where it answered."""

    endpoint: int
    error: str | None


def freeze_state(plan: Plan, state: EndpointState) -> EndpointState:
    """The state with only the plan's endpoints in its figures, copied.

    The mapping that selection reads changes during the request and covers the whole catalogue.
    """
    figures_of_plan: dict[int, EndpointStats] = {}
    if figures := state.figures:
        keys = [each.pk for each in plan.order] + [each.endpoint.pk for each in plan.removed]
        figures_of_plan = {key: found for key in keys if (found := figures.get(key)) is not None}
    return EndpointState(figures_of_plan, *state[1:])


def build_trace(
    plan: Plan,
    requirements: Requirements,
    policy: Policy,
    state: EndpointState,
    *,
    models: Sequence[str],
    requested: Sequence[str],
    strategy: str,
    attempts: Sequence[TracedAttempt] = (),
    chosen: int | None = None,
) -> dict[str, Any]:
    """The trace as JSON data. `models` are the ids that `requested` resolved to, in their order.
    `chosen` is the key of the endpoint whose answer the caller got, None where there was none."""
    trace: dict[str, Any] = {
        "v": VERSION,
        "requested": _shorten(requested),
        "models": list(models[:WORDS_MAX]),
        "strategy": strategy,
        "rule": plan.rule,
        "ask": _serialize_requirements(requirements),
    }
    if policy is not NO_POLICY:
        trace |= _cached_policy(policy)
    if policy.sort is not None:
        trace["last"] = "failing" if policy.has_own_sort else "unstable or parked"
    if plan.failed_step is not None:
        trace["failed_step"] = plan.failed_step
    order, removed = plan.order, plan.removed
    if len(order) + len(removed) > ENDPOINTS_MAX:
        order, removed = _limit_endpoints(trace, plan, attempts)
    endpoints = [*order, *[each.endpoint for each in removed]]
    keys = [each.pk for each in endpoints]
    trace["tag"] = [each.tag for each in endpoints]
    trace["usd"] = list(map(_token_prices, endpoints))
    if len(models) > 1:
        # `model`: the place of each endpoint's model among `models`.
        places = {name: place for place, name in enumerate(trace["models"])}
        trace["model"] = [places.setdefault(each.model_id, len(places)) for each in endpoints]
        trace["models"] = list(places)
    if removed:
        trace["removed"] = [each.step for each in removed]
    if attempts:
        trace["attempts"] = [[keys.index(key), error] for key, error in attempts if key in keys]
    if chosen in keys:
        trace["chosen"] = keys.index(chosen)
    if weights := plan.weights:
        trace["weights"] = [int(weights.get(key, 0) * WEIGHTS_SUM) for key in keys[: len(order)]]
    if figures := state.figures:
        trace["figures"] = [_serialize_stats(figures.get(key)) for key in keys]
    _put_state(trace, keys, plan, state)
    return trace


# --- Endpoints ------------------------------------------------------------------------------------


def _limit_endpoints(
    trace: dict[str, Any], plan: Plan, attempts: Sequence[TracedAttempt]
) -> tuple[Sequence[EndpointEntry], Sequence[Excluded]]:
    """The endpoints to name: the first of the order and all that were tried, then excluded ones.
    Counts the others in `trace["more"]`."""
    tried = {key for key, _ in attempts}
    limited = [
        (at, each) for at, each in enumerate(plan.order) if at < ENDPOINTS_MAX or each.pk in tried
    ]
    removed = plan.removed[: max(0, ENDPOINTS_MAX - len(limited))]
    more = Counter(each.step for each in plan.removed[len(removed) :])
    if len(limited) < len(plan.order):
        more["in reserve"] = len(plan.order) - len(limited)
        trace["places"] = [at for at, _ in limited]
    trace["more"] = dict(more)
    return [each for _, each in limited], removed


# Entries are immutable and compared by identity, so the cached value stays right.
@lru_cache(maxsize=1024)
def _token_prices(endpoint: EndpointEntry) -> list[float] | None:
    """The price of a million tokens after discount, prompt and completion."""
    prices = endpoint.prices
    if prices is None:
        return None
    factor = (1 - prices.discount) * _MILLION
    return [float(prices.prompt * factor), float(prices.completion * factor)]


def _put_state(
    trace: dict[str, Any], keys: Sequence[int], plan: Plan, state: EndpointState
) -> None:
    health = state.health
    own = state.byok or state.byok_fallback or state.unshared
    if not own and plan.probe is None and state.sticky is None and not any(health):
        return
    for name, ill in zip(health._fields, health, strict=True) if any(health) else ():
        if ill and (numbers := [at for at, key in enumerate(keys) if key in ill]):
            trace[name] = numbers
    if plan.probe in keys:
        trace["probe"] = keys.index(plan.probe)
    if state.sticky in keys:
        trace["sticky"] = keys.index(state.sticky)
        trace["by_session"] = state.sticky_by_session
    if plan.stay is not None and state.sticky_cache is not None:
        trace["stay"] = plan.stay._asdict() | state.sticky_cache._asdict()
        other = plan.stay.other
        trace["stay"]["other"] = keys.index(other) if other in keys else None
    for name, places in (("byok", state.byok), ("byok_fallback", state.byok_fallback)):
        if places:
            trace[name] = [[at, *places[key]] for at, key in enumerate(keys) if key in places]
    if state.unshared:
        trace["unshared"] = [at for at, key in enumerate(keys) if key in state.unshared]


# Statistics are recomputed at most once a second, and every request reads them.
@lru_cache(maxsize=1024)
def _serialize_stats(figures: EndpointStats | None) -> dict[str, Any] | None:
    """`ttft` in seconds and `tps` in tokens per second have p50, p75, p90 and p99. `tools` is the
    share of tool calls that succeeded. `up` is uptime in percent over 5 minutes, 30 minutes and 1
    day; `n` are the calls of the window."""
    if figures is None:
        return None
    data: dict[str, Any] = {
        "ttft": _round_all(figures.latency_s, 3),
        "tps": _round_all(figures.throughput_tps, 1),
        "tools": figures.tool_success and round(figures.tool_success, 3),
        "up": _round_all((figures.uptime_5m, figures.uptime_30m, figures.uptime_1d), 2),
        "n": figures.calls,
    }
    return {key: value for key, value in data.items() if value is not None}


def _round_all(
    numbers: Percentiles | tuple[float | None, ...] | None, digits: int
) -> list[float | None] | None:
    if numbers is None or all(number is None for number in numbers):
        return None
    return [None if number is None else round(number, digits) for number in numbers]


# --- Requirements and policy ----------------------------------------------------------------------


def _serialize_requirements(requirements: Requirements) -> dict[str, Any]:
    facts: dict[str, Any] = {
        **_serialize_word_sets(*_word_sets(requirements)),
        "prompt_tokens": requirements.prompt_tokens,
    }
    if requirements.output_tokens is not None:
        facts["output_tokens"] = requirements.output_tokens
    if requirements.tools:
        facts["tools"] = True
    if requirements.service_tier is not None:
        facts["service_tier"] = requirements.service_tier[:WORD_CHARS_MAX]
    return facts


# Requests of one application mostly have the same features.
@lru_cache(maxsize=1024)
def _serialize_word_sets(kinds: frozenset[str], *sets: frozenset[str]) -> dict[str, list[str]]:
    """The wire kinds, and those of `WORD_SETS` that are not empty."""
    named = zip(WORD_SETS, sets, strict=True)
    return {"kinds": sorted(kinds)} | {name: sorted(words) for name, words in named if words}


def _serialize_policy(policy: Policy) -> dict[str, Any]:
    """The fields of the policy that differ from the default."""
    data: dict[str, Any] = {}
    changed: dict[str, Any] = {}
    for name, value, default in zip(POLICY_FIELDS, _values(policy), _DEFAULTS, strict=True):
        if value is default or value == default:
            continue
        if isinstance(value, tuple | frozenset):
            changed[name] = _shorten(sorted(value) if isinstance(value, frozenset) else value)
            if len(value) > WORDS_MAX or max(map(len, value), default=0) > WORD_CHARS_MAX:
                data["cut"] = True
        elif isinstance(value, Mapping):
            changed[name] = {
                key: str(number) if isinstance(number, Decimal) else number
                for key, number in value.items()
            }
        else:
            changed[name] = value
    if changed:
        data["policy"] = changed
    return data


_cached_policy: IdentityCache[Policy, dict[str, Any]] = IdentityCache(
    _serialize_policy, may_keep=lambda data: _OF_GUARDRAILS.issuperset(data.get("policy", ()))
)


def _shorten(words: Sequence[str]) -> list[str]:
    return [word[:WORD_CHARS_MAX] for word in words[:WORDS_MAX]]
