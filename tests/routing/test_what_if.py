"""Stored generations under another policy: what is compared, what is not, and by what prices."""

import random
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, cast

import orjson
import pytest

from routing.catalogue.entries import EMPTY, ModelEntry, Snapshot
from routing.formats.provider_preferences import ProviderPreferences, resolve_provider
from routing.selection.ask import (
    NO_POLICY,
    NOTHING_LEARNED,
    Ask,
    Figures,
    Percentiles,
    Policy,
    State,
)
from routing.selection.select import select
from routing.selection.trace import Tried, kept_state, trace_of
from routing.what_if import ALL_FAILED, Comparison, Row, changed, compare
from tests.routing.selection.entries import endpoint, model

CHAT = Ask(kinds=frozenset({"openai"}), prompt_tokens=10)
CHEAP = {"prompt": "0.000001", "completion": "0.000002"}
DEAR = {"prompt": "0.00001", "completion": "0.00002"}
# Ten tokens in, five out.
CHEAP_NANO, DEAR_NANO = 20_000, 200_000
AT = datetime(2026, 1, 2, tzinfo=UTC)
WORLD = model(endpoint("cheap", pricing=CHEAP), endpoint("dear", pricing=DEAR))


def snapshot(*models: ModelEntry) -> Snapshot:
    held = MappingProxyType({each.id: each for each in models})
    return Snapshot(1, held, EMPTY.aliases, EMPTY.providers, models, 0)


def speeds(**seconds: float) -> State:
    """The median time to the first token of WORLD's endpoints, by tag."""
    by_tag = {each.tag: each.pk for each in WORLD.endpoints}
    known = {by_tag[tag]: Percentiles(s, s, s, s) for tag, s in seconds.items()}
    return State({key: Figures(latency_s=value, calls=9) for key, value in known.items()})


def row(
    *,
    served: str = "dear",
    failed: tuple[str, ...] = (),
    policy: Policy = NO_POLICY,
    state: State = NOTHING_LEARNED,
    world: ModelEntry = WORLD,
    **columns: Any,
) -> Row:
    """A generation of `world` that `served` answered, after `failed` had failed it."""
    plan = select([world], CHAT, policy, state, random=lambda: 0.0)
    keys = {each.tag: each.pk for each in world.endpoints}
    attempts = [Tried(keys[tag], "timeout") for tag in failed] + [Tried(keys[served], None)]
    trace = trace_of(
        plan,
        CHAT,
        policy,
        kept_state(plan, state),
        models=[world.id],
        requested=[world.id],
        strategy="direct",
        attempts=attempts,
        chosen=keys[served],
    )
    usual: dict[str, Any] = {
        "created_at": AT,
        "status": 200,
        "model": world.id,
        "endpoint_tag": served,
        "provider_name": served.title(),
        "tokens_prompt": 10,
        "tokens_completion": 5,
        "tokens_reasoning": 0,
        "tokens_cached": 0,
        "charge_nano": 777,
        "latency_ms": 100,
        "detail": {},
        "trace": orjson.dumps(trace).decode(),
    }
    return Row(**usual | columns)


def tried(*rows: Row, world: ModelEntry = WORLD, **wanted: Any) -> Comparison:
    """The rows under a `provider` object of these keys."""
    wishes = resolve_provider(cast("Any", wanted)) or ProviderPreferences()
    return compare(
        rows,
        snapshot(world),
        lambda policy: changed(policy, wishes, wanted),
        random=random.Random(0).random,
    )


def test_a_sort_by_price_moves_what_went_elsewhere() -> None:
    found = tried(row(served="dear"), row(served="cheap"), sort="price")

    assert (found.seen, found.compared, found.moved) == (2, 2, 1)
    assert (found.before.cost_nano, found.after.cost_nano) == (
        *(DEAR_NANO + CHEAP_NANO, 2 * CHEAP_NANO),
    )
    assert found.before.providers == Counter(Dear=1, Cheap=1)
    assert found.after.providers == Counter(Cheap=2)
    assert found.charged_nano == 2 * 777


def test_the_statistics_of_then_decide_and_tell_the_latency() -> None:
    fast = speeds(cheap=2.0, dear=0.5)

    found = tried(row(served="cheap", state=fast), sort="latency")

    assert found.after.providers == Counter(Dear=1)
    assert (found.latency_known, found.before.latency_s, found.after.latency_s) == (1, 2.0, 0.5)


def test_a_latency_that_was_not_known_on_both_sides_is_not_compared() -> None:
    found = tried(row(served="cheap", state=speeds(cheap=2.0)), order=["dear"])

    assert (found.compared, found.latency_known, found.before.latency_s) == (1, 0, 0.0)


