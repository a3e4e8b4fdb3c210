"""What one request costs the others of its process: how long their streams fall silent."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from routing.simulator.testing import Wire
from tests.conformance.desk import HELLO
from tests.faults.bench import as_yaml, endpoint, model, provider
from tests.faults.conftest import loaded
from tests.routing.upstreams.raw_upstream import Peer, RawUpstream
from tests.support.bed import Bed
from tests.support.callers import CHAT
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.orm import database_name
from tests.support.pdfs import data_url, pdf
from tests.support.promptness import in_time
from tests.support.server import GatewayServer
from tests.support.silence import Listener, listening, ticking_upstream

pytestmark = pytest.mark.timed
MIB = 1_048_576
BODY_BYTES = 32 * MIB
LARGE_S, OTHERWISE_S = 0.25, 0.05
# A busy machine silences a stream by itself; what the gateway does to it happens in every round.
ROUNDS = 4
# Half a second, of which a stream that waited for the lock would be silent.
LOCKED_TICKS, LOCKED_S = 25, 0.25
BODIES_AT_ONCE = 3


def answer_large(peer: Peer) -> None:
    """Take a body of any size without looking at it."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += peer.sock.recv(65_536)
    head, body = head.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    left = length - len(body)
    while left:
        left -= len(peer.sock.recv(min(left, MIB)))
    text = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    peer.send(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(text) + text
    )


@pytest.fixture(scope="module")
def ticking(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed
) -> Iterator[tuple[GatewayServer, SeededAccount]]:
    """`tick/tock` ticks; `big/eater` takes bodies of any size."""
    folder = tmp_path_factory.mktemp("ticking")
    with ExitStack() as stack:
        ticks = stack.enter_context(ticking_upstream())
        eater = stack.enter_context(RawUpstream(answer_large))
        providers = [
            provider("ticks", f"http://127.0.0.1:{ticks.port}/v1"),
            provider("eats", f"http://127.0.0.1:{eater.port}/v1"),
        ]
        models = [
            model("tick/tock", endpoint("ticks")),
            model("big/eater", endpoint("eats"), context_length=100_000_000),
        ]
        starter = stack.enter_context(StartGateway(stores, folder))
        catalogue = as_yaml(providers, models)
        server = loaded(starter, folder, catalogue, ROUTER_IDLE_TIMEOUT="20", WEB_CONCURRENCY="1")
        yield server, seed_account(server, credits_usd="100000")


@pytest.fixture
def listener(ticking: tuple[GatewayServer, SeededAccount]) -> Iterator[Listener]:
    with listening(*ticking, "tick/tock") as listener:
        yield listener


def file_body() -> bytes:
    """A PDF that takes its time to be read."""
    content = data_url(pdf(*["word " * 1000] * 300))
    part = {"type": "file", "file": {"file_data": content}}
    plugin = {"id": "file-parser", "pdf": {"engine": "pdf-text"}}
    message = {"role": "user", "content": [part]}
    body = {"model": "big/eater", "messages": [message], "plugins": [plugin]}
    return json.dumps(body).encode()


def quietest_s(
    listener: Listener, work: Callable[[], object], *, limit_s: float, waits: bool = False
) -> float:
    """The silence of the best round; no more rounds than are needed."""
    best_s = float("inf")
    for _ in range(ROUNDS):
        best_s = min(best_s, listener.silence_s(work, waits=waits))
        if best_s <= limit_s:
            break
    return best_s


def chat_body(content: str) -> bytes:
    """A chat body of 32 MiB whose text is `content` over and over."""
    before = b'{"model":"big/eater","messages":[{"role":"user","content":"'
    piece, after = content.encode(), b'"}]}'
    times = (BODY_BYTES - len(before) - len(after)) // len(piece)
    return before + piece * times + after


