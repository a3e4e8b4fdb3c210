"""Hedged requests: a second endpoint is asked beside one that gives no content. The first content
wins, the other call's connection is closed, and both are on the books.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import exact, nano, open_stream
from tests.conformance.pairs import HELLO, Pair
from tests.faults.bench import CHEAP_NANO, DEAR, endpoint, model
from tests.faults.conftest import GatewayWith, Open
from tests.faults.two_places import gateway_of_pairs, order_of, pair_of, script
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS, Said, read_stream

DELAY_S = 0.2
# Only a failing test waits this long.
LATE_S = 60.0
# Of one of its two endpoints the bill goes on when its connection is closed.
UNCANCELLABLE = "responses"
PROMPT = len(HELLO) // 4
REQUESTS, STALLED, KILLED = 120, 0.2, 0.2


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> Any:
    running = gateway_of_pairs(
        gateway_with,
        simulator,
        uncancellable=[f"{UNCANCELLABLE}-b"],
        ROUTER_FIRST_BYTE_TIMEOUT=str(LATE_S),
        ROUTER_IDLE_TIMEOUT=str(LATE_S),
        ROUTER_OUTAGE_WINDOW_SECONDS="0.001",
        ROUTER_ENDPOINT_RETRIES="3",
        ROUTER_HEDGE_DELAY_SECONDS=str(DELAY_S),
    )
    yield running
    simulator.clear()
    running.check_books()


def wish(pair: Pair, **more: Any) -> dict[str, Any]:
    return {"order": order_of(pair.kind), "hedge": True, "hedge_after_s": DELAY_S, **more}


def options(pair: Pair, **more: Any) -> dict[str, Any]:
    return {"model": f"{pair.kind}/pair", "provider": wish(pair), **more}


def ask(pair: Pair, **more: Any) -> tuple[Said, Any]:
    """What a hedged request is answered, and its record, which says the same of its cost."""
    response = pair.post(**options(pair, **more))
    assert response.status_code == 200, response.text
    if more.get("stream"):
        said = pair.speaker.read_events(read_stream(response))
    else:
        said = pair.speaker.read_answer(exact(response))
    assert said.failure is None, said
    record = pair.desk.generation(response.headers["X-Generation-Id"])
    assert said.cost_nano == pair.desk.charged_nano(record["id"])
    tokens = record["native_tokens_prompt"], record["native_tokens_completion"]
    assert said.cost_nano == sum(
        count * price for count, price in zip(tokens, CHEAP_NANO, strict=True)
    )
    return said, record


def statuses(record: Any) -> list[int]:
    return [each["status"] for each in record["provider_responses"]]


def read_route(pair: Pair, generation_id: str) -> Any:
    path = f"/api/v1/generation/{generation_id}/route"
    response = pair.desk.server.get(path, key=pair.desk.account.api_key)
    assert response.status_code == 200, response.text
    return response.json()["data"]


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_who_stalls_is_overtaken_and_closed_and_both_are_on_the_books(
    speaker: str, stream: bool, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator, speaker)
    stalled = {"events": [{"text": ""}, {"gate": "never"}]}
    script(pair, "a", stalled if stream else {"gate": "never", "text": "Late"})
    script(pair, "b", {"text": "Well met"})

    said, record = ask(pair, stream=stream)

    assert said.text == "Well met"
    assert simulator.wait(state="disconnected")["closed_by"] == "client"
    assert statuses(record) == [499, 200]
    assert record["native_tokens_prompt"] >= 2 * PROMPT
    assert record["native_tokens_completion"] == len("Well met") // 4
    route = read_route(pair, record["id"])
    assert [each["verdict"] for each in route["endpoints"]] == ["overtaken", "chosen"]
    first, second = route["hedge"]["attempts"]
    assert (first["result"], second["result"]) == ("cancelled", "won")
    assert nano(str(first["cost"])) == PROMPT * CHEAP_NANO[0]
    assert route["hedge"]["after_ms"] == DELAY_S * 1000


@pytest.mark.parametrize("kind", ["openai", UNCANCELLABLE])
def test_a_stream_that_no_upstream_has_accepted_costs_nothing(
    kind: str, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator, kind=kind)
    script(pair, "a", {"gate": "never", "text": "Late"})
    if kind == UNCANCELLABLE:
        simulator.open_gate("never")
        _, record = ask(pair, stream=True)
        assert statuses(record) == [200]
        return
    said, record = ask(pair, stream=True)
    assert statuses(record) == [499, 200]
    assert said.usage is not None
    assert said.usage.prompt < 2 * PROMPT


@pytest.mark.parametrize("stream", [False, True])
def test_the_first_one_may_win_all_the_same(
    stream: bool, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    said_first = [{"gate": "first"}, {"text": "First "}, {"gate": "rest"}, {"text": "of two"}]
    begun = [*said_first, {"finish": "stop"}, "[DONE]"]
    script(pair, "a", {"events": begun} if stream else {"gate": "first", "text": "First of two"})
    script(pair, "b", {"gate": "never", "text": "Second"})
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, pair, stream=stream)
        simulator.wait_gate("never")
        simulator.open_gate("first")
        assert simulator.wait(nth=2, state="disconnected")["closed_by"] == "client"
        simulator.open_gate("rest")
        said, record = asking.result()
    assert said.text == "First of two"
    assert statuses(record) == [200, 499]


@pytest.mark.parametrize("stream", [False, True])
def test_one_that_dies_leaves_the_race_to_the_other(
    stream: bool, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    script(pair, "a", {"events": [{"text": ""}, {"gate": "die"}, {"cut": "reset"}]})
    script(pair, "b", {"gate": "answer", "text": "Alive"})
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, pair, stream=stream)
        simulator.wait_gate("answer")
        simulator.open_gate("die")
        simulator.wait(state="ended")
        simulator.open_gate("answer")
        said, record = asking.result()
    assert said.text == "Alive"
    assert statuses(record) == [502, 200]
    assert said.usage is not None
    assert said.usage.prompt < 2 * PROMPT


@pytest.mark.parametrize("stream", [False, True])
def test_where_both_die_the_plan_goes_on(
    stream: bool, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    dying = {"gate": "die", "status": 503}
    script(pair, "a", dying, {"text": "At last"})
    script(pair, "b", dying, {"text": "At last"})
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, pair, stream=stream)
        simulator.wait(nth=2, state="received")
        simulator.open_gate("die")
        said, record = asking.result()
    assert said.text == "At last"
    assert statuses(record) == [503, 503, 200]


def test_who_was_overtaken_goes_on_where_the_winner_breaks_off(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    script(pair, "a", {"events": [{"text": ""}, {"gate": "never"}]}, {"text": "the rest"})
    script(pair, "b", {"events": [{"text": "Begun, "}, {"cut": "reset"}]}, {"status": 503})
    said, record = ask(pair, stream=True, provider=wish(pair, rescue=True))
    assert said.text == "Begun, the rest"
    assert statuses(record) == [499, 502, 503, 200]


def test_who_was_cancelled_goes_on_where_the_first_one_breaks_off(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    begun = [
        {"text": ""},
        {"gate": "first"},
        {"text": "Begun, "},
        {"gate": "die"},
        {"cut": "reset"},
    ]
    script(pair, "a", {"events": begun}, {"text": "asked again"})
    script(pair, "b", {"gate": "never", "text": "Late"}, {"text": "the rest"})
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, pair, stream=True, provider=wish(pair, rescue=True))
        simulator.wait_gate("never")
        simulator.open_gate("first")
        simulator.wait(nth=2, state="disconnected")
        simulator.open_gate("die")
        said, record = asking.result()
    assert said.text == "Begun, the rest"
    assert statuses(record) == [502, 499, 200]


def test_the_record_speaks_of_who_won_though_another_failed_after_it(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    script(pair, "a", {"gate": "slow", "text": "Slow and sure"})
    script(pair, "b", {"status": 503})
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, pair)
        simulator.wait(nth=2, state="ended")
        simulator.open_gate("slow")
        _, record = asking.result()
    assert statuses(record) == [200, 503]
    assert record["provider_name"] == "Openai-a"
    assert record["upstream_id"] == record["provider_responses"][0]["id"] is not None
    verdicts = [each["verdict"] for each in read_route(pair, record["id"])["endpoints"]]
    assert verdicts[0] == "chosen"


@pytest.mark.nightly
def test_one_that_hangs_comes_last_and_costs_no_more(
    desk_on: Open, simulator: SimulatedUpstream
) -> None:
    # The cheap one is as good as always asked first.
    uneven = model("uneven/pair", endpoint("first"), endpoint("second", pricing=DEAR))
    limits = {"ROUTER_FIRST_BYTE_TIMEOUT": str(LATE_S), "ROUTER_OUTAGE_WINDOW_SECONDS": "600"}
    desk = desk_on([uneven], ROUTER_HEDGE_DELAY_SECONDS=str(DELAY_S), **limits)
    desk.upstream.script("first", {"gate": "never", "text": "Late"}, repeat=True)
    found = []
    for _ in range(4):
        response = desk.post(provider={"hedge": True})
        assert response.status_code == 200, response.text
        record = desk.generation(response.headers["X-Generation-Id"])
        found.append((statuses(record), record["native_tokens_prompt"]))
    [(_, alone)] = found[3:]
    assert [each for each, _ in found] == [[499, 200]] * 3 + [[200]]
    assert [tokens > alone for _, tokens in found] == [True, True, False, False]
    desk.server.check_books()


def test_both_at_once_give_one_answer(server: GatewayServer, simulator: SimulatedUpstream) -> None:
    pair = pair_of(server, simulator)
    for number in range(6):
        gate = f"both-{number}"
        simulator.clear()
        for place in "ab":
            script(pair, place, {"gate": gate, "text": f"It is {place}"})
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(ask, pair, stream=number % 2 == 0)
            simulator.wait(nth=2, state="received")
            simulator.open_gate(gate)
            said, record = asking.result()
        won = statuses(record).index(200)
        assert said.text == f"It is {'ab'[won]}"
        assert sorted(statuses(record)) == [200, 499]


def test_who_leaves_pays_for_both_that_had_accepted(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    for place in "ab":
        script(pair, place, {"events": [{"text": ""}, {"gate": place}]})
    body = pair.body(stream=True, **options(pair))
    with closing(open_stream(pair.desk, pair.speaker.path, **body)) as wire:
        generation_id = wire.head()[1]["x-generation-id"]
        simulator.wait_gate("b")
        # Long enough for the gateway to have read the second one's headers.
        for _ in range(3):
            wire.read_until(b": ROUTER PROCESSING\n\n")
    record = pair.desk.wait_record(generation_id)

    for nth in (1, 2):
        assert simulator.wait(nth=nth, state="disconnected")["closed_by"] == "client"
    assert record["cancelled"] is True
    assert nano(record["total_cost"]) == 2 * PROMPT * CHEAP_NANO[0]
    assert pair.desk.charged_nano(generation_id) == 2 * PROMPT * CHEAP_NANO[0]


@pytest.mark.parametrize(
    "preferences",
    [{"hedge": False}, {"hedge": None, "hedge_after_s": None}, {"hedge_after_s": LATE_S}],
)
def test_nobody_else_is_asked_without_the_wish_or_before_its_time(
    preferences: dict[str, Any], server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    script(pair, "a", {"delay_s": 2 * DELAY_S, "text": "Slow"})
    _, record = ask(pair, provider=wish(pair, **preferences))
    assert statuses(record) == [200]
    assert read_route(pair, record["id"])["hedge"] is None


def test_what_the_hold_cannot_cover_twice_is_asked_once(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator, credits_usd="0.000150")
    script(pair, "a", {"delay_s": 3 * DELAY_S, "text": "Alone"})
    # Once it may cost some 110 micro-dollars.
    said, record = ask(pair, max_tokens=50)
    assert said.text == "Alone"
    assert statuses(record) == [200]


def test_of_many_requests_whose_endpoints_stall_and_die_at_random_all_are_answered(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    drawn = random.Random(27)
    for place in "ab":
        steps: list[dict[str, Any]] = []
        for _ in range(3 * REQUESTS):
            fate = drawn.random()
            if place == "a" and fate < STALLED:
                steps.append({"delay_s": 5 * DELAY_S, "text": "Late"})
            elif fate > 1 - KILLED:
                steps.append({"events": [{"text": ""}, {"cut": drawn.choice(["reset", "close"])}]})
            else:
                steps.append({"text": "Well met"})
        script(pair, place, *steps)

    def run(number: int) -> Any:
        speaker = SPEAKERS[list(SPEAKERS)[number % len(SPEAKERS)]]
        asking = Pair(speaker, "openai", pair.desk)
        response = asking.post(**options(pair, stream=number % 2 == 0))
        assert response.status_code == 200, response.text
        return pair.desk.generation(response.headers["X-Generation-Id"])

    with ThreadPoolExecutor(6) as pool:
        records = list(pool.map(run, range(REQUESTS)))

    assert {record["finish_reason"] for record in records} == {"stop"}
    assert sum(499 in statuses(record) for record in records) > REQUESTS * STALLED / 4
    charged_nano = sum(nano(record["total_cost"]) for record in records)
    assert pair.desk.total_usage_nano() == charged_nano
    assert charged_nano == sum(
        record["native_tokens_prompt"] * CHEAP_NANO[0]
        + record["native_tokens_completion"] * CHEAP_NANO[1]
        for record in records
    )
