"""Ten to one in front of a full endpoint: the small tenant hardly notices the large one. How long
answers wait in a guard of answers. Both are measured, so that nothing else may run beside them."""

import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk, open_stream
from tests.conformance.guarded import set_guardrail
from tests.faults.bench import endpoint, model
from tests.faults.conftest import GatewayWith
from tests.load.figures import percentile
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.timed, pytest.mark.timeout(300)]
PLACES, SERVICE_S = 8, 0.2
SMALL, LARGE, EACH = 4, 40, 10
FULL, FREE = "fair/full", "fair/free"
WORDS, WORDS_PER_S, SECRET = 60, 20.0, "secret-42"


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith) -> Iterator[GatewayServer]:
    limits = [{"concurrent": PLACES}]
    running = gateway_with(
        [model(FULL, endpoint("first", rate_limits=limits)), model(FREE, endpoint("second"))],
        ROUTER_QUEUE_SECONDS="60",
        ROUTER_FIRST_BYTE_TIMEOUT="60",
    )
    yield running
    running.check_books()


def measure(desk: Desk, callers: int) -> list[float]:
    """How long each request took, of callers who ask one after the other."""

    def call_on(_: int) -> list[float]:
        took = []
        for _ in range(EACH):
            began = time.monotonic()
            response = desk.post()
            took.append(time.monotonic() - began)
            assert response.status_code == 200, response.text
        return took

    with ThreadPoolExecutor(callers) as pool:
        return [each for found in pool.map(call_on, range(callers)) for each in found]


def test_a_tenant_a_tenth_as_large_hardly_waits(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    simulator.clear()
    simulator.script("first", {"delay_s": SERVICE_S, "text": "Well"}, repeat=True)
    small, large = (
        Desk(server, simulator, seed_account(server, credits_usd="1000"), FULL) for _ in range(2)
    )
    measure(small, SMALL)
    alone = percentile(measure(small, SMALL), 95)
    seen = len(simulator.requests("first"))
    with ThreadPoolExecutor(1) as pool:
        crowd = pool.submit(measure, large, LARGE)
        # By then the crowd stands in the queue.
        server.wait_until(lambda: len(simulator.requests("first")) > seen + 2 * PLACES)
        beside = percentile(measure(small, SMALL), 95)
        of_large = percentile(crowd.result(), 95)
    sys.stdout.write(f"small alone {alone:.3f} s, beside {beside:.3f} s, large {of_large:.3f} s\n")
    assert beside <= 1.5 * alone, (beside, alone)


def test_a_guard_of_answers_holds_a_stream_back_for_a_moment(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    desk = Desk(server, simulator, seed_account(server, credits_usd="1000"), FREE)
    words = [{"text": f"word{number} "} for number in range(WORDS)]
    paced: list[Any] = [part for word in words for part in (word, {"pause_s": 1 / WORDS_PER_S})]

    def hear() -> tuple[list[float], str]:
        """When each word came since it was asked for; all that came."""
        ending = [{"text": SECRET}, {"finish": "stop"}, "[DONE]"]
        simulator.script("second", {"events": [*paced, *ending]})
        began, heard, text = time.monotonic(), list[float](), ""
        with closing(open_stream(desk)) as wire:
            wire.head()
            for chunk in wire.chunks():
                text += chunk.decode()
                heard += [time.monotonic() - began] * (text.count("word") - len(heard))
        return heard, text

    plain, plain_text = hear()
    set_guardrail(
        desk,
        output_filters=[{"pattern": "secret-[0-9]+", "action": "redact"}],
        output_filter_builtins=[{"slug": "email", "action": "redact"}],
    )
    guarded, guarded_text = hear()
    assert (SECRET in plain_text, SECRET in guarded_text) == (True, False)
    assert "[REDACTED]" in guarded_text
    delay_s = statistics.median(a - b for a, b in zip(guarded, plain, strict=True))
    sys.stdout.write(f"a word is held back for {delay_s * 1000:.0f} ms in the median\n")
    assert delay_s <= 0.2