def message_body(count: int) -> bytes:
    piece = b'{"role":"user","content":"%s"}' % (b"a" * (BODY_BYTES // count - 31))
    return b'{"model":"big/eater","messages":[' + b",".join([piece] * count) + b"]}"


def dense_body(piece: bytes, count: int) -> bytes:
    return b'{"model":"big/eater","x":[' + b",".join([piece] * count) + b"]}"


def keyed_body(count: int) -> bytes:
    keys = b",".join(b'"%07d":1' % number for number in range(count))
    return b'{"model":"big/eater","x":{' + keys + b"}}"


BODIES: dict[str, tuple[Callable[[], bytes], int]] = {
    "one text": (lambda: chat_body("plain text, "), 200),
    "100,000 messages": (lambda: message_body(100_000), 200),
    "keys up to the limit": (lambda: keyed_body(499_990), 400),
    "lists for 32 MiB": (lambda: dense_body(b"[]", BODY_BYTES // 3 - 10), 413),
}
MORE_BODIES: dict[str, tuple[Callable[[], bytes], int]] = {
    "a text of escapes": (lambda: chat_body("\\n"), 200),
    "a text in Greek": (lambda: chat_body("κόσμε "), 200),
    "a text of digits": (lambda: chat_body("1234567890" * 10), 200),
    "lists up to the limit": (lambda: dense_body(b"[]", 499_990), 400),
}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(pytest.param(*given, id=name) for name, given in BODIES.items()),
        *(
            pytest.param(*given, id=name, marks=pytest.mark.nightly)
            for name, given in MORE_BODIES.items()
        ),
    ],
)
def test_large_bodies_do_not_silence_a_stream(
    ticking: tuple[GatewayServer, SeededAccount],
    listener: Listener,
    body: Callable[[], bytes],
    status: int,
) -> None:
    server, account = ticking
    data = body()
    statuses: list[int] = []

    def send() -> None:
        with ThreadPoolExecutor(BODIES_AT_ONCE) as pool:
            answers = pool.map(lambda _: post(server, account, data), range(BODIES_AT_ONCE))
            statuses.extend(answers)

    silence_s = quietest_s(listener, send, limit_s=LARGE_S)
    assert set(statuses) == {status}
    in_time(silence_s, LARGE_S)


def test_reading_a_file_does_not_silence_a_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener
) -> None:
    server, account = ticking
    data = file_body()
    statuses: list[int] = []

    def send() -> None:
        statuses.append(post(server, account, data))

    silence_s = quietest_s(listener, send, limit_s=OTHERWISE_S)

    assert set(statuses) == {200}
    in_time(silence_s, OTHERWISE_S)


def test_tiny_chunks_do_not_silence_a_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener
) -> None:
    server, account = ticking
    data = b"1\r\n \r\n" * 300_000 + b"0\r\n\r\n"
    statuses: list[int] = []

    def send() -> None:
        statuses.append(post(server, account, data, framing="Transfer-Encoding: chunked"))

    silence_s = quietest_s(listener, send, limit_s=OTHERWISE_S)

    assert set(statuses) == {400}
    in_time(silence_s, OTHERWISE_S)


def test_a_catalogue_of_10_000_endpoints_loads_beside_a_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener, tmp_path: Path
) -> None:
    server, _ = ticking
    fillers = [provider(f"filler-{n}", f"http://127.0.0.1:9/{n}") for n in range(10)]
    models = [
        model(f"filler/model-{n}", *(endpoint(each["slug"]) for each in fillers))
        for n in range(1000)
    ]
    file = tmp_path / "large.yaml"
    file.write_text(as_yaml(fillers, models), encoding="utf-8")
    server.manage("load_catalogue", str(file))
    server.wait_until(lambda: is_served(server, "filler/model-999"), within_s=60)
    reloads = iter(range(ROUNDS))

    def load_again() -> None:
        name = f"Renamed {next(reloads)}"
        renamed = [provider("filler-0", "http://127.0.0.1:9/0", name=name)]
        file.write_text(as_yaml(renamed, []), encoding="utf-8")
        server.manage("load_catalogue", str(file))
        server.wait_until(lambda: name in server.get("/api/v1/providers").text, within_s=60)

    in_time(quietest_s(listener, load_again, limit_s=OTHERWISE_S), OTHERWISE_S)


def is_served(server: GatewayServer, model_id: str) -> bool:
    return server.get(f"/api/v1/model/{model_id}").status_code == 200


def post(server: GatewayServer, account: SeededAccount, data: bytes, *, framing: str = "") -> int:
    """A chat request of these bytes; its status."""
    framing = framing or f"Content-Length: {len(data)}"
    wire = Wire(int(server.env["PORT"]), timeout_s=60)
    try:
        wire.send(
            f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {account.api_key}\r\n"
            f"{framing}\r\nConnection: close\r\n\r\n".encode()
        )
        wire.send(data)
        status, headers = wire.head()
        wire.body(headers)
        return status
    finally:
        wire.close()


@pytest.mark.both
def test_a_locked_database_silences_no_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener
) -> None:
    server, account = ticking

    def ask_while_locked() -> None:
        with ThreadPoolExecutor(1) as pool, locked(server.env["DATABASE_URL"]):
            answer = pool.submit(
                server.chat, key=account.api_key, model="big/eater", messages=HELLO
            )
            for _ in range(LOCKED_TICKS):
                listener.until_another()
        assert answer.result().status_code in {200, 503}

    in_time(quietest_s(listener, ask_while_locked, limit_s=LOCKED_S, waits=True), LOCKED_S)


@contextmanager
def locked(database_url: str) -> Iterator[None]:
    """Meanwhile nobody else can write what a hold writes."""
    if database_url.startswith("sqlite:"):
        with closing(sqlite3.connect(database_name(database_url), timeout=10)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.rollback()
    else:
        with psycopg.connect(database_url) as connection:
            connection.execute("LOCK TABLE accounts_account IN EXCLUSIVE MODE")
            yield
