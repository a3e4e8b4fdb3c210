"""The ways in: addresses, TLS, proxies, and how each of them fails (U1)."""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.outbound.dialing import default_tls_context
from gateway.outbound.errors import (
    ConnectFailed,
    ConnectTimeout,
    DeadlineExceeded,
    DnsFailed,
    TlsFailed,
)
from gateway.outbound.http_client import HttpClient, Origin
from tests.gateway.outbound.conftest import Caller
from tests.gateway.outbound.raw_upstream import Peer, always, answer, turns
from tests.support.promptness import in_time


def test_a_refused_connection_is_named(call: Caller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = call.fails(ConnectFailed, f"http://127.0.0.1:{port}")
    assert (error.kind, error.phase, error.bytes_received) == ("connect_failed", "connect", 0)


@pytest.fixture
def black_hole() -> Iterator[str]:
    """The address of a listener whose backlog is full: connecting neither works nor fails."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        yield f"http://127.0.0.1:{address[1]}"
        for filler in fillers:
            filler.close()


def test_a_black_hole_costs_the_connect_limit(black_hole: str, call: Caller) -> None:
    started = time.monotonic()
    call.fails(ConnectTimeout, black_hole, connect_s=0.2)
    in_time(time.monotonic() - started, 2, at_least_s=0.19)


def test_the_deadline_ends_connecting_too(black_hole: str, call: Caller) -> None:
    error = call.fails(DeadlineExceeded, black_hole, connect_s=10, deadline_s=0.2)
    assert error.phase == "connect"


def test_a_resolver_without_an_answer_is_a_dns_failure(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_with(monkeypatch, {})
    call.fails(DnsFailed, "http://upstream.example")


def test_a_resolver_that_hangs_costs_the_connect_limit(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    lookups = []

    def hang(host: str, *args: object, **options: object) -> list[object]:
        if not options.get("flags"):
            lookups.append(host)
            release.wait(20)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    for _ in range(2):
        call.fails(ConnectTimeout, "http://upstream.example", connect_s=0.1)
    release.set()
    assert lookups == ["upstream.example"]


def test_each_address_is_tried_in_turn(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = call.serve(always(answer()))
    _resolve_with(monkeypatch, {"upstream.example": ["127.0.0.9", "127.0.0.1"]})
    assert call(f"http://upstream.example:{upstream.port}").read_all() == b"hi"


@pytest.mark.parametrize("host", ["127.0.0.1", "upstream.example", "2130706433", "0x7f.1"])
def test_each_address_may_be_vetoed_at_dial_time(
    host: str, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = call.serve(always(answer()))
    _resolve_with(monkeypatch, {"upstream.example": ["127.0.0.1"]})
    client = HttpClient(
        address_allowed=lambda address: not ipaddress.ip_address(address).is_loopback
    )
    error = call.through(client).fails(ConnectFailed, f"http://{host}:{upstream.port}")
    assert "may be dialled" in str(error)
    assert upstream.connections == 0


def _resolve_with(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> None:
    original = socket.getaddrinfo

    def resolve(host: str, port: int, **options: int) -> list[object]:
        if host not in names:
            if options.get("flags", 0) & socket.AI_NUMERICHOST:
                return [*original(host, port, **options)]
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "not numeric")
        return [entry for ip in names[host] for entry in original(ip, port, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


# TLS


def test_a_certificate_nobody_vouches_for_or_for_another_name_is_refused(
    call: Caller, server_tls: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    upstream = call.serve(always(answer()), tls_context=server_tls)
    other = Origin.parse(f"https://localhost:{upstream.port}", tls_context=trusting)
    assert "self-signed" in str(call.fails(TlsFailed, upstream))
    assert "not valid for 'localhost'" in str(call.fails(TlsFailed, other))
    assert upstream.requests == []


def test_a_trusted_upstream_is_called_over_tls_and_kept(
    call: Caller, server_tls: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    body = b"x" * 300_000
    upstream = call.serve(always(answer(body)), tls_context=server_tls)
    origin = Origin.parse(upstream.url, tls_context=trusting)
    for turn in range(3):
        with call(origin, body=body) as reply:
            assert reply.read_all() == body
        assert reply.reused == (turn > 0)
    assert upstream.connections == 1


def test_a_handshake_that_never_ends_costs_the_connect_limit(call: Caller) -> None:
    upstream = call.serve(Peer.wait_gone)
    call.fails(ConnectTimeout, upstream.url.replace("http", "https"), connect_s=0.2)
    assert upstream.gone.wait(60)


def test_a_peer_that_speaks_no_tls_is_named(call: Caller) -> None:
    upstream = call.serve(lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    call.fails(TlsFailed, upstream.url.replace("http", "https"))


def test_the_default_context_verifies_and_speaks_http_1() -> None:
    context = default_tls_context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert default_tls_context() is context


def test_without_system_roots_certifi_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = ssl.get_default_verify_paths()._replace(capath=str(tmp_path))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)
    context = default_tls_context.__wrapped__()
    assert context.cert_store_stats()["x509_ca"] > 50


# Proxies


def _build_tunnel(to: int) -> Callable[[Peer], None]:
    def connect(peer: Peer) -> None:
        with socket.create_connection(("127.0.0.1", to)) as far:
            back = threading.Thread(target=_pump, args=(far, peer.sock))
            back.start()
            _pump(peer.sock, far)
            back.join(10)

    return turns(b"HTTP/1.1 200 Connection established\r\n\r\n", connect)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_https_goes_through_a_tunnel(
    call: Caller, server_tls: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    upstream = call.serve(always(answer(b"far")), tls_context=server_tls)
    proxy = call.serve(_build_tunnel(upstream.port))
    origin = Origin.parse("https://upstream.example", tls_context=trusting)
    assert call.through(HttpClient(proxy=proxy.url))(origin).read_all() == b"far"
    assert proxy.requests == [
        b"CONNECT upstream.example:443 HTTP/1.1\r\nHost: upstream.example:443\r\n\r\n"
    ]


def test_http_goes_to_the_proxy_in_absolute_form(call: Caller) -> None:
    proxy = call.serve(always(answer(b"near")))
    reply = call.through(HttpClient(proxy=proxy.url))("http://upstream.example:8080/v1")
    assert reply.read_all() == b"near"
    assert proxy.requests[0].startswith(
        b"POST http://upstream.example:8080/v1/chat HTTP/1.1\r\nHost: upstream.example:8080\r\n"
    )


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nsurprise",
        b"220 smtp.example ESMTP\r\n\r\n",
        b"x" * 50_000,
        b"",
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_named(reply: bytes, call: Caller) -> None:
    through = call.through(HttpClient(proxy=call.serve(turns(reply)).url))
    assert "proxy" in str(through.fails(ConnectFailed, "https://upstream.example"))


def test_a_silent_proxy_costs_the_connect_limit(call: Caller) -> None:
    through = call.through(HttpClient(proxy=call.serve(Peer.wait_gone).url))
    through.fails(ConnectTimeout, "https://upstream.example", connect_s=0.2)
