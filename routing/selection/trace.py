"""The stored trace: every candidate endpoint with its verdict, and what the choice was made from.

One JSON object per generation, version 1. Nothing of a prompt is in it: only the catalogue's names,
the caller's provider preferences, the names of the parameters that were given, and counts. What
would say nothing is left out.

It is written for every request and read for few, so endpoints stand in columns: `tag`, `usd` and
`figures` have a value for each of them, those of the order first, in its order, then the removed
ones, whose steps are in `removed`. Elsewhere an endpoint is its number in these columns.
`routing.selection.replay.rows_of` makes rows of them. Whoever stores a trace may add `guardrails`:
what content filters found, by name and number. `last` tells of a sort whom it puts last.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from routing.entities.derived import Derived
from routing.entities.entries import EndpointEntry
from routing.selection.ask import (
    NO_POLICY,
    WANTED,
    Ask,
    Figures,
    Percentiles,
    Plan,
    Policy,
    Removed,
    State,
)

VERSION: Final = 1
# The endpoints of a trace; those beyond are counted by what became of them.
ENDPOINTS_MAX: Final = 256
# A caller may list as many references as fit into a body. A list cut here is marked as such.
WORDS_MAX: Final = 64
WORD_CHARS_MAX: Final = 300
# Weights are whole parts of this.
WEIGHTS_SUM: Final = 10_000
# The fields of `Ask` that are sets of names, besides the wire kinds.
WORD_SETS: Final = (
    *("input_modalities", "output_modalities", "supplied_parameters", "required_parameters"),
    "native_fields",
)
_word_sets = attrgetter("kinds", *WORD_SETS)
_MILLION: Final = 1_000_000
_values = attrgetter(*WANTED)
_DEFAULTS: Final = _values(NO_POLICY)
_OF_GUARDRAILS: Final = frozenset(
    {
        *(name for name in WANTED if name.startswith("guard_")),
        *("zdr", "zdr_groups", "deny_data_collection", "forbidden_uses"),
    }
)


class Tried(NamedTuple):
    """An attempt at an endpoint, by its key; `error` is its error type, None where it answered."""

    endpoint: int
    error: str | None


def kept_state(plan: Plan, state: State) -> State:
    """The state with the figures of the plan's endpoints, as they are at this moment.

    What selection is given changes while the call lives, and speaks of the whole catalogue.
    """
    kept: dict[int, Figures] = {}
    if figures := state.figures:
        keys = [each.pk for each in plan.order] + [each.endpoint.pk for each in plan.removed]
        kept = {key: found for key in keys if (found := figures.get(key)) is not None}
    return State(kept, *state[1:])


def trace_of(
    plan: Plan,
    ask: Ask,
    policy: Policy,
    state: State,
    *,
    models: Sequence[str],
    requested: Sequence[str],
    strategy: str,
    attempts: Sequence[Tried] = (),
    chosen: int | None = None,
) -> dict[str, Any]:
    """The trace as JSON data. `models` are the ids that `requested` came to, in their order;
    `chosen` is the key of the endpoint whose answer the caller got, None where there was none."""
    trace: dict[str, Any] = {
        "v": VERSION,
        "requested": _cut(requested),
        "models": list(models[:WORDS_MAX]),
        "strategy": strategy,
        "rule": plan.rule,
        "ask": _asked(ask),
    }
    if policy is not NO_POLICY:
        _put_policy(trace, policy)
    if policy.sort is not None:
        trace["last"] = "failing" if policy.keeps_sort else "unstable or parked"
    if plan.failed_step is not None:
        trace["failed_step"] = plan.failed_step
    order, removed = plan.order, plan.removed
    if len(order) + len(removed) > ENDPOINTS_MAX:
        order, removed = _bounded(trace, plan, attempts)
    endpoints = [*order, *[each.endpoint for each in removed]]
    keys = [each.pk for each in endpoints]
    trace["tag"] = [each.tag for each in endpoints]
    trace["usd"] = list(map(_usd, endpoints))
    if len(models) > 1:
        _put_models(trace, endpoints)
    if removed:
        trace["removed"] = [each.step for each in removed]
    if attempts:
        trace["attempts"] = [[keys.index(key), error] for key, error in attempts if key in keys]
    if chosen in keys:
        trace["chosen"] = keys.index(chosen)
    if weights := plan.weights:
        trace["weights"] = [int(weights.get(key, 0) * WEIGHTS_SUM) for key in keys[: len(order)]]
    if figures := state.figures:
        trace["figures"] = [_known(figures.get(key)) for key in keys]
    _put_state(trace, keys, plan, state)
    return trace


# --- Endpoints ------------------------------------------------------------------------------------


def _bounded(
    trace: dict[str, Any], plan: Plan, attempts: Sequence[Tried]
) -> tuple[Sequence[EndpointEntry], Sequence[Removed]]:
    """The endpoints to name: the first of the order and whatever was tried, then removed ones. The
    others are counted."""
    tried = {key for key, _ in attempts}
    shown = [
        (at, each) for at, each in enumerate(plan.order) if at < ENDPOINTS_MAX or each.pk in tried
    ]
    removed = plan.removed[: max(0, ENDPOINTS_MAX - len(shown))]
    more = Counter(each.step for each in plan.removed[len(removed) :])
    if len(shown) < len(plan.order):
        more["in reserve"] = len(plan.order) - len(shown)
        trace["places"] = [at for at, _ in shown]
    trace["more"] = dict(more)
    return [each for _, each in shown], removed


# Entries are immutable and compared by identity, so what is derived from one holds for its life.
@lru_cache(maxsize=1024)
def _usd(endpoint: EndpointEntry) -> list[float] | None:
    """The price of a million tokens after discount, prompt and completion."""
    prices = endpoint.prices
    if prices is None:
        return None
    factor = (1 - prices.discount) * _MILLION
    return [float(prices.prompt * factor), float(prices.completion * factor)]


def _put_models(trace: dict[str, Any], endpoints: Iterable[EndpointEntry]) -> None:
    """`model`: the place of each endpoint's model among `models`."""
    places = {name: place for place, name in enumerate(trace["models"])}
    trace["model"] = [places.setdefault(each.model_id, len(places)) for each in endpoints]
    trace["models"] = list(places)


