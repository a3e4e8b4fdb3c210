"""Generations to count, and the same sums by plain Python."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from accounts.models import Account, ApiKey, Membership, User, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from gateway.end_users import hash_user
from routing.history.columns import CONTEXT_BEYOND, CONTEXT_BUCKETS
from routing.metering.models import Generation

NOW = datetime(2026, 11, 20, 12, 34, 56, 789_000, tzinfo=UTC)
MODELS = ("acme/one", "acme/one:free", "beta/two")
SLUGS = {"acme/one": "acme/one-2026", "acme/one:free": "acme/one-2026", "beta/two": "beta/two"}
APPS = (None, "https://one.example/app", "http://two.example")
USERS = (None, "alice", "böb")


@dataclass
class Office:
    """An account with two workspaces and three keys; the last key is nobody's."""

    account: Account
    workspaces: list[Workspace]
    keys: list[ApiKey]
    users: list[User]
    management: str


def office(name: str = "office") -> Office:
    account = open_account(name=name)
    boss, member = (
        admit_member(account=account, username=f"{name}-{role}", role=role)
        for role in (Membership.Role.ADMIN, Membership.Role.MEMBER)
    )
    places = [account.workspaces.get(), open_workspace(account=account, slug="second")]
    made = [(places[0], boss), (places[1], member), (places[1], None)]
    keys = [
        create_key(account=account, name=f"key {n}", workspace=place, creator=user)[0]
        for n, (place, user) in enumerate(made)
    ]
    _, management = create_key(account=account, name="m", workspace=None, creator=boss)
    return Office(account, places, keys, [boss, member], management)


@dataclass(frozen=True)
class Fact:
    """What is known of one generation, in the words of analytics."""

    id: str
    at: datetime
    key: int
    model: str = "acme/one"
    provider: str | None = "First"
    app: str | None = None
    user: str | None = None
    finish: str | None = "stop"
    prompt: int = 10
    completion: int = 5
    cached: int = 0
    charge: int = 0
    cost: int = 0
    byok: bool = False
    # Of cost and charge, where `byok` does not tell.
    own: tuple[int, int] | None = None
    guarded: bool = False
    status: int = 200
    latency: int | None = 100
    took: int | None = 500
    lost: bool = False
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def error_type(self) -> str:
        return "" if self.status == 200 else "provider_unavailable"

    @property
    def speed(self) -> int | None:
        """Tenths of tokens per second."""
        if self.status != 200 or not self.took or not self.completion:
            return None
        return (self.completion * 10_000 + self.took // 2) // self.took


def save(mine: Office, facts: Iterable[Fact]) -> None:
    Generation.objects.bulk_create(_row(mine, fact) for fact in facts)


def _row(mine: Office, fact: Fact) -> Generation:
    detail: dict[str, Any] = {"permaslug": SLUGS[fact.model]}
    if fact.app:
        detail |= {"app": fact.app, "app_title": fact.app.upper(), "origin": fact.app[:18]}
    if fact.guarded:
        detail["guarded"] = True
    if fact.cached:
        detail["cache_saved_nano"] = fact.cached * 3
    if fact.tags:
        detail["tags"] = dict(fact.tags)
    if fact.own is not None:
        detail |= dict(zip(("own_cost_nano", "own_fee_nano"), fact.own, strict=True))
    key = mine.keys[fact.key]
    fields = {
        "status": fact.status,
        "error_type": fact.error_type or None,
        "lost": fact.lost,
        "finish_reason": fact.finish,
        "tokens_prompt": fact.prompt,
        "tokens_completion": fact.completion,
        "tokens_cached": fact.cached,
        "charge_nano": fact.charge,
        "upstream_cost_nano": fact.cost,
        "is_byok": fact.byok,
        "latency_ms": fact.latency,
        "generation_time_ms": fact.took,
        "external_user": fact.user,
        "provider_name": fact.provider,
        "endpoint_tag": fact.provider and fact.provider.lower(),
    }
    owner = {"account": mine.account, "workspace": key.workspace, "api_key": key}
    models = {"model": fact.model, "requested_model": fact.model, "streamed": False}
    return Generation(id=fact.id, created_at=fact.at, detail=detail, **owner, **models, **fields)


def find_beginning(at: datetime, granularity: str) -> datetime:
    """The beginning of the period that a moment lies in."""
    minute = at.replace(second=0, microsecond=0)
    day = minute.replace(hour=0, minute=0)
    week = day - timedelta(days=day.weekday())
    begun = {"minute": minute, "hour": minute.replace(minute=0), "day": day, "week": week}
    return (begun | {"month": day.replace(day=1)})[granularity]


def dimension(mine: Office, fact: Fact, name: str) -> Any:
    """The value of a dimension, "" or 0 where there is none."""
    key = mine.keys[fact.key]
    values = {
        "model": SLUGS[fact.model],
        "variant": fact.model.partition(":")[2] or "standard",
        "api_key_id": key.pk,
        "user": key.creator_id or 0,
        "workspace": str(key.workspace_id),
        "app": fact.app or "",
        "generation_id": fact.id,
        "provider": fact.provider or "",
        "origin": (fact.app or "")[:18],
        "finish_reason": fact.finish or "",
        "external_user": hash_user(mine.account.pk, fact.user) if fact.user else "",
        "context_length_bucket": next(
            (name for most, name in CONTEXT_BUCKETS if fact.prompt <= most), CONTEXT_BEYOND
        ),
        "status": fact.status,
        "error_type": fact.error_type,
    }
    return values.get(name, "")


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _rank(values: Iterable[int | None], percent: int) -> int | None:
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(len(known) * percent / 100) - 1] if known else None


