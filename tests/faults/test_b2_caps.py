"""B2 and B4: what is too deep, too long or too much is refused in the API's JSON, and costs
nothing; callers who send or read slowly are ended in time, and the others do not notice them."""

import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import RawConnection
from tests.conformance.desk import Desk
from tests.faults.bench import endpoint, model
from tests.faults.conftest import Open
from tests.faults.raw_desk import status_kib, worker_pids
from tests.faults.slow import trickle_all
from tests.support.gateways import StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.wires import answer_to, chunked, envelope, head_bytes

pytestmark = pytest.mark.thorough
KIB, MIB = 1024, 1_048_576
GROWTH_KIB_MAX = 48 * KIB


def padded(size: int) -> bytes:
    """A chat body of exactly so many bytes, for a model that does not exist."""
    body = b'{"model":"no/such","messages":[{"role":"user","content":"%s"}]}'
    return body % (b"a" * (size - len(body) + 2))


def framed(data: bytes, framing: str, **head: Any) -> bytes:
    if framing == "chunked":
        return head_bytes("Transfer-Encoding: chunked", **head) + chunked(data)
    return head_bytes(f"Content-Length: {len(data)}", **head) + data


def test_a_body_that_is_all_structure_is_too_large(start_gateway: StartGateway) -> None:
    server = start_gateway()
    key = seed_account(server).api_key
    before = worker_kib(server, "VmRSS")

    for piece in (b"[],", b'{"a":1},', b"0,", b'"":[],'):
        data = b'{"x":[' + piece * (16 * MIB // len(piece)) + b"0]}"
        status, error = answer_to(server, framed(data, "counted", key=key))
        assert (status, error["metadata"]["error_type"]) == (413, "payload_too_large")

    # Each of them would be 400 MB and more of Python objects.
    assert worker_kib(server, "VmHWM") - before < 200 * KIB


def test_memory_is_given_back(start_gateway: StartGateway) -> None:
    server = start_gateway(ROUTER_MAX_BODY_BYTES=str(4 * MIB))
    key = seed_account(server).api_key

    def round_of_everything() -> None:
        for framing in ("counted", "chunked"):
            assert answer_to(server, framed(padded(4 * MIB), framing, key=key))
            assert answer_to(server, framed(b"[" * 1_000_000, framing, key=key))
        assert answer_to(server, head_bytes(f"X-Long: {'v' * MIB}"))

    round_of_everything()
    before = worker_kib(server, "VmRSS")
    for _ in range(5):
        round_of_everything()

    assert worker_kib(server, "VmRSS") - before < GROWTH_KIB_MAX


def test_bodies_beyond_the_memory_for_them_are_told_to_come_back(
    start_gateway: StartGateway,
) -> None:
    limit = {"ROUTER_MAX_BODY_BYTES": str(MIB), "ROUTER_BODY_MEMORY_BYTES": str(2 * MIB)}
    server = start_gateway(**limit)
    key = seed_account(server).api_key
    port = int(server.env["PORT"])
    slow = [RawConnection(port) for _ in range(2)]
    head = head_bytes(f"Content-Length: {MIB}", key=key)
    data = padded(MIB)
    try:
        for wire in slow:
            wire.send(head + data[:-KIB])

        def is_full() -> bool:
            with closing(RawConnection(port)) as wire:
                wire.send(framed(data, "counted", key=key, close=True))
                status, headers = wire.head()
                assert status in {400, 503}
                return status == 503 and int(headers["retry-after"]) > 0

        # A probe that comes before them would take what is theirs.
        server.wait_until(lambda: not any(map(unread_bytes, slow)), within_s=20)
        assert is_full()
        # Small requests are not concerned, and what was begun goes on.
        assert answer_to(server, framed(padded(KIB), "counted", key=key))[0] == 400
        for wire in slow:
            wire.send(data[-KIB:])
            assert envelope(wire)[1]["metadata"]["error_type"] == "invalid_request"
        server.wait_until(lambda: not is_full())
    finally:
        for wire in slow:
            wire.close()


def unread_bytes(wire: RawConnection) -> int:
    """What was sent on this wire and the server has not read yet."""
    ends = (wire.socket.getsockname(), wire.socket.getpeername())
    mine, theirs = (f":{port:04X}" for _, port in ends)
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        unsent, unread = (int(queue, 16) for queue in fields[4].split(":"))
        if fields[1].endswith(mine) and fields[2].endswith(theirs) and unsent:
            return unsent
        if fields[1].endswith(theirs) and fields[2].endswith(mine) and unread:
            return unread
    return 0


def worker_kib(server: GatewayServer, name: str) -> int:
    (pid,) = worker_pids(server)
    return status_kib(pid, name)


# --- B4: slow callers -----------------------------------------------------------------------------

# Between a limit and the sight of it on a machine that does much else.
REST_S = 5.0
HONEST, ASKS_EACH = 20, 5


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("callers", "pace_s", "limits_s"),
    [
        (100, 0.5, (1.5, 2.0)),
        # Those of the product.
        pytest.param(2000, 5.0, (10.0, 30.0), marks=pytest.mark.nightly),
    ],
)
def test_slow_callers_are_ended_in_time_and_cost_the_others_nothing(
    desk_on: Open, callers: int, pace_s: float, limits_s: tuple[float, float]
) -> None:
    """Half of them never finish a head, half never a body; the honest ask all the while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, callers + 1000), hard), hard))
    head_s, body_s = limits_s
    limits = {"ROUTER_HEADER_TIMEOUT": str(head_s), "ROUTER_BODY_TIMEOUT": str(body_s)}
    desk = desk_on([model("plain/first", endpoint("first"))], **limits)
    quiet_s = honest_p99_s(desk)
    lines = b"GET /healthz HTTP/1.1\r\n", b"X-Slow: " + b"a" * 1000
    body = head_bytes("Content-Length: 5000", key=desk.account.api_key), b"{" * 1000

    # In a process of their own, which is busy with them.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        given = [lines, body] * (callers // 2)
        slow = pool.submit(trickle_all, int(desk.server.env["PORT"]), given, pace_s)
        busy_s = honest_p99_s(desk, until=slow.done)
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


def honest_p99_s(desk: Desk, *, until: Callable[[], bool] = lambda: True) -> float:
    """Of so many requests, and more until it is enough."""

    def ask(_: int) -> float:
        began = time.monotonic()
        desk.ok()
        return time.monotonic() - began

    with ThreadPoolExecutor(HONEST) as pool:
        took_s = list(pool.map(ask, range(HONEST * ASKS_EACH)))
        while not until():
            took_s += pool.map(ask, range(HONEST))
        took_s.sort()
    return took_s[int(len(took_s) * 0.99)]
