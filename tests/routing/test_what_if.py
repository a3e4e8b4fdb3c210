"""Stored generations under another policy: what is compared, what is not, and by what prices."""

import io
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import orjson
import pytest
from django.core.management import call_command

from accounts.guard_rules import GuardrailEntry
from accounts.models import ApiKey
from routing.entities.entries import EMPTY, ModelEntry, Snapshot
from routing.formats.provider_preferences import (
    ProviderField,
    ProviderPreferences,
    resolve_provider,
)
from routing.metering.models import Generation
from routing.selection.select import select
from routing.selection.trace import TracedAttempt, build_trace, freeze_state
from routing.selection.types import (
    NO_POLICY,
    NOTHING_LEARNED,
    EndpointState,
    EndpointStats,
    Percentiles,
    Policy,
    Requirements,
)
from routing.what_if import period as what_if_period
from routing.what_if.comparison import (
    ALL_FAILED,
    Comparison,
    GenerationRow,
    KeyChange,
    change_policy,
    compare,
)
from routing.what_if.period import (
    NoSuchEndpoint,
    PriceChange,
    Rules,
    apply_rules,
    change_prices,
)
from tests.routing.selection.entries import endpoint, model
from tests.support.operations import fill

CHAT = Requirements(kinds=frozenset({"openai"}), prompt_tokens=10)
CHEAP = {"prompt": "0.000001", "completion": "0.000002"}
DEAR = {"prompt": "0.00001", "completion": "0.00002"}
# Ten tokens in, five out.
CHEAP_NANO, DEAR_NANO = 20_000, 200_000
USUAL: dict[str, Any] = {
    "created_at": datetime(2026, 1, 2, tzinfo=UTC),
    "status": 200,
    "tokens_prompt": 10,
    "tokens_completion": 5,
    "tokens_reasoning": 0,
    "tokens_cached": 0,
    "charge_nano": 777,
    "latency_ms": 100,
    "detail": {},
}
WORLD = model(endpoint("cheap", pricing=CHEAP), endpoint("dear", pricing=DEAR))


# The cheap one first, and the dear one.
DRAWS = (0.0, 0.9999)


def speeds(**seconds: float) -> EndpointState:
    """The median time to the first token of WORLD's endpoints, by tag."""
    by_tag = {each.tag: each.pk for each in WORLD.endpoints}
    known = {by_tag[tag]: Percentiles(s, s, s, s) for tag, s in seconds.items()}
    return EndpointState(
        {key: EndpointStats(latency_s=value, calls=9) for key, value in known.items()}
    )


def row(
    *,
    served: str = "dear",
    failed: tuple[str, ...] = (),
    passed_over: tuple[str, ...] = (),
    policy: Policy = NO_POLICY,
    state: EndpointState = NOTHING_LEARNED,
    world: ModelEntry = WORLD,
    **columns: Any,
) -> GenerationRow:
    """A generation of `world` that `served` answered, after `failed` had failed it. What was
    `passed_over` came first, and was not asked."""
    first = [*failed, *passed_over, served][0]
    plans = [select([world], CHAT, policy, state, random=partial(float, draw)) for draw in DRAWS]
    plan = next((each for each in plans if each.order and each.order[0].tag == first), plans[0])
    keys = {each.tag: each.pk for each in world.endpoints}
    trace = build_trace(
        plan,
        CHAT,
        policy,
        freeze_state(plan, state),
        models=[world.id],
        requested=[world.id],
        strategy="direct",
        attempts=[TracedAttempt(keys[tag], "timeout") for tag in failed]
        + [TracedAttempt(keys[served], None)],
        chosen=keys[served],
    )
    own = {"model": world.id, "endpoint_tag": served, "provider_name": served.title()}
    return GenerationRow(**USUAL | own | {"trace": orjson.dumps(trace).decode()} | columns)


def try_policy(*rows: GenerationRow, world: ModelEntry = WORLD, **wanted: Any) -> Comparison:
    """The rows under a `provider` object of these keys."""
    wishes = resolve_provider(cast("Any", wanted)) or ProviderPreferences()
    return compare(
        rows,
        world_snapshot(world),
        lambda policy: change_policy(policy, wishes, wanted),
        random=random.Random(0).random,
    )


