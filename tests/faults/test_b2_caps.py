"""B2: what is too long or too much is refused in the API's JSON, and costs nothing."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import RawConnection
from tests.faults.raw_desk import status_kib, worker_pids
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer
from tests.support.wires import answer_to, chunk_body, envelope, head_bytes

pytestmark = pytest.mark.thorough
KIB, MIB = 1024, 1_048_576
GROWTH_KIB_MAX = 48 * KIB


def pad_body(size: int) -> bytes:
    """A chat body of exactly so many bytes, for a model that does not exist."""
    body = b'{"model":"no/such","messages":[{"role":"user","content":"%s"}]}'
    return body % (b"a" * (size - len(body) + 2))


def frame_request(data: bytes, framing: str, **head: Any) -> bytes:
    if framing == "chunked":
        return head_bytes("Transfer-Encoding: chunked", **head) + chunk_body(data)
    return head_bytes(f"Content-Length: {len(data)}", **head) + data


def test_a_body_that_is_all_structure_is_too_large(start_gateway: StartGateway) -> None:
    server = start_gateway()
    key = seed_account(server).api_key
    before = worker_kib(server, "VmRSS")

    for piece in (b"[],", b'{"a":1},', b"0,", b'"":[],'):
        data = b'{"x":[' + piece * (16 * MIB // len(piece)) + b"0]}"
        status, error = answer_to(server, frame_request(data, "counted", key=key))
        assert (status, error["metadata"]["error_type"]) == (413, "payload_too_large")

    # Each of them would be 400 MB and more of Python objects.
    assert worker_kib(server, "VmHWM") - before < 200 * KIB


def test_memory_is_given_back(start_gateway: StartGateway) -> None:
    server = start_gateway(ROUTER_MAX_BODY_BYTES=str(4 * MIB))
    key = seed_account(server).api_key

    def round_of_everything() -> None:
        for framing in ("counted", "chunked"):
            assert answer_to(server, frame_request(pad_body(4 * MIB), framing, key=key))
            assert answer_to(server, frame_request(b"[" * 1_000_000, framing, key=key))
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
    data = pad_body(MIB)
    try:
        for wire in slow:
            wire.send(head + data[:-KIB])

        def is_full() -> bool:
            with closing(RawConnection(port)) as wire:
                wire.send(frame_request(data, "counted", key=key, close=True))
                status, headers = wire.head()
                assert status in {400, 503}
                return status == 503 and int(headers["retry-after"]) > 0

        # A probe that comes before them would take what is theirs.
        server.wait_until(lambda: not any(map(unread_bytes, slow)), within_s=20)
        assert is_full()
        # Small requests are not concerned, and what was begun goes on.
        assert answer_to(server, frame_request(pad_body(KIB), "counted", key=key))[0] == 400
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