def _put_state(trace: dict[str, Any], keys: Sequence[int], plan: Plan, state: State) -> None:
    standing = state.standing
    own = state.byok or state.byok_fallback or state.unshared
    if not own and plan.probe is None and state.sticky is None and not any(standing):
        return
    for name, ill in zip(standing._fields, standing, strict=True) if any(standing) else ():
        if ill and (numbers := [at for at, key in enumerate(keys) if key in ill]):
            trace[name] = numbers
    if plan.probe in keys:
        trace["probe"] = keys.index(plan.probe)
    if state.sticky in keys:
        trace["sticky"] = keys.index(state.sticky)
        trace["by_session"] = state.sticky_by_session
    for name, places in (("byok", state.byok), ("byok_fallback", state.byok_fallback)):
        if places:
            trace[name] = [[at, *places[key]] for at, key in enumerate(keys) if key in places]
    if state.unshared:
        trace["unshared"] = [at for at, key in enumerate(keys) if key in state.unshared]


# Figures are worked out anew at most once a second and read by every request in between.
@lru_cache(maxsize=1024)
def _known(figures: Figures | None) -> dict[str, Any] | None:
    """`ttft` in seconds and `tps` in tokens per second: p50, p75, p90, p99; `tools`, the share of
    tool calls that succeeded; `up`, uptime in percent over 5 minutes, 30 minutes and 1 day; `n`,
    the calls of the window."""
    if figures is None:
        return None
    known: dict[str, Any] = {
        "ttft": _rounded(figures.latency_s, 3),
        "tps": _rounded(figures.throughput_tps, 1),
        "tools": figures.tool_success and round(figures.tool_success, 3),
        "up": _rounded((figures.uptime_5m, figures.uptime_30m, figures.uptime_1d), 2),
        "n": figures.calls,
    }
    return {key: value for key, value in known.items() if value is not None}


def _rounded(
    numbers: Percentiles | tuple[float | None, ...] | None, digits: int
) -> list[float | None] | None:
    if numbers is None or all(number is None for number in numbers):
        return None
    return [None if number is None else round(number, digits) for number in numbers]


# --- What was asked -----------------------------------------------------------------------------


def _asked(ask: Ask) -> dict[str, Any]:
    facts: dict[str, Any] = {**_words(*_word_sets(ask)), "prompt_tokens": ask.prompt_tokens}
    if ask.output_tokens is not None:
        facts["output_tokens"] = ask.output_tokens
    if ask.tools:
        facts["tools"] = True
    if ask.service_tier is not None:
        facts["service_tier"] = ask.service_tier[:WORD_CHARS_MAX]
    return facts


# Requests of one application ask for the same again and again.
@lru_cache(maxsize=1024)
def _words(kinds: frozenset[str], *sets: frozenset[str]) -> dict[str, list[str]]:
    """The wire kinds, and those of `WORD_SETS` that are not empty."""
    named = zip(WORD_SETS, sets, strict=True)
    return {"kinds": sorted(kinds)} | {name: sorted(words) for name, words in named if words}


def _put_policy(trace: dict[str, Any], policy: Policy) -> None:
    trace |= _said(policy)


def _told(policy: Policy) -> dict[str, Any]:
    """What the policy says beyond the default, under the names of its fields."""
    told: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for name, value, default in zip(WANTED, _values(policy), _DEFAULTS, strict=True):
        if value is not default and value != default:
            wanted[name] = _plain(value)
            if isinstance(value, tuple | frozenset) and _too_long(value):
                told["cut"] = True
    if wanted:
        told["policy"] = wanted
    return told


def _is_of_a_key(told: Mapping[str, Any]) -> bool:
    """Whether it is all of guardrails, and so the same for every request of a key."""
    return _OF_GUARDRAILS.issuperset(told.get("policy", ()))


_said: Derived[Policy, dict[str, Any]] = Derived(_told, may_keep=_is_of_a_key)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return _cut(value)
    if isinstance(value, frozenset):
        return _cut(sorted(value))
    if isinstance(value, Mapping):
        return {key: str(n) if isinstance(n, Decimal) else n for key, n in value.items()}
    return value


def _cut(words: Sequence[str]) -> list[str]:
    return [word[:WORD_CHARS_MAX] for word in words[:WORDS_MAX]]


def _too_long(words: Collection[str]) -> bool:
    return len(words) > WORDS_MAX or max(map(len, words), default=0) > WORD_CHARS_MAX