def test_what_failed_then_fails_again() -> None:
    found = tried(row(served="dear", failed=("cheap",)), sort="price")

    assert (found.compared, found.moved) == (1, 0)
    assert tried(row(failed=("cheap",)), ignore=["dear"]).refused == Counter({ALL_FAILED: 1})


def test_who_would_be_refused_is_counted_by_step_and_not_priced() -> None:
    found = tried(row(), max_price={"prompt": "0.5"})

    assert found.refused == Counter({"Filter by Max Price": 1})
    assert (found.compared, found.before.cost_nano, found.charged_nano) == (0, 0, 0)


def test_keys_that_are_given_replace_and_the_others_stay() -> None:
    wished = row(policy=Policy(ignore=("cheap",), sort="price", sort_named=True))

    assert tried(wished, zdr=False).after.providers == Counter(Dear=1)
    assert tried(wished, ignore=None).after.providers == Counter(Cheap=1)


def test_a_policy_is_changed_in_the_fields_of_its_keys() -> None:
    policy = Policy(
        order=("a",), admitted_tiers=frozenset({"flex"}), zdr=True, account_ignored=("b",)
    )
    wanted: Any = {
        "order": ["c"],
        "zdr": None,
        "data_collection": "deny",
        "max_price": {"prompt": "1"},
        "preferred_max_latency": 2,
        "preferred_min_throughput": {"p90": 30},
        "quantizations": ["fp8"],
        "sort": {"by": "latency", "partition": "none"},
        "allow_fallbacks": False,
        "require_parameters": True,
        "enforce_distillable_text": True,
        "only": ["d"],
        "ignore": ["e"],
    }
    wishes = resolve_provider(wanted)
    assert wishes is not None

    assert changed(policy, wishes, wanted) == Policy(
        only=("d",),
        order=("c",),
        ignore=("e",),
        account_ignored=("b",),
        allow_fallbacks=False,
        deny_data_collection=True,
        distillable_only=True,
        quantizations=frozenset({"fp8"}),
        max_price_usd={"prompt": Decimal(1)},
        require_parameters=True,
        sort="latency",
        sort_named=True,
        across_models=True,
        max_latency_s={"p50": 2},
        min_throughput_tps={"p90": 30},
    )


def test_both_sides_are_priced_by_the_catalogue_of_today() -> None:
    dearer = model(endpoint("cheap", pricing=DEAR), endpoint("dear", pricing=DEAR))

    found = tried(row(served="cheap"), world=dearer)

    assert found.before.cost_nano == found.after.cost_nano == DEAR_NANO


def test_an_endpoint_that_is_gone_keeps_the_prices_of_its_record() -> None:
    left = model(endpoint("cheap", pricing=CHEAP))
    pinned = row(served="dear", detail={"pricing": DEAR})

    found = tried(pinned, world=left)

    assert (found.before.cost_nano, found.after.cost_nano) == (DEAR_NANO, CHEAP_NANO)
    assert tried(row(served="dear"), world=left).not_replayed == Counter(
        {"its endpoint is gone and left no price": 1}
    )


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"status": 503}, "it was not answered"),
        ({"endpoint_tag": None}, "it was not answered"),
        ({"trace": "{}"}, "no trace"),
        ({"trace": "{"}, "a trace that cannot be read"),
        ({"trace": '{"v":9}'}, "a trace of another version"),
    ],
)
def test_what_cannot_be_replayed_is_counted_by_its_reason(
    columns: dict[str, Any], reason: str
) -> None:
    found = tried(row(**columns), row())

    assert found.not_replayed == Counter({reason: 1})
    assert (found.seen, found.compared) == (2, 1)


def test_models_that_are_gone_are_not_replayed() -> None:
    other = model(endpoint("cheap"), id="acme/other")

    assert tried(row(), world=other).not_replayed == Counter(
        {"its models are gone from the catalogue": 1}
    )


def test_load_balancing_is_drawn_again_and_sums_to_its_shares() -> None:
    even = model(endpoint("one", pricing=CHEAP), endpoint("two", pricing=CHEAP))

    found = tried(*[row(served="one", world=even)] * 400, world=even)

    assert 150 < found.after.providers["Two"] < 250


def test_tags_may_have_moved_to_other_keys_since() -> None:
    rebuilt = model(endpoint("dear", pricing=DEAR), endpoint("cheap", pricing=CHEAP))

    found = tried(
        row(served="cheap", state=speeds(cheap=2.0, dear=0.5)), world=rebuilt, sort="latency"
    )

    assert found.after.providers == Counter(Dear=1)
