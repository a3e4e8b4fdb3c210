"""The same callers use the official `openai` package, straight at providers that are killed,
throttled and slowed at random, and through the gateway. The latter see fewer failures, and each
cent is where it belongs. The package retries twice by itself on both ways."""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import openai
import pytest
from openai import OpenAI

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk
from tests.faults.bench import endpoint, model, provider
from tests.faults.conftest import GatewayWith
from tests.support.gateways import seed_account
from tests.support.ledger import Ledger

# What is compared are two runs with one patience: each must have the machine alone.
pytestmark = pytest.mark.timed
REQUESTS, CALLERS = 160, 8
PATIENCE_S = 4.0
PATIENCE: Any = {"max_retries": 2, "timeout": PATIENCE_S}
# Of how many providers each model is.
MODELS = {1: "drill/one", 5: "drill/five"}
# Longer than any answer that comes at all; whoever waits for the first byte gives up then.
FIRST_BYTE_S = 2.5
SLOW_S, STALLED_S = 1.0, 30.0
WORDS = [f"w{number} " for number in range(8)]
ANSWER = "".join(WORDS)
PROVIDERS = [f"flaky-{letter}" for letter in "abcde"]
THROTTLED = {
    "status": 429,
    "headers": {"Retry-After": "1"},
    "json": {"error": {"message": "Slow down", "type": "rate_limit_error"}},
}
BUSY = {"status": 503, "json": {"error": {"message": "Overloaded", "type": "server_error"}}}
# What a provider does for how many calls in a row, and how often it begins to.
FATES = {
    "well": (0.60, 4),
    "killed": (0.10, 4),
    "busy": (0.08, 4),
    "throttled": (0.08, 3),
    "slow": (0.06, 3),
    "stalled": (0.04, 1),
    "dies": (0.04, 2),
}


def play(fate: str, drawn: random.Random) -> dict[str, Any]:
    """What a provider answers one call with."""
    cut = {"cut": drawn.choice(["reset", "close"])}
    said = [{"text": word} for word in WORDS[: drawn.randrange(1, len(WORDS))]]
    steps: dict[str, dict[str, Any]] = {
        "well": {"text": ANSWER},
        "killed": {"events": [cut]},
        "busy": BUSY,
        "throttled": THROTTLED,
        "slow": {"delay_s": SLOW_S, "text": ANSWER},
        "stalled": {"delay_s": STALLED_S, "text": ANSWER},
        "dies": {"events": [*said, cut]},
    }
    return steps[fate]


def unsettle(simulator: SimulatedUpstream, seed: int) -> None:
    """Give each provider the same troubles in the same order."""
    simulator.clear()
    for name in PROVIDERS:
        drawn, steps = random.Random(f"{seed} {name}"), list[dict[str, Any]]()
        while len(steps) < 4 * REQUESTS:
            (fate,) = drawn.choices(list(FATES), [share for share, _ in FATES.values()])
            steps += [play(fate, drawn) for _ in range(FATES[fate][1])]
        simulator.script(name, *steps)


def ask(client: OpenAI, model_id: str, *, stream: bool) -> str:
    """`whole`, or how the caller was failed."""
    completions, messages = client.chat.completions, cast(Any, HELLO)
    try:
        if not stream:
            answer = completions.create(model=model_id, messages=messages)
            said = answer.choices[0].message.content
        else:
            chunks: Any = completions.create(model=model_id, messages=messages, stream=True)
            said = "".join(
                choice.delta.content or "" for chunk in chunks for choice in chunk.choices
            )
    except (openai.OpenAIError, httpx.HTTPError) as error:
        # Of streams that break the package lets through what its client says.
        return type(error).__name__
    # Who goes on with what another has begun is simulated too, and says all of it again.
    return "whole" if said and said.endswith(ANSWER) else "cut short"


def run(clients: list[OpenAI], model_id: str) -> Counter[str]:
    """How the requests of all callers ended; the clients are asked in turn."""

    def one(number: int) -> str:
        return ask(clients[number % len(clients)], model_id, stream=number % 4 != 0)

    with ThreadPoolExecutor(CALLERS) as pool:
        return Counter(pool.map(one, range(REQUESTS)))


@pytest.fixture(scope="module")
def desk(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> Iterator[Desk]:
    places = [endpoint(name) for name in PROVIDERS]
    running = gateway_with(
        [model(model_id, *places[:count]) for count, model_id in MODELS.items()],
        providers=[provider(name, f"{simulator.url}/{name}/v1") for name in PROVIDERS],
        ROUTER_ENDPOINT_RETRIES="2",
        ROUTER_FIRST_BYTE_TIMEOUT=str(FIRST_BYTE_S),
        ROUTER_OUTAGE_WINDOW_SECONDS="30",
        ROUTER_RETRY_FLOOR="100",
    )
    account = seed_account(running, credits_usd="1000")
    yield Desk(running, simulator, account)
    running.check_books()


@pytest.mark.parametrize("count", [1, 5])
def test_callers_of_the_gateway_see_fewer_failures(
    desk: Desk, simulator: SimulatedUpstream, count: int
) -> None:
    names = PROVIDERS[:count]
    unsettle(simulator, count)
    straight = [
        OpenAI(api_key=f"{name}-secret", base_url=f"{simulator.url}/{name}/v1", **PATIENCE)
        for name in names
    ]
    plain = run(straight, "good")
    governed = run_through_gateway(desk, simulator, count)

    sys.stdout.write(f"{count} providers: straight {plain}, through the gateway {governed}\n")
    failed, failed_plain = REQUESTS - governed["whole"], REQUESTS - plain["whole"]
    assert failed < failed_plain, (governed, plain)
    check_charges(desk)


def run_through_gateway(desk: Desk, simulator: SimulatedUpstream, count: int) -> Counter[str]:
    """How requests to a model of so many providers ended, with `rescue` and `hedge` on."""
    unsettle(simulator, count)
    response = desk.manage(
        "PATCH", f"/workspaces/{desk.account.workspace_id}", {"rescue": True, "hedge": True}
    )
    assert response.status_code == 200, response.text
    through = OpenAI(api_key=desk.account.api_key, base_url=desk.server.base_url, **PATIENCE)
    return run([through], MODELS[count])


def check_charges(desk: Desk) -> None:
    """Each generation was charged once what its record says, and the account the sum of them.
    Nothing is held once those whose callers left have ended."""
    ledger, account = Ledger(desk.server.env["DATABASE_URL"]), desk.account.account_id
    desk.server.wait_until(lambda: ledger.open_holds() == 0, within_s=60)
    calls = ledger.calls(account)
    assert {(call.entries, call.entries_nano == call.charge_nano) for call in calls} == {(1, True)}
    assert ledger.totals(account)[1:] == (sum(call.charge_nano for call in calls), 0)