def test_a_sort_by_price_moves_what_went_elsewhere() -> None:
    found = try_policy(row(served="dear"), row(served="cheap"), sort="price")
    assert (found.seen, found.compared, found.moved) == (2, 2, 1)
    costs = (found.before.cost_nano, found.after.cost_nano)
    assert costs == (DEAR_NANO + CHEAP_NANO, 2 * CHEAP_NANO)
    assert found.before.providers == Counter(Dear=1, Cheap=1)
    assert found.after.providers == Counter(Cheap=2)
    assert found.charged_nano == 2 * 777


def test_the_statistics_of_then_decide_and_tell_the_latency() -> None:
    then = row(served="cheap", state=speeds(cheap=2.0, dear=0.5))
    found = try_policy(then, sort="latency")
    assert found.after.providers == Counter(Dear=1)
    assert (found.latency_known, found.before.latency_s, found.after.latency_s) == (1, 2.0, 0.5)
    # Tags may have moved to other keys since.
    rebuilt = model(endpoint("dear", pricing=DEAR), endpoint("cheap", pricing=CHEAP))
    assert try_policy(then, world=rebuilt, sort="latency").after.providers == Counter(Dear=1)
    # What was not known on both sides is not compared.
    found = try_policy(row(served="cheap", state=speeds(cheap=2.0)), order=["dear"])
    assert (found.compared, found.latency_known, found.before.latency_s) == (1, 0, 0.0)


def test_what_failed_then_fails_again() -> None:
    found = try_policy(row(served="dear", failed=("cheap",)), sort="price")
    assert (found.compared, found.moved) == (1, 0)
    assert try_policy(row(failed=("cheap",)), ignore=["dear"]).refused == Counter({ALL_FAILED: 1})


def test_what_had_no_room_then_has_none_again() -> None:
    found = try_policy(row(served="dear", passed_over=("cheap",)), sort="price")
    assert (found.compared, found.moved) == (1, 0)


def test_who_would_be_refused_is_counted_by_step_and_not_priced() -> None:
    found = try_policy(row(), max_price={"prompt": "0.5"})
    assert found.refused == Counter({"Filter by Max Price": 1})
    assert (found.compared, found.before.cost_nano, found.charged_nano) == (0, 0, 0)


def test_keys_that_are_given_replace_and_the_others_stay() -> None:
    wished = row(policy=Policy(ignore=("cheap",), sort="price", sort_named=True))
    assert try_policy(wished, zdr=False).after.providers == Counter(Dear=1)
    assert try_policy(wished, ignore=None).after.providers == Counter(Cheap=1)


def world_snapshot(world: ModelEntry = WORLD) -> Snapshot:
    held = MappingProxyType({world.id: world})
    return Snapshot(1, held, EMPTY.aliases, EMPTY.providers, (world,), 0)


def replay(rules: Rules, *rows: GenerationRow) -> Comparison:
    snapshot = world_snapshot()
    return compare(
        rows,
        snapshot,
        lambda policy: apply_rules(policy, rules),
        changed=change_prices(snapshot, rules.prices),
        random=random.Random(0).random,
    )


def test_other_prices_move_and_are_paid() -> None:
    cheaper = Decimal("0.1"), Decimal("0.1")
    sorted_by_price = row(
        served="cheap", policy=Policy(sort="price", sort_named=True), api_key_id=7
    )
    found = replay(Rules(prices=[PriceChange(WORLD.id, "dear", *cheaper)]), sorted_by_price)
    assert (found.moved, found.before.cost_nano, found.after.cost_nano) == (1, CHEAP_NANO, 1_500)
    assert found.keys[7] == KeyChange(1, 1, 0, CHEAP_NANO, 1_500)
    with pytest.raises(NoSuchEndpoint) as missing:
        change_prices(world_snapshot(), [PriceChange(WORLD.id, "nobody", *cheaper)])
    assert missing.value.at == 0


