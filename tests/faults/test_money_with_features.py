"""What holds of money holds with each feature on: a crowd that cannot pay for all it asks, some of
whom leave or ask twice, spends no more than its smallest limit (M1, M3, M4, M5), each answer costs
what it says (M8), and the books add up (M10). M9 with all features on is `test_m9_kills`'s."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import CHAT, HELLO, Desk, changed_workspace
from tests.conformance.guarded import set_guardrail
from tests.conformance.own_credentials import bring
from tests.faults import bench
from tests.faults.conftest import GatewayWith
from tests.support.callers import Heard, ask, at_a_time, begin
from tests.support.gateways import seed_account
from tests.support.ledger import Ledger
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
REQUESTS, AT_ONCE, MAX_TOKENS = 24, 8, 100
USAGE = {"prompt_tokens": 27, "completion_tokens": MAX_TOKENS}
ONE_NANO = 27 * bench.CHEAP_NANO[0] + MAX_TOKENS * bench.CHEAP_NANO[1]
CREDITS_USD, LIMIT_USD, LIMIT_NANO = "0.004", 0.003, 3_000_000
GOOD = {"text": "Well met", "usage": USAGE}
BUSY = {"status": 503, "json": {"error": {"message": "busy"}}}
CUT = {"events": [{"text": "Well "}, {"text": "m"}, {"cut": "reset"}]}
SECRET = {"text": "It is secret-7 of course", "usage": USAGE}
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
class Feature:
    """How it is switched on, what its requests say beside, how `first` answers in turn, what may be
    refused beside what cannot be paid for, what a whole answer may cost (None where a request has
    parts of which some may be owed), and how many generations it comes to."""

    set_up: Callable[[Desk], object] = lambda desk: None
    body: dict[str, Any] = field(default_factory=dict)
    steps: tuple[dict[str, Any], ...] = (GOOD,)
    refusals: frozenset[int] = frozenset()
    owed_nano: frozenset[int] | None = frozenset({ONE_NANO})
    generations: int = 1


def limit_rates(desk: Desk) -> None:
    """Some requests find no place, and are refused before they cost anything."""
    changed_workspace(desk, rate_limits=[{"concurrent": 4, "tokens_per_minute": 10**6}])


FEATURES = {
    "retries": Feature(steps=(BUSY, GOOD, GOOD)),
    "hedge": Feature(
        lambda desk: changed_workspace(desk, hedge=True),
        {"model": "plain/pair"},
        ({"delay_s": 0.4, **GOOD}, GOOD),
        owed_nano=None,
    ),
    "rescue": Feature(
        lambda desk: changed_workspace(desk, rescue=True),
        {"model": "plain/pair"},
        (CUT, GOOD),
        owed_nano=None,
    ),
    "coalescing": Feature(body={"temperature": 0}, owed_nano=frozenset({0, ONE_NANO})),
    "exact cache": Feature(
        lambda desk: changed_workspace(desk, response_cache=True),
        owed_nano=frozenset({0, ONE_NANO}),
    ),
    "output guardrail": Feature(
        lambda desk: set_guardrail(
            desk, output_filters=[{"pattern": "secret-[0-9]", "action": "block"}]
        ),
        steps=(GOOD, SECRET),
        refusals=frozenset({403}),
    ),
    "classifier": Feature(body={"model": "router/auto", "plugins": [CLASSIFIER]}, generations=2),
    "deadline": Feature(
        body={"model": "plain/pair", "provider": {"deadline_ms": 1500}},
        steps=(GOOD, {"delay_s": 3.0, **GOOD}),
        refusals=frozenset({408, 524}),
    ),
    "own credential": Feature(
        lambda desk: bring(desk, "first", "sk-mine-0123456789abcdef"), owed_nano=frozenset({0})
    ),
    "pool": Feature(body={"model": "plain/pooled"}),
    "schema and repair": Feature(
        body={"response_format": SCHEMA},
        steps=(GOOD, {"text": '{"a": 1}', "usage": USAGE}),
        refusals=frozenset({422, 502}),
        owed_nano=None,
    ),
    "rate limits": Feature(limit_rates, refusals=frozenset({429})),
    "tags and end users": Feature(
        lambda desk: changed_workspace(
            desk,
            end_user_budget={"reset_interval": "daily", "limit_usd": 10, "overrides": []},
            tag_budgets=[{"tag": "run=*", "reset_interval": "daily", "limit_usd": 0.0025}],
        ),
        {"metadata": {"run": "crowd"}},
    ),
}


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> GatewayServer:
    pooled = bench.provider("pooled", f"{simulator.url}/pooled/v1")
    del pooled["credential"]
    pooled["credentials"] = [
        {"label": label, "credential": f"secret-{label}", "weight": 1} for label in "ab"
    ]
    judge = bench.provider("judge", f"{simulator.url}/judge/v1", kind="decisions")
    deciding = {"provider": "judge", "upstream_model": "judge", "pricing": bench.CHEAP}
    parameters = [*bench.PARAMETERS, "structured_outputs"]
    first, second = (
        bench.endpoint(slug, supported_parameters=parameters) for slug in ("first", "second")
    )
    return gateway_with(
        [
            bench.model("plain/first", first),
            bench.model("plain/second", second),
            bench.model("plain/pair", first, second),
            bench.model("plain/pooled", bench.endpoint("pooled")),
            bench.model("acme/judge", deciding, output_modalities=["decisions"]),
        ],
        providers=[*bench.personas(simulator), pooled, judge],
        ROUTER_RESPONSE_CACHE_ENABLED="true",
        ROUTER_ENDPOINT_RETRIES="2",
        ROUTER_RETRY_BACKOFF="0.01",
        ROUTER_FIRST_BYTE_TIMEOUT="10",
        WEB_CONCURRENCY="2",
    )


def send(desk: Desk, number: int, body: dict[str, Any]) -> Heard | None:
    """One of the crowd; None where the caller left as soon as the answer began."""
    asked = {"model": "plain/first", "messages": HELLO, "max_tokens": MAX_TOKENS, **body}
    port, is_stream = int(desk.server.env["PORT"]), number % 3 == 0
    if number % 6:
        return ask(port, desk.account.api_key, tag=f"call-{number}", stream=is_stream, **asked)
    wire = begin(port, desk.account.api_key, user=f"call-{number}", stream=True, **asked)
    try:
        wire.head()
    finally:
        wire.close()
    return None


@pytest.mark.parametrize("name", FEATURES)
def test_a_crowd_spends_no_more_than_it_has(
    server: GatewayServer, simulator: SimulatedUpstream, name: str
) -> None:
    feature = FEATURES[name]
    simulator.clear()
    desk = Desk(server, simulator, seed_account(server, credits_usd=CREDITS_USD))
    path = f"/keys/{desk.account.api_key_hash}"
    assert desk.manage("PATCH", path, {"limit": LIMIT_USD}).status_code == 200
    feature.set_up(desk)
    many = 4 * REQUESTS
    simulator.script("first", *(list(feature.steps) * many)[:many])
    for other in ("second", "pooled"):
        simulator.script(other, *[GOOD] * many)

    twice = [_send_twice(desk, feature.body) for _ in range(2)]
    heard = at_a_time(AT_ONCE, REQUESTS, lambda number: send(desk, number, feature.body))

    ledger, account = Ledger(server.env["DATABASE_URL"]), desk.account.account_id
    server.wait_until(lambda: ledger.open_holds() == 0, within_s=60)
    calls = {call.id: call for call in ledger.calls(account)}
    spent_nano, held_nano = ledger.totals(account)[1:]
    assert (spent_nano, held_nano) == (sum(call.charge_nano for call in calls.values()), 0)
    assert spent_nano <= LIMIT_NANO
    for call in calls.values():
        assert (call.entries, call.entries_nano) == (1, call.charge_nano), call
    assert twice[0] == twice[1]
    assert sum(call.user == "twice" for call in calls.values()) == feature.generations
    _check_answers([each for each in heard if each is not None], calls, feature)
    server.check_books()


def _send_twice(desk: Desk, body: dict[str, Any]) -> str | None:
    asked = {"model": "plain/first", "messages": HELLO, "max_tokens": MAX_TOKENS, **body}
    headers = {"Idempotency-Key": f"{desk.account.account_id}-twice"}
    response = desk.server.post(
        CHAT, key=desk.account.api_key, json=asked | {"user": "twice"}, headers=headers
    )
    assert response.status_code == 200, response.text
    return response.headers.get("X-Generation-Id")


def _check_answers(heard: list[Heard], calls: dict[str, Any], feature: Feature) -> None:
    """Whole answers cost what they say; what had no part but one is priced by its tokens."""
    refused = {402, 403, 503, *feature.refusals}
    odd = [each for each in heard if each.status not in {200, *refused}]
    assert not odd
    whole = [each for each in heard if each.cost_nano is not None]
    assert whole
    for each in whole:
        call = calls[each.generation_id or ""]
        assert call.charge_nano == each.cost_nano, (call, each)
        assert feature.owed_nano is None or call.charge_nano in feature.owed_nano, call
