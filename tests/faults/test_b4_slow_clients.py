"""B4: callers who send or read slowly are ended in time, and the others do not notice them."""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bench import as_yaml, endpoint, model, provider
from tests.faults.conftest import loaded
from tests.routing.upstreams.raw_upstream import Peer, RawUpstream, always, answer
from tests.support.bed import Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.slow import Ended, stall, trickle, trickle_all
from tests.support.wires import head_bytes

pytestmark = pytest.mark.thorough

KIB = 1024
# The product's own are 10, 30 and 30 s.
HEADER_S, BODY_S, STALLED_S = 1.5, 2.0, 2.0
# Between a limit and the sight of it on a machine that does much else.
REST_S = 5.0
HONEST, ASKS_EACH = 20, 10
BUFFER_BYTES_MAX = 256 * KIB
GOOD = b'{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % (b"flood " * 1000)


def flood(peer: Peer) -> None:
    peer.read_request()
    peer.send(STREAM)
    peer.send_until_gone(EVENT)


Patient = tuple[GatewayServer, SeededAccount]


@contextmanager
def patient_gateway(stores: Bed, folder: Path, **limits: str) -> Iterator[Patient]:
    """`good/answers` answers at once; `good/floods` streams faster than anybody reads."""
    with ExitStack() as stack:
        answers = stack.enter_context(
            RawUpstream(always(answer(GOOD, "Content-Type: application/json")))
        )
        floods = stack.enter_context(RawUpstream(flood))
        upstreams = {"answers": answers, "floods": floods}
        providers = [
            provider(name, f"http://127.0.0.1:{each.port}/v1") for name, each in upstreams.items()
        ]
        models = [model(f"good/{name}", endpoint(name)) for name in upstreams]
        starter = stack.enter_context(StartGateway(stores, folder))
        server = loaded(starter, folder, as_yaml(providers, models), **limits)
        yield server, seed_account(server, credits_usd="100000")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> Iterator[Patient]:
    limits = {
        "ROUTER_HEADER_TIMEOUT": str(HEADER_S),
        "ROUTER_BODY_TIMEOUT": str(BODY_S),
        "ROUTER_STALLED_READER_SECONDS": str(STALLED_S),
    }
    with patient_gateway(stores, tmp_path_factory.mktemp("patient"), **limits) as made:
        yield made


def test_slow_callers_are_ended_in_time_and_cost_the_others_nothing(patient: Patient) -> None:
    slow_round(patient, callers=150, pace_s=0.5, head_s=HEADER_S, body_s=BODY_S)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_two_thousand_slow_callers_meet_the_limits_of_the_product(
    stores: Bed, tmp_path: Path
) -> None:
    with patient_gateway(stores, tmp_path) as made:
        slow_round(made, callers=2000, pace_s=5.0, head_s=10, body_s=30)


def slow_round(
    patient: Patient, *, callers: int, pace_s: float, head_s: float, body_s: float
) -> None:
    """Half of them never finish a head, half never a body; the honest ask all the while."""
    allow_files(callers)
    quiet_s = honest_p99_s(*patient)
    server, account = patient
    lines = b"GET /healthz HTTP/1.1\r\n", b"X-Slow: " + b"a" * 1000
    body = head_bytes("Content-Length: 5000", key=account.api_key), b"{" * 1000

    # In a process of their own, which is busy with them.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        given = [lines, body] * (callers // 2)
        slow = pool.submit(trickle_all, int(server.env["PORT"]), given, pace_s)
        busy_s = honest_p99_s(*patient, until=slow.done)
        heads, bodies = slow.result()[::2], slow.result()[1::2]

    # On a busy machine some come to their first byte too late, and are let go in silence.
    told = [ended for ended in heads if ended.received]
    assert len(told) > 0.8 * len(heads)
    assert {ended.status for ended in told} == {408}
    assert {ended.status for ended in bodies if ended.received} == {400}
    for ended in told:
        assert json.loads(ended.received.split(b"\r\n\r\n")[1])["error"]["code"] == 408
    # Whoever was answered may still send for 5 s.
    in_time(max(ended.lasted_s for ended in heads), head_s + 5 + REST_S)
    in_time(max(ended.lasted_s for ended in bodies), body_s + 5 + REST_S)
    sys.stdout.write(f"honest p99: quiet {quiet_s:.3f} s, beside slow ones {busy_s:.3f} s\n")
    in_time(busy_s, 2 * quiet_s + 0.5)


