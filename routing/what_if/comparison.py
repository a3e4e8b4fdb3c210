"""Comparing past generations with another policy: their cost, and the endpoints that would answer.

Each request is planned again from its stored trace, with today's catalogue and the statistics of
that time. Endpoints that failed then fail again. Both sides are priced with stored token counts
and today's prices; an endpoint that left the catalogue keeps the prices of its record.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import orjson

from gateway.http.jsonio import JsonObject
from routing.entities.entries import Snapshot
from routing.entities.prices import PriceError, Prices
from routing.formats.provider_preferences import ProviderPreferences
from routing.metering.cost import PRICED_COUNTS, Units, compute_cost
from routing.metering.usage import Usage
from routing.selection.replay import NotReplayable, Replay, endpoint_name, read_replay, read_state
from routing.selection.select import select
from routing.selection.types import Policy

Change = Callable[[Policy], Policy]
ALL_FAILED = "every endpoint left had failed"


class GenerationRow(NamedTuple):
    """The columns of a generation that a replay reads, by their names."""

    created_at: datetime
    status: int
    model: str
    endpoint_tag: str | None
    provider_name: str | None
    tokens_prompt: int
    tokens_completion: int
    tokens_reasoning: int
    tokens_cached: int
    charge_nano: int
    latency_ms: int | None
    detail: JsonObject
    trace: str
    api_key_id: int | None = None


@dataclass
class Side:
    """Sums over the compared requests. `latency_s` adds up the expected time to the first token
    (the median then known of the endpoint) of the `latency_known` requests."""

    cost_nano: int = 0
    latency_s: float = 0.0
    providers: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)

    def add(self, model: str, provider: str, cost_nano: int) -> None:
        self.cost_nano += cost_nano
        self.providers[provider] += 1
        self.models[model] += 1


@dataclass
class KeyChange:
    """Sums over the compared and refused requests of one key."""

    requests: int = 0
    moved: int = 0
    refused: int = 0
    cost_before_nano: int = 0
    cost_after_nano: int = 0


@dataclass
class Comparison:
    """`seen` requests are `compared`, `refused` under the other policy (by step), or not replayed
    (by reason). Latency is compared where it was known of both endpoints. `keys` are by number."""

    seen: int = 0
    compared: int = 0
    moved: int = 0
    charged_nano: int = 0
    latency_known: int = 0
    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)
    refused: Counter[str] = field(default_factory=Counter)
    not_replayed: Counter[str] = field(default_factory=Counter)
    keys: defaultdict[int | None, KeyChange] = field(default_factory=lambda: defaultdict(KeyChange))


def compare(
    rows: Iterable[GenerationRow],
    snapshot: Snapshot,
    change: Change,
    *,
    changed: Snapshot | None = None,
    random: Callable[[], float],
) -> Comparison:
    """Replay row by row, keeping only sums. `changed` is the catalogue of the other policy, the
    same if absent."""
    result = Comparison()
    for row in rows:
        result.seen += 1
        try:
            _replay_row(result, row, snapshot, changed or snapshot, change, random)
        except NotReplayable as reason:
            result.not_replayed[str(reason)] += 1
    return result


def change_policy(policy: Policy, wishes: ProviderPreferences, named: Iterable[str]) -> Policy:
    """The policy with the `named` keys of the `provider` object taken from `wishes`."""
    changes: JsonObject = {}
    for key in named:
        changes |= _CHANGES[key](wishes)
    return replace(policy, **changes, is_shared=False)


# A key of the `provider` object -> the fields of a policy that it decides.
_CHANGES: Mapping[str, Callable[[ProviderPreferences], JsonObject]] = {
    "allow_fallbacks": lambda new: {"allow_fallbacks": new.allow_fallbacks},
    "data_collection": lambda new: {"deny_data_collection": new.data_collection == "deny"},
    "deadline_ms": lambda new: {"deadline_s": new.deadline_s},
    "enforce_distillable_text": lambda new: {"distillable_only": new.enforce_distillable_text},
    # How long to wait for an endpoint, who is asked beside it, and what follows on a broken stream,
    # choose no endpoint.
    "hedge": lambda new: {},
    "hedge_after_s": lambda new: {},
    "ignore": lambda new: {"ignore": new.ignore},
    "max_first_byte_s": lambda new: {},
    "max_price": lambda new: {"max_price_usd": new.max_price_usd},
    "only": lambda new: {"only": new.only},
    # An order also closes the tiers that a suffix opened.
    "order": lambda new: (
        {"order": new.order} | ({"admitted_tiers": frozenset()} if new.order else {})
    ),
    "preferred_max_latency": lambda new: {"max_latency_s": new.max_latency_s},
    "preferred_min_throughput": lambda new: {"min_throughput_tps": new.min_throughput_tps},
    "quantizations": lambda new: {"quantizations": frozenset(new.quantizations)},
    "require_parameters": lambda new: {"require_parameters": new.require_parameters},
    "rescue": lambda new: {},
    "sort": lambda new: {
        "sort": new.sort,
        "sort_named": new.sort is not None,
        "sort_is_default": False,
        "across_models": new.partition == "none",
    },
    "zdr": lambda new: {"zdr": new.zdr},
}


def _replay_row(
    result: Comparison,
    row: GenerationRow,
    snapshot: Snapshot,
    changed: Snapshot,
    change: Change,
    random: Callable[[], float],
) -> None:
    if row.status != 200 or row.endpoint_tag is None:
        raise NotReplayable("it was not answered")
    try:
        trace = orjson.loads(row.trace)
    except ValueError:
        raise NotReplayable("a trace that cannot be read") from None
    replay = read_replay(trace)
    models = [model for name in replay.models if (model := changed.models.get(name))]
    if not models:
        raise NotReplayable("its models are gone from the catalogue")
    then = row.model, row.endpoint_tag
    cost_then_nano = _compute_cost_nano(row, _find_prices_then(row, snapshot))
    plan = select(
        models,
        replay.requirements,
        change(replay.policy),
        read_state(replay, models),
        random=random,
    )
    now = next((each for each in plan.order if not replay.was_unavailable(each)), None)
    of_key = result.keys[row.api_key_id]
    of_key.requests += 1
    if now is None:
        result.refused[plan.failed_step or ALL_FAILED] += 1
        of_key.refused += 1
        return
    assert now.prices is not None
    cost_now_nano = _compute_cost_nano(row, now.prices)
    has_moved = endpoint_name(now) != then
    result.compared += 1
    result.moved += has_moved
    of_key.moved += has_moved
    of_key.cost_before_nano += cost_then_nano
    of_key.cost_after_nano += cost_now_nano
    result.charged_nano += row.charge_nano
    result.before.add(row.model, row.provider_name or "", cost_then_nano)
    result.after.add(now.model_id, now.provider.name, cost_now_nano)
    then_s, now_s = _find_median_s(replay, then), _find_median_s(replay, endpoint_name(now))
    if then_s is not None and now_s is not None:
        result.latency_known += 1
        result.before.latency_s += then_s
        result.after.latency_s += now_s


def _find_median_s(replay: Replay, name: tuple[str, str]) -> float | None:
    row = replay.rows.get(name)
    ttft = row.figures.get("ttft") if row is not None else None
    return ttft[0] if ttft else None


def _find_prices_then(row: GenerationRow, snapshot: Snapshot) -> Prices:
    """Today's prices of the endpoint that answered, else those that its record was charged by."""
    model = snapshot.models.get(row.model)
    for endpoint in model.endpoints if model else ():
        if endpoint.tag == row.endpoint_tag and endpoint.prices is not None:
            return endpoint.prices
    try:
        return Prices.parse(row.detail.get("pricing"))
    except PriceError:
        raise NotReplayable("its endpoint is gone and left no price") from None


def _compute_cost_nano(row: GenerationRow, prices: Prices) -> int:
    usage = Usage(
        prompt_tokens=row.tokens_prompt,
        completion_tokens=row.tokens_completion,
        cached_tokens=row.tokens_cached,
        reasoning_tokens=row.tokens_reasoning,
        completion_image_tokens=row.detail.get("completion_images", 0),
        **{name: row.detail.get(name, 0) for name in PRICED_COUNTS},
    )
    units = Units(images=row.detail.get("images", 0))
    return compute_cost(
        usage, prices.effective(row.tokens_prompt, row.created_at), units
    ).total_nano
