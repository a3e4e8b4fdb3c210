"""B2: what is too deep, too long or too much is refused in the API's JSON, and costs nothing."""

import gzip
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import Wire
from tests.faults.bench import endpoint, model
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.wires import answer_to, chunked, envelope, head_bytes

pytestmark = pytest.mark.thorough

KIB, MIB = 1024, 1_048_576
CHAT_BYTES_MAX, KEYS_BYTES_MAX = 4 * MIB, 64 * KIB
KEYS = "/api/v1/keys"
# The answer comes within 100 ms of the last byte needed, on a machine that does nothing else.
PROMPT_S = 2.0
GROWTH_BYTES_MAX = 48 * MIB


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory, stores: Any) -> Any:
    with StartGateway(stores, tmp_path_factory.mktemp("capped")) as starter:
        yield starter(
            ROUTER_MAX_BODY_BYTES=str(CHAT_BYTES_MAX), MANAGEMENT_MAX_BODY_BYTES=str(KEYS_BYTES_MAX)
        )


@pytest.fixture(scope="module")
def account(capped: GatewayServer) -> SeededAccount:
    return seed_account(capped)


def padded(size: int) -> bytes:
    """A chat body of exactly so many bytes, for a model that does not exist."""
    body = b'{"model":"no/such","messages":[{"role":"user","content":"%s"}]}'
    return body % (b"a" * (size - len(body) + 2))


def framed(data: bytes, framing: str, **head: Any) -> bytes:
    if framing == "chunked":
        return head_bytes("Transfer-Encoding: chunked", **head) + chunked(data)
    return head_bytes(f"Content-Length: {len(data)}", **head) + data


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_hundred_thousand_brackets_are_no_json_of_ours(
    capped: GatewayServer, account: SeededAccount, opening: bytes
) -> None:
    for data in (opening * 100_000, b"[" * 100_000 + b"]" * 100_000):
        status, error = answer_to(capped, framed(data, "counted", key=account.api_key))

        assert status == 400
        assert error["message"] == "Invalid JSON in request body: nested deeper than 128 levels"


@pytest.mark.parametrize("framing", ["counted", "chunked"])
def test_one_byte_over_the_cap_is_too_large_and_one_less_is_read(
    capped: GatewayServer, account: SeededAccount, framing: str
) -> None:
    caps = [("", account.api_key, CHAT_BYTES_MAX), (KEYS, account.management_key, KEYS_BYTES_MAX)]
    for path, key, size in caps:
        head = {"key": key} | ({"path": path} if path else {})
        status, error = answer_to(capped, framed(padded(size + 1), framing, **head))
        assert (status, error["metadata"]["error_type"]) == (413, "payload_too_large")

        status, error = answer_to(capped, framed(padded(size), framing, **head))
        assert (status, error["metadata"]["error_type"]) == (400, "invalid_request")


def test_a_bomb_is_too_large_and_a_strange_coding_is_told_which_are_read(
    capped: GatewayServer, account: SeededAccount
) -> None:
    for coding, data, expected in (
        ("gzip", gzip.compress(padded(CHAT_BYTES_MAX)), 400),
        ("gzip", gzip.compress(padded(CHAT_BYTES_MAX + 1)), 413),
        ("gzip", gzip.compress(padded(32 * CHAT_BYTES_MAX)), 413),
        ("br", padded(1000), 415),
    ):
        fields = (f"Content-Encoding: {coding}", f"Content-Length: {len(data)}")
        status, _ = answer_to(capped, head_bytes(*fields, key=account.api_key) + data)

        assert status == expected, coding


def test_a_declared_length_over_the_cap_is_refused_before_a_byte_of_it(
    capped: GatewayServer, account: SeededAccount
) -> None:
    began = time.monotonic()

    status, _ = answer_to(
        capped, head_bytes(f"Content-Length: {CHAT_BYTES_MAX + 1}", key=account.api_key)
    )

    assert status == 413
    in_time(time.monotonic() - began, PROMPT_S)