def test_an_ignored_provider_and_a_guardrail_are_added_to_what_held() -> None:
    narrowed = row(served="dear", policy=Policy(guard_providers=frozenset({"dear", "cheap"})))
    only_cheap = GuardrailEntry("workspace", allowed_providers=frozenset({"cheap", "other"}))
    assert replay(Rules(guardrail=only_cheap), narrowed).after.providers == Counter(Cheap=1)
    banned = row(served="cheap", policy=Policy(account_ignored=("cheap",)), api_key_id=7)
    refused = replay(Rules(ignored_providers=["dear"]), banned)
    assert refused.refused.total() == 1
    assert refused.keys[7] == KeyChange(requests=1, refused=1)


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
        "deadline_ms": 3000,
        "max_first_byte_s": 2,
        "hedge": True,
        "hedge_after_s": 1,
        "rescue": True,
    }
    assert wanted.keys() == ProviderField.__annotations__.keys()
    wishes = resolve_provider(wanted)
    assert wishes is not None
    assert change_policy(policy, wishes, wanted) == Policy(
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
        deadline_s=3.0,
    )


def test_both_sides_are_priced_by_the_catalogue_of_today() -> None:
    dearer = model(endpoint("cheap", pricing=DEAR), endpoint("dear", pricing=DEAR))
    found = try_policy(row(served="cheap"), world=dearer)
    assert found.before.cost_nano == found.after.cost_nano == DEAR_NANO
    # An endpoint that is gone keeps the prices of its record.
    left = model(endpoint("cheap", pricing=CHEAP))
    found = try_policy(row(served="dear", detail={"pricing": DEAR}), world=left)
    assert (found.before.cost_nano, found.after.cost_nano) == (DEAR_NANO, CHEAP_NANO)


@pytest.mark.parametrize(
    ("columns", "world", "reason"),
    [
        ({"status": 503}, WORLD, "it was not answered"),
        ({"endpoint_tag": None}, WORLD, "it was not answered"),
        ({"trace": "{}"}, WORLD, "no trace"),
        ({"trace": "{"}, WORLD, "a trace that cannot be read"),
        ({"trace": '{"v":9}'}, WORLD, "a trace of another version"),
        ({}, model(endpoint("cheap")), "its endpoint is gone and left no price"),
        ({}, model(endpoint("cheap"), id="a/b"), "its models are gone from the catalogue"),
    ],
)
def test_what_cannot_be_replayed_is_counted_by_its_reason(
    columns: dict[str, Any], world: ModelEntry, reason: str
) -> None:
    rest = row(served="cheap", world=world)
    found = try_policy(row(**columns), rest, world=world)
    assert found.not_replayed == Counter({reason: 1})
    assert (found.seen, found.compared) == (2, 1)


def test_load_balancing_is_drawn_again_and_sums_to_its_shares() -> None:
    even = model(endpoint("one", pricing=CHEAP), endpoint("two", pricing=CHEAP))
    found = try_policy(*[row(served="one", world=even)] * 400, world=even)
    assert 150 < found.after.providers["Two"] < 250


def add(rows: int) -> None:
    """Generations of 2020, seven of each second."""
    fill(1)
    key = ApiKey.objects.latest("id")
    owner = {"account": key.account, "workspace": key.workspace, "api_key": key}
    named = {"model": "acme/one", "requested_model": "acme/one", "streamed": False}
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    Generation.objects.bulk_create(
        Generation(
            id=f"gen-replayed-{n}",
            created_at=begin + timedelta(seconds=n // 7),
            status=503 if n % 2 else 200,
            **owner,
            **named,
        )
        for n in range(rows)
    )


def run_what_if(*options: str) -> Any:
    out = io.StringIO()
    period = ("--since", "2020-01-01", "--until", "2021-01-01")
    call_command("what_if", "--json", *period, *options, stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.django_db
@pytest.mark.both
@pytest.mark.parametrize("rows", [0, 1, 30, 31, 59, 60, 61])
def test_every_row_of_a_period_is_seen_once_and_a_limit_is_kept(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(what_if_period, "_PORTION_ROWS", 30)
    add(rows)
    found = run_what_if()
    assert found["generations"] == rows
    assert found["not_replayed"].get("it was not answered", 0) == rows
    assert (found["compared"], found["before"]["latency_s"]) == (0, None)
    for limit in (0, 1, 30, 31, 500):
        assert run_what_if("--limit", str(limit))["generations"] == min(limit, rows)
