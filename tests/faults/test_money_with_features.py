"""What holds of money holds with each feature on. A crowd that cannot pay for all it asks spends no
more than its smallest limit (M1, M3, M4, M5). Some of it leave or ask twice. Each answer costs what
it says (M8) at the prices before or after they change under the crowd (M7). The books add up (M10),
also as each answer ends (M6). Two keys overdraw their balance by the calls in flight and no more
(M2). Each feature is seen at work. M9 with all features on is `test_m9_kills`'s."""

from pathlib import Path
from threading import Event

import pytest

from gateway.http.errors import Unavailable
from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import CHAT, Desk
from tests.faults import bench
from tests.faults.conftest import GatewayWith
from tests.faults.featured_crowds import (
    ASKED,
    AT_ONCE,
    CHANGED_AFTER,
    CREDITS_USD,
    DEARER,
    FEATURES,
    LIMIT_USD,
    OVERRUN,
    PAID_NANO,
    REQUESTS,
    USAGE,
    Feature,
    Outcome,
    ask_until_unpaid,
    is_unpaid,
    leave,
    list_models,
    list_providers,
    script_upstreams,
    stay,
)
from tests.support.callers import Heard, at_a_time, new_key
from tests.support.gateways import seed_account
from tests.support.ledger import Call, Ledger
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]
# With the others some answers cost nothing, so a crowd need not come to the end of its balance.
PAID_BY_ALL = [name for name, each in FEATURES.items() if 0 not in (each.owed_nano or ())]


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

    desk.server.wait_until(lambda: read_prompt_price(desk) == pricing["prompt"])


def read_prompt_price(desk: Desk) -> str:
    """Without a key: the gateway would remember it as it is before a feature is on."""
    model = desk.server.get("/api/v1/model/plain/first").json()["data"]
    return str(model["pricing"]["prompt"])


@pytest.mark.parametrize("name", FEATURES)
def test_a_crowd_spends_no_more_than_it_has(
    server: GatewayServer, simulator: SimulatedUpstream, tmp_path: Path, name: str
) -> None:
    feature = FEATURES[name]
    simulator.clear()
    desk = Desk(server, simulator, seed_account(server, credits_usd=CREDITS_USD))
    # Another crowd may have changed them before.
    is_cheap = read_prompt_price(desk) == bench.CHEAP["prompt"]
    new_pricing = DEARER if is_cheap else bench.CHEAP
    path = f"/keys/{desk.account.api_key_hash}"
    assert desk.manage("PATCH", path, {"limit": LIMIT_USD}).status_code == 200
    feature.set_up(desk)
    script_upstreams(simulator, feature)

    twice = [_send_twice(desk, feature) for _ in range(2)]

    are_changed = Event()

    def act(number: int) -> Heard | None:
        if number == CHANGED_AFTER:
            change_prices(desk, tmp_path, new_pricing)
            are_changed.set()
        if number > CHANGED_AFTER:
            are_changed.wait(60)
        if number % 6 == 0:
            leave(desk, number, feature)
            return None
        answer = stay(desk, number, feature)
        # While others are under way.
        assert server.manage("audit_ledger")["mismatches"] == []
        return answer

    crowd = at_a_time(AT_ONCE, REQUESTS, act)
    heard = [each for each in crowd if each is not None]
    if feature.owed_nano == PAID_NANO:
        ask_until_unpaid(desk, feature, heard)

    calls = _read_calls(desk)
    spent_nano = sum(call.charge_nano for call in calls.values())
    assert spent_nano <= feature.limit_nano
    assert twice[0] == twice[1]
    if twice[0][0] == 200:
        assert sum(call.user == "twice" for call in calls.values()) == feature.generations
    for each in _list_whole(heard, calls, feature):
        charge_nano = calls[each.generation_id or ""].charge_nano
        assert feature.owed_nano is None or charge_nano in feature.owed_nano, each
    if feature.owed_nano == PAID_NANO:
        # Who asked twice came before prices changed, and who was refused at last after it.
        assert {call.charge_nano for call in calls.values()} >= PAID_NANO
    assert feature.happened(Outcome(desk, heard, calls))
    server.check_books()


