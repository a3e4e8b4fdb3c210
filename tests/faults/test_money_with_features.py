"""What holds of money holds with each feature on. A crowd that cannot pay for all it asks spends no
more than its smallest limit (M1, M3, M4, M5). Some of it leave or ask twice. Each answer costs what
it says (M8) at the prices before or after they change under the crowd (M7). The books add up (M10).
Each feature is seen at work. M9 with all features on is `test_m9_kills`'s."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import CHAT, HELLO, Desk, changed_workspace
from tests.conformance.guarded import set_guardrail
from tests.conformance.own_credentials import bring, credentials_at
from tests.faults import bench
from tests.faults.conftest import GatewayWith
from tests.support.callers import Heard, ask, at_a_time, begin
from tests.support.gateways import seed_account
from tests.support.ledger import Call, Ledger
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
REQUESTS, AT_ONCE, MAX_TOKENS = 24, 8, 100
ASKED = {"model": "plain/first", "messages": HELLO, "max_tokens": MAX_TOKENS}
USAGE = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS}
ONE_NANO = 27 * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
# After so many of each crowd prices change from one to the other.
CHANGED_AFTER = 4
DEARER = {"prompt": "0.0000015", "completion": "0.000003"}
PAID_NANO = frozenset({ONE_NANO, 27 * 1_500 + MAX_TOKENS * 3_000})
CREDITS_USD, LIMIT_USD, LIMIT_NANO = "0.004", 0.003, 3_000_000
GOOD = {"text": "Well met", "usage": USAGE}
BUSY = {"status": 503, "json": {"error": {"message": "busy"}}}
CUT = {"events": [{"text": "Well "}, {"text": "m"}, {"cut": "reset"}]}
# Longer than any caller waits.
LATE = {"gate": "never", **GOOD}
SECRET = {"text": "It is secret-7 of course", "usage": USAGE}
ORDER = ["first", "second"]
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "a",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}
CLASSIFIER = {
    "id": "auto-router",
    "classifier": {
        "model": "acme/judge",
        "classes": {"one": {"model": "plain/first"}, "two": {"model": "plain/second"}},
    },
}


@dataclass(frozen=True)
class Outcome:
    """What the callers who stayed were answered, and what is on record of all by generation."""

    desk: Desk
    heard: list[Heard]
    calls: dict[str, Call]

    @property
    def statuses(self) -> set[int]:
        return {each.status for each in self.heard}

    def read_records(self) -> Iterator[Any]:
        """Each generation as GET /generation shows it."""
        return map(self.desk.generation, self.calls)


def has_attempts(*statuses: int) -> Callable[[Outcome], bool]:
    """Whether some request had attempts that ended like this, in this order."""
    return lambda outcome: any(
        [each["status"] for each in record["provider_responses"]] == list(statuses)
        for record in outcome.read_records()
    )


def has_cache_status(status: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(each.cache_status == status for each in outcome.heard)


@dataclass(frozen=True)
class Feature:
    """One feature and its requests. `happened` sees that it was at work; `set_up` switches it on.

    Each request has `body` beside; where it `is_same` all are of one user and so the very same.
    `first` answers by `steps` in turn. `refusals` may come beside those of what cannot be paid for.
    A whole answer may cost one of `owed_nano`; None where a request has parts of which some may be
    owed. A request makes so many `generations`, and `limit_nano` is the smallest limit on all.
    """

    happened: Callable[[Outcome], bool]
    set_up: Callable[[Desk], object] = lambda desk: None
    body: dict[str, Any] = field(default_factory=dict)
    is_same: bool = False
    steps: tuple[dict[str, Any], ...] = (GOOD,)
    refusals: frozenset[int] = frozenset()
    owed_nano: frozenset[int] | None = PAID_NANO
    generations: int = 1
    limit_nano: int = LIMIT_NANO


def limit_rates(desk: Desk) -> None:
    """Some requests find no place, and are refused before they cost anything."""
    changed_workspace(desk, rate_limits=[{"concurrent": 2, "tokens_per_minute": 10**6}])


FEATURES = {
    "retries": Feature(has_attempts(503, 200), steps=(BUSY, GOOD, GOOD), refusals=frozenset({503})),
    "hedge": Feature(
        has_attempts(499, 200),
        lambda desk: changed_workspace(desk, hedge=True),
        {"model": "plain/pair", "provider": {"order": ORDER, "hedge_after_s": 0.1}},
        steps=({"delay_s": 2.0, **GOOD}, GOOD),
        owed_nano=None,
    ),
    "rescue": Feature(
        # Both parts are paid for.
        lambda outcome: any(
            call.status == 200 and call.tokens_prompt > USAGE["prompt_tokens"]
            for call in outcome.calls.values()
        ),
        lambda desk: changed_workspace(desk, rescue=True),
        {"model": "plain/pair", "provider": {"order": ORDER}, "stream": True},
        steps=(CUT,),
        # Who cannot pay for the rest.
        refusals=frozenset({502}),
        owed_nano=None,
    ),
    "coalescing": Feature(
        has_cache_status("SHARED"),
        body={"temperature": 0},
        is_same=True,
        steps=({"delay_s": 1.0, **GOOD},),
        owed_nano=PAID_NANO | {0},
    ),
    "exact cache": Feature(
        has_cache_status("HIT"),
        lambda desk: changed_workspace(desk, response_cache=True),
        is_same=True,
        owed_nano=PAID_NANO | {0},
    ),
    "output guardrail": Feature(
        lambda outcome: any(
            record["finish_reason"] == "content_filter" for record in outcome.read_records()
        ),
        lambda desk: set_guardrail(
            desk, output_filters=[{"pattern": "secret-[0-9]", "action": "block"}]
        ),
        steps=(GOOD, SECRET),
    ),
    "classifier": Feature(
        lambda outcome: bool(outcome.desk.list_sent_bodies("judge")),
        body={"model": "router/auto", "plugins": [CLASSIFIER]},
        generations=2,
    ),
    "deadline": Feature(
        lambda outcome: any(call.status == 408 for call in outcome.calls.values()),
        body={"model": "plain/patient", "provider": {"deadline_ms": 15_000}},
        steps=(GOOD, GOOD, LATE),
        refusals=frozenset({408}),
    ),
    "own credential": Feature(
        lambda outcome: any(record["is_byok"] for record in outcome.read_records()),
        lambda desk: bring(desk, "first", "sk-mine-0123456789abcdef"),
        owed_nano=frozenset({0}),
    ),
    "pool": Feature(
        lambda outcome: len(set(credentials_at(outcome.desk, "pooled"))) == 2,
        body={"model": "plain/pooled"},
    ),
    "schema and repair": Feature(
        has_attempts(200, 200),
        lambda desk: set_guardrail(desk, enforce_schema=True),
        {"response_format": SCHEMA},
        steps=(GOOD, {"text": '{"a": 1}', "usage": USAGE}),
        owed_nano=None,
    ),
    "rate limits": Feature(
        lambda outcome: 429 in outcome.statuses,
        limit_rates,
        steps=({"delay_s": 0.3, **GOOD},),
        refusals=frozenset({429}),
    ),
    "tags and end users": Feature(
        # Of the key's own limit enough is left.
        lambda outcome: 402 in outcome.statuses,
        lambda desk: changed_workspace(
            desk,
            end_user_budget={"reset_interval": "daily", "limit_usd": 10, "overrides": []},
            tag_budgets=[{"tag": "run=*", "reset_interval": "daily", "limit_usd": 0.0025}],
        ),
        {"metadata": {"run": "crowd"}},
        limit_nano=2_500_000,
    ),
}


def list_providers(simulator: SimulatedUpstream) -> list[dict[str, Any]]:
    pooled = bench.provider("pooled", f"{simulator.url}/pooled/v1")
    del pooled["credential"]
    pooled["credentials"] = [
        {"label": label, "credential": f"secret-{label}", "weight": 1} for label in "ab"
    ]
    judge = bench.provider("judge", f"{simulator.url}/judge/v1", kind="decisions")
    return [*bench.personas(simulator), pooled, judge]


def list_models(pricing: dict[str, str]) -> list[dict[str, Any]]:
    deciding = {"provider": "judge", "upstream_model": "judge", "pricing": bench.CHEAP}
    parameters = [*bench.PARAMETERS, "structured_outputs"]
    first, second = (
        bench.endpoint(slug, supported_parameters=parameters, pricing=pricing)
        for slug in ("first", "second")
    )
    return [
        bench.model("plain/first", first),
        bench.model("plain/second", second),
        bench.model("plain/pair", first, second),
        bench.model("plain/patient", first, first_byte_s=60),
        bench.model("plain/pooled", bench.endpoint("pooled", pricing=pricing)),
        bench.model("acme/judge", deciding, output_modalities=["decisions"]),
    ]


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> GatewayServer:
    return gateway_with(
        list_models(bench.CHEAP),
        providers=list_providers(simulator),
        ROUTER_RESPONSE_CACHE_ENABLED="true",
        ROUTER_ENDPOINT_RETRIES="2",
        ROUTER_RETRY_BACKOFF="0.01",
        ROUTER_FIRST_BYTE_TIMEOUT="10",
        WEB_CONCURRENCY="2",
    )


def change_prices(desk: Desk, folder: Path, pricing: dict[str, str]) -> None:
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(bench.as_yaml(list_providers(desk.upstream), list_models(pricing)))
    desk.server.manage("load_catalogue", str(catalogue))

    def are_shown() -> bool:
        models = desk.server.get("/api/v1/models", key=desk.account.api_key).json()["data"]
        shown = {each["id"]: each["pricing"]["prompt"] for each in models}
        return bool(shown["plain/first"] == pricing["prompt"])

    desk.server.wait_until(are_shown)


def send(desk: Desk, number: int, feature: Feature) -> Heard | None:
    """One of the crowd; None where the caller left as soon as the answer began."""
    asked = {**ASKED, "stream": number % 3 == 0, **feature.body}
    port, user = int(desk.server.env["PORT"]), "crowd" if feature.is_same else f"call-{number}"
    if number % 6:
        return ask(port, desk.account.api_key, tag=user, **asked)
    wire = begin(port, desk.account.api_key, user=user, **asked)
    try:
        wire.head()
    finally:
        wire.close()
    return None


@pytest.mark.parametrize("name", FEATURES)
def test_a_crowd_spends_no_more_than_it_has(
    server: GatewayServer, simulator: SimulatedUpstream, tmp_path: Path, name: str
) -> None:
    feature, has_even_place = FEATURES[name], list(FEATURES).index(name) % 2 == 0
    new_pricing = DEARER if has_even_place else bench.CHEAP
    simulator.clear()
    desk = Desk(server, simulator, seed_account(server, credits_usd=CREDITS_USD))
    path = f"/keys/{desk.account.api_key_hash}"
    assert desk.manage("PATCH", path, {"limit": LIMIT_USD}).status_code == 200
    feature.set_up(desk)
    many = 4 * REQUESTS
    simulator.script("first", *(list(feature.steps) * many)[:many])
    for other in ("second", "pooled"):
        simulator.script(other, *[GOOD] * many)

    twice = [_send_twice(desk, feature) for _ in range(2)]

    are_changed = Event()

    def act(number: int) -> Heard | None:
        if number == CHANGED_AFTER:
            change_prices(desk, tmp_path, new_pricing)
            are_changed.set()
        if number > CHANGED_AFTER:
            are_changed.wait(60)
        return send(desk, number, feature)

    crowd = at_a_time(AT_ONCE, REQUESTS, act)
    heard = [each for each in crowd if each is not None]
    if feature.owed_nano == PAID_NANO:
        _reach_limit(desk, feature, heard)

    ledger, account = Ledger(server.env["DATABASE_URL"]), desk.account.account_id
    server.wait_until(lambda: ledger.open_holds() == 0, within_s=60)
    calls = {call.id: call for call in ledger.calls(account)}
    spent_nano, held_nano = ledger.totals(account)[1:]
    assert (spent_nano, held_nano) == (sum(call.charge_nano for call in calls.values()), 0)
    assert spent_nano <= feature.limit_nano
    for call in calls.values():
        assert (call.entries, call.entries_nano) == (1, call.charge_nano), call
    assert twice[0] == twice[1]
    if twice[0][0] == 200:
        assert sum(call.user == "twice" for call in calls.values()) == feature.generations
    _check_answers(heard, calls, feature)
    if feature.owed_nano == PAID_NANO:
        # Who asked twice came before prices changed, and who was refused at last after it.
        assert {call.charge_nano for call in calls.values()} >= PAID_NANO
    assert feature.happened(Outcome(desk, heard, calls))
    server.check_books()


def _send_twice(desk: Desk, feature: Feature) -> tuple[int, str | None]:
    """The status and the generation of an answer that is to be the same each time."""
    # Of a stream no answer is kept.
    asked = {**ASKED, **feature.body, "user": "twice", "stream": False}
    headers = {"Idempotency-Key": f"{desk.account.account_id}-twice"}
    response = desk.server.post(CHAT, key=desk.account.api_key, json=asked, headers=headers)
    assert response.status_code in {200, *feature.refusals}, response.text
    return response.status_code, response.headers.get("X-Generation-Id")


def _reach_limit(desk: Desk, feature: Feature, heard: list[Heard]) -> None:
    """Ask on, one at a time, until somebody cannot pay: refusals of the feature cost the crowd
    nothing."""
    while not any(each.status == 402 for each in heard):
        assert len(heard) < 3 * REQUESTS
        more = send(desk, 1, feature)
        assert more is not None
        heard.append(more)


def _check_answers(heard: list[Heard], calls: dict[str, Call], feature: Feature) -> None:
    """Whole answers cost what they say; what had no part but one is priced by its tokens."""
    odd = [each for each in heard if each.status not in {200, 402, *feature.refusals}]
    assert not odd
    whole = [each for each in heard if each.cost_nano is not None]
    assert whole
    for each in whole:
        call = calls[each.generation_id or ""]
        assert call.charge_nano == each.cost_nano, (call, each)
        assert feature.owed_nano is None or call.charge_nano in feature.owed_nano, call