def honest_p99_s(
    server: GatewayServer, account: SeededAccount, *, until: Callable[[], bool] = lambda: True
) -> float:
    """Of so many requests, and more until it is enough."""

    def ask(_: int) -> float:
        began = time.monotonic()
        messages = [{"role": "user", "content": "Hi"}]
        answered = server.chat(key=account.api_key, model="good/answers", messages=messages)
        assert answered.status_code == 200, answered.text
        return time.monotonic() - began

    with ThreadPoolExecutor(HONEST) as pool:
        took_s = list(pool.map(ask, range(HONEST * ASKS_EACH)))
        while not until():
            took_s += pool.map(ask, range(HONEST))
        took_s.sort()
    return took_s[int(len(took_s) * 0.99)]


def allow_files(count: int) -> None:
    """Sockets for so many callers in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 1000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


@pytest.mark.parametrize(
    "slow_callers", [10, pytest.param(50, marks=[pytest.mark.nightly, pytest.mark.timeout(300)])]
)
def test_who_stops_reading_a_stream_is_cut_off_and_little_was_kept_for_him(
    patient: Patient, slow_callers: int
) -> None:
    server, account = patient
    body = json.dumps(
        {"model": "good/floods", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    ).encode()
    request = head_bytes(f"Content-Length: {len(body)}", key=account.api_key) + body

    async def all_stalled() -> list[Ended]:
        port = int(server.env["PORT"])
        callers = [stall(port, request, stalls_s=STALLED_S + 2.0) for _ in range(slow_callers)]
        return await asyncio.gather(*callers)

    for ended in asyncio.run(all_stalled()):
        # It ended, though the upstream would have gone on for ever.
        assert ended.status == 200
        assert not ended.received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert len(ended.received) < BUFFER_BYTES_MAX + 128 * KIB


def test_between_requests_a_connection_may_be_idle_longer_than_a_head_may_take(
    patient: Patient,
) -> None:
    server, _ = patient
    port = int(server.env["PORT"])

    async def two_requests() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head_bytes(method="GET", path="/healthz"))
            await reader.readuntil(b"}")
            idle = asyncio.create_task(reader.read(1))
            done, _ = await asyncio.wait({idle}, timeout=1.3 * HEADER_S)
            assert not done, "an idle connection was ended"
            writer.write(head_bytes(method="GET", path="/healthz", close=True))
            return await idle + await reader.read()
        finally:
            writer.close()

    assert asyncio.run(two_requests()).startswith(b"HTTP/1.1 200 OK")


def test_who_connects_and_says_nothing_is_let_go(
    patient: Patient,
) -> None:
    server, _ = patient

    ended = asyncio.run(trickle(int(server.env["PORT"]), b"", b""))

    assert ended.received == b""
    in_time(ended.lasted_s, HEADER_S + REST_S, at_least_s=HEADER_S * 0.9)


def test_who_is_answered_and_goes_on_sending_is_cut_off(
    patient: Patient,
) -> None:
    """Nobody reads these bodies; they are drained for 5 s."""
    server, _ = patient
    port = int(server.env["PORT"])
    paths: list[tuple[str, str, int]] = [
        ("POST", "/api/v1/nothing", 404),
        ("GET", "/healthz", 200),
        ("POST", "/api/v1/chat/completions", 401),
    ]

    async def all_of_them() -> list[Ended]:
        return await asyncio.gather(
            *(
                trickle(port, head_bytes(framing, method=method, path=path), b"1\r\n \r\n" * 500)
                for method, path, _ in paths
                for framing in ("Content-Length: 100000", "Transfer-Encoding: chunked")
            )
        )

    found = asyncio.run(all_of_them())

    expected: list[Any] = [status for _, _, status in paths for _ in range(2)]
    assert [ended.status for ended in found] == expected
    in_time(max(ended.lasted_s for ended in found), 5 + REST_S)