def test_without_a_key_nothing_of_the_body_is_waited_for(capped: GatewayServer) -> None:
    for framing in ("Content-Length: 1000", "Transfer-Encoding: chunked", "Expect: 100-continue"):
        began = time.monotonic()

        with closing(Wire(int(capped.env["PORT"]))) as wire:
            wire.send(head_bytes(framing))
            if framing.startswith("Expect"):
                wire.until(b"100 Continue\r\n\r\n")
            status, error = envelope(wire)

        assert (status, error["metadata"]["error_type"]) == (401, "authentication")
        in_time(time.monotonic() - began, PROMPT_S)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([f"X-Long: {'v' * MIB}"], 431),
        ([f"X-{n}: {'v' * 8000}" for n in range(130)], 431),
        ([f"X-{n}: v" for n in range(10_000)], 431),
        ([f"X-{n}: v" for n in range(101)], 431),
        ([f"X-Long: {'v' * 8300}"], 431),
        (["X-Long: " + "v" * 8100], 401),
    ],
    ids=["1 MB in one", "1 MB in 130", "10,000", "101", "8,300 bytes", "8,100 bytes"],
)
def test_heads_over_the_limits_are_a_json_431(
    capped: GatewayServer, fields: list[str], status: int
) -> None:
    began = time.monotonic()

    assert answer_to(capped, head_bytes(*fields))[0] == status
    in_time(time.monotonic() - began, PROMPT_S)


def test_a_long_request_line_is_a_json_400(capped: GatewayServer) -> None:
    for end in (" HTTP/1.1\r\n\r\n", ""):
        request = f"GET /{'a' * MIB}{end}".encode()

        assert answer_to(capped, request)[1]["message"] == "Request line too long"


def test_a_hundred_thousand_messages_are_served(desk_on: Any) -> None:
    desk = desk_on([model("plain/first", endpoint("first"), context_length=10_000_000)])
    desk.upstream.script("first", {"text": "That was much."})
    messages = [{"role": "user", "content": "Hi"}] * 100_000

    body = json.dumps({"model": "plain/first", "messages": messages}).encode()

    answer = desk.raw(body)
    assert answer.status_code == 200, answer.text
    assert len(desk.the_one_sent("first")["messages"]) == 100_000


def test_a_body_that_is_all_structure_is_too_large(start_gateway: StartGateway) -> None:
    server = start_gateway()
    key = seed_account(server).api_key
    before = worker_rss_bytes(server)

    for piece in (b"[],", b'{"a":1},', b"0,", b'"":[],'):
        data = b'{"x":[' + piece * (16 * MIB // len(piece)) + b"0]}"
        status, error = answer_to(server, framed(data, "counted", key=key))
        assert (status, error["metadata"]["error_type"]) == (413, "payload_too_large")

    # Each of them would be 400 MB and more of Python objects.
    assert peak_rss_bytes(server) - before < 200 * MIB


def test_memory_is_given_back(capped: GatewayServer, account: SeededAccount) -> None:
    def round_of_everything() -> None:
        for framing in ("counted", "chunked"):
            assert answer_to(capped, framed(padded(CHAT_BYTES_MAX), framing, key=account.api_key))
            assert answer_to(capped, framed(b"[" * 1_000_000, framing, key=account.api_key))
        assert answer_to(capped, head_bytes(f"X-Long: {'v' * MIB}"))

    round_of_everything()
    before = worker_rss_bytes(capped)
    for _ in range(5):
        round_of_everything()

    assert worker_rss_bytes(capped) - before < GROWTH_BYTES_MAX


def test_bodies_beyond_the_memory_for_them_are_told_to_come_back(
    start_gateway: StartGateway,
) -> None:
    limit = {"ROUTER_MAX_BODY_BYTES": str(MIB), "ROUTER_BODY_MEMORY_BYTES": str(2 * MIB)}
    server = start_gateway(**limit)
    key = seed_account(server).api_key
    port = int(server.env["PORT"])
    slow = [Wire(port) for _ in range(2)]
    head = head_bytes(f"Content-Length: {MIB}", key=key)
    data = padded(MIB)
    try:
        for wire in slow:
            wire.send(head + data[:-KIB])

        def is_full() -> bool:
            with closing(Wire(port)) as wire:
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


def unread_bytes(wire: Wire) -> int:
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


def worker_rss_bytes(server: GatewayServer) -> int:
    return _status_bytes(server, "VmRSS")


def peak_rss_bytes(server: GatewayServer) -> int:
    return _status_bytes(server, "VmHWM")


def _status_bytes(server: GatewayServer, name: str) -> int:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    (worker,) = children
    lines = Path(f"/proc/{worker}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * KIB
