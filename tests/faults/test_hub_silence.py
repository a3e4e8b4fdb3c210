"""What one request costs the others of its process: how long their streams fall silent."""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
import requests

from routing.simulator.testing import RawConnection
from tests.conformance.desk import HELLO
from tests.conformance.guarded import GUARDRAILS
from tests.faults.bench import endpoint, model, provider
from tests.faults.conftest import GatewayWith
from tests.faults.silence import Listener, listening, ticking_upstream
from tests.gateway.outbound.raw_upstream import Peer, RawUpstream
from tests.support.gateways import SeededAccount, seed_account
from tests.support.orm import database_name
from tests.support.pdfs import data_url, pdf
from tests.support.promptness import in_time
from tests.support.server import GatewayServer, as_json
from tests.support.wires import head_bytes

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
def ticking(gateway_with: GatewayWith) -> Iterator[tuple[GatewayServer, SeededAccount]]:
    """`tick/tock` ticks; `big/eater` takes bodies of any size."""
    with ticking_upstream() as ticks, RawUpstream(answer_large) as eater:
        providers = [
            provider("ticks", f"http://127.0.0.1:{ticks.port}/v1"),
            provider("eats", f"http://127.0.0.1:{eater.port}/v1"),
        ]
        models = [
            model("tick/tock", endpoint("ticks")),
            model("big/eater", endpoint("eats"), context_length=100_000_000),
        ]
        server = gateway_with(models, providers=providers, ROUTER_IDLE_TIMEOUT="20")
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


def lists_body(count: int) -> bytes:
    return b'{"model":"big/eater","x":[' + b",".join([b"[]"] * count) + b"]}"


def keyed_body(count: int) -> bytes:
    keys = b",".join(b'"%07d":1' % number for number in range(count))
    return b'{"model":"big/eater","x":{' + keys + b"}}"


# What is sent, its status, and for how long others may be silent.
BODIES: dict[str, tuple[Callable[[], bytes], int, float]] = {
    "one text": (lambda: chat_body("plain text, "), 200, LARGE_S),
    "100,000 messages": (lambda: message_body(100_000), 200, LARGE_S),
    "keys up to the limit": (lambda: keyed_body(499_990), 400, LARGE_S),
    "lists for 32 MiB": (lambda: lists_body(BODY_BYTES // 3 - 10), 413, LARGE_S),
    "a file to be read": (file_body, 200, OTHERWISE_S),
    "tiny chunks": (lambda: b"1\r\n \r\n" * 300_000 + b"0\r\n\r\n", 400, OTHERWISE_S),
}


@pytest.mark.timed
@pytest.mark.parametrize("name", BODIES)
def test_no_body_silences_a_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener, name: str
) -> None:
    body, status, limit_s = BODIES[name]
    data = body()
    statuses: set[int] = set()
    framing = "Transfer-Encoding: chunked" if name == "tiny chunks" else ""
    at_once = BODIES_AT_ONCE if limit_s == LARGE_S else 1

    def send() -> None:
        with ThreadPoolExecutor(at_once) as pool:
            asked = [pool.submit(post, *ticking, data, framing=framing) for _ in range(at_once)]
        statuses.update(each.result() for each in asked)

    silence_s = quietest_s(listener, send, limit_s=limit_s)
    assert statuses == {status}
    in_time(silence_s, limit_s)


def post(server: GatewayServer, account: SeededAccount, data: bytes, *, framing: str = "") -> int:
    """A chat request of these bytes; its status."""
    framing = framing or f"Content-Length: {len(data)}"
    with closing(RawConnection(int(server.env["PORT"]), timeout_s=60)) as wire:
        wire.send(head_bytes(framing, key=account.api_key, close=True))
        wire.send(data)
        status, headers = wire.head()
        wire.body(headers)
    return status


@pytest.mark.timed
@pytest.mark.both
def test_no_password_silences_a_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener
) -> None:
    """Names that nobody has are hashed as slowly, so that they take as long."""
    page, secret = f"{ticking[0].root_url}/console/sign-in", "c" * 32
    form = {"login": "nobody", "password": "guess", "csrfmiddlewaretoken": secret}
    took_s: list[float] = []

    def try_to_sign_in() -> None:
        answer = requests.post(page, form, cookies={"csrftoken": secret}, timeout=60)
        assert answer.status_code == 200, answer.text
        took_s.append(answer.elapsed.total_seconds())

    silence_s = quietest_s(listener, try_to_sign_in, limit_s=OTHERWISE_S)
    # It was hashed, and slowly.
    assert max(took_s) > OTHERWISE_S
    in_time(silence_s, OTHERWISE_S)


@pytest.mark.timed
@pytest.mark.both
def test_a_locked_database_silences_no_stream(
    ticking: tuple[GatewayServer, SeededAccount], listener: Listener
) -> None:
    server, account = ticking

    def ask_while_locked() -> None:
        with ThreadPoolExecutor(1) as pool, lock_books(server.env["DATABASE_URL"]):
            answer = pool.submit(
                server.chat, key=account.api_key, model="big/eater", messages=HELLO
            )
            for _ in range(LOCKED_TICKS):
                listener.until_another()
        assert answer.result().status_code in {200, 503}

    in_time(quietest_s(listener, ask_while_locked, limit_s=LOCKED_S, waits=True), LOCKED_S)


@contextmanager
def lock_books(database_url: str) -> Iterator[None]:
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


# --- Content filters ------------------------------------------------------------------------------

NASTY = [{"pattern": "[ab]*a[ab]{200}c", "action": "block"}]
# No automaton can be reused on it.
NEVER_THE_SAME = "".join(random.Random(7).choices("ab", k=1 << 20))
REDACTED = [{"slug": "email", "action": "redact"}, {"slug": "phone", "action": "redact"}]


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("text", "said", "status"),
    [
        ("mail ada@example.org " + "or so " * 50, {"content_filter_builtins": REDACTED}, 200),
        (NEVER_THE_SAME, {"content_filters": NASTY}, 413),
    ],
    ids=["redacted a hundred thousand times", "a pattern that takes too long"],
)
def test_streams_flow_while_texts_are_filtered(
    ticking: tuple[GatewayServer, SeededAccount],
    listener: Listener,
    text: str,
    said: dict[str, Any],
    status: int,
) -> None:
    server, _ = ticking
    theirs = seed_account(server, credits_usd="100000")
    statuses: set[int] = set()
    key, data = theirs.management_key, chat_body(text)
    guardrail = as_json(server.post(GUARDRAILS, key=key, json={"name": "g", **said}))["data"]["id"]
    body = {"key_hashes": [theirs.api_key_hash]}
    server.post(f"{GUARDRAILS}/{guardrail}/assignments/keys", key=key, json=body)

    def send() -> None:
        statuses.add(post(server, theirs, data))

    silence_s = quietest_s(listener, send, limit_s=LARGE_S)
    assert statuses == {status}
    in_time(silence_s, LARGE_S)