def metric(name: str, facts: Sequence[Fact]) -> Any:
    """A metric of some generations: money in nano-USD, speeds in tenths."""
    charge, cost = sum(f.charge for f in facts), sum(f.cost for f in facts)
    prompt, completion = sum(f.prompt for f in facts), sum(f.completion for f in facts)
    cached, guarded = sum(f.cached for f in facts), sum(f.guarded for f in facts)
    byok_cost = sum(f.own[0] if f.own else f.byok * f.cost for f in facts)
    fees = sum(f.own[1] if f.own else f.byok * f.charge for f in facts)
    latencies = [fact.latency for fact in facts if fact.status == 200]
    speeds = [fact.speed for fact in facts]
    values: dict[str, Any] = {
        "request_count": len(facts),
        "tokens_total": prompt + completion,
        "tokens_prompt": prompt,
        "tokens_completion": completion,
        "cached_tokens": cached,
        "byok_request_count": sum(f.byok for f in facts),
        "guardrail_invoked_count": guarded,
        "total_usage": charge + byok_cost,
        "credits_usage": charge,
        "router_usage": charge - fees,
        "byok_usage": byok_cost,
        "byok_fees": fees,
        "usage_upstream": cost,
        "usage_cache": -3 * cached,
        "error_rate": _share(sum(bool(f.error_type) for f in facts), len(facts)),
        "cache_hit_rate": _share(cached, prompt),
        "guardrail_invoked_rate": _share(guarded, len(facts)),
        "response_cached_rate": _share(0, len(facts)),
        "avg_latency": _mean(latencies),
        "avg_throughput": _mean(speeds),
    }
    kind, _, measure = name.partition("_")
    if measure in {"latency", "throughput"} and kind[1:].isdigit():
        return _rank(latencies if measure == "latency" else speeds, int(kind[1:]))
    return values.get(name, 0)


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def group_facts(
    mine: Office, facts: Iterable[Fact], granularity: str | None, dimensions: Sequence[str]
) -> dict[tuple[Any, ...], list[Fact]]:
    """Generations by period and dimensions; without either there is one group in any case."""
    found: dict[tuple[Any, ...], list[Fact]] = defaultdict(list)
    if not granularity and not dimensions:
        found[()] = []
    for fact in facts:
        if not fact.lost:
            period = (find_beginning(fact.at, granularity),) if granularity else ()
            found[*period, *(dimension(mine, fact, name) for name in dimensions)].append(fact)
    return found