@pytest.mark.parametrize("usage", [USAGE, OVERRUN], ids=["as_estimated", "above_estimates"])
@pytest.mark.parametrize("name", PAID_BY_ALL)
def test_two_keys_overdraw_a_balance_by_the_calls_in_flight_and_no_more(
    server: GatewayServer, simulator: SimulatedUpstream, name: str, usage: dict[str, int]
) -> None:
    """What costs as much as was held for it overdraws nothing."""
    feature = FEATURES[name]
    simulator.clear()
    # As much as a key may spend in the other test, but of nobody's limit.
    desk = Desk(server, simulator, seed_account(server, credits_usd=str(LIMIT_USD)))
    other = new_key(server, desk.account, workspace_id=desk.account.workspace_id)
    keys = [desk.account.api_key, other]
    feature.set_up(desk)
    script_upstreams(simulator, feature, usage)

    heard = at_a_time(
        AT_ONCE, REQUESTS, lambda number: stay(desk, number, feature, keys[number % 2])
    )
    ask_until_unpaid(desk, feature, heard, other)

    calls = _read_calls(desk)
    _list_whole(heard, calls, feature)
    spent_nano = sum(call.charge_nano for call in calls.values())
    excess_nano = max(0, *(call.charge_nano - call.hold_nano for call in calls.values()))
    assert spent_nano <= feature.limit_nano + AT_ONCE * excess_nano
    assert (excess_nano > 0) is (usage is OVERRUN)
    left_nano = feature.limit_nano - spent_nano
    assert left_nano < max(call.hold_nano for call in calls.values())
    if left_nano < 0:
        assert all(is_unpaid(stay(desk, 1, feature, key)) for key in keys)
    # Of several parts the balance may end before a second one finds its hold.
    assert feature.owed_nano is None or feature.happened(Outcome(desk, heard, calls))
    server.check_books()


def is_without_hold(answer: Heard) -> bool:
    """Whether the gateway itself refused, before it asked an upstream: those' 503 say more."""
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return answer.status == 503 and error is not None and error["message"] == Unavailable.message


def _send_twice(desk: Desk, feature: Feature) -> tuple[int, str | None]:
    """The status and the generation of an answer that is to be the same each time."""
    # Of a stream no answer is kept.
    asked = {**ASKED, **feature.body, "user": "twice", "stream": False}
    headers = {"Idempotency-Key": f"{desk.account.account_id}-twice"}
    response = desk.server.post(CHAT, key=desk.account.api_key, json=asked, headers=headers)
    assert response.status_code in {200, *feature.refusals}, response.text
    return response.status_code, response.headers.get("X-Generation-Id")


def _read_calls(desk: Desk) -> dict[str, Call]:
    """All calls by generation, once nothing is under way: each has one entry of what it cost, and
    together they are what the account used."""
    ledger, account = Ledger(desk.server.env["DATABASE_URL"]), desk.account.account_id
    desk.server.wait_until(lambda: ledger.open_holds() == 0, within_s=60)
    calls = {call.id: call for call in ledger.calls(account)}
    used_nano, held_nano = ledger.totals(account)[1:]
    assert (used_nano, held_nano) == (sum(call.charge_nano for call in calls.values()), 0)
    for call in calls.values():
        assert (call.entries, call.entries_nano) == (1, call.charge_nano), call
    return calls


def _list_whole(heard: list[Heard], calls: dict[str, Call], feature: Feature) -> list[Heard]:
    """The whole answers, each of which cost what it says. All others are refusals."""
    odd = [each for each in heard if each.status not in {200, 402, *feature.refusals}]
    # A hold that a busy machine places too late: once for all who wait for it together.
    assert all(is_without_hold(each) for each in odd), odd
    assert len(odd) <= AT_ONCE
    whole = [each for each in heard if each.cost_nano is not None]
    assert whole
    for each in whole:
        call = calls[each.generation_id or ""]
        assert call.charge_nano == each.cost_nano, (call, each)
    return whole
