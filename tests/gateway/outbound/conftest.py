"""A door, raw upstreams, and short limits."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gateway.outbound.http_client import AbortHandle, HttpClient, Limits, Origin, Reply
from tests.gateway.outbound.raw_upstream import Peer, RawUpstream
from tests.support.certificates import write_certificate

ROOMY = Limits(connect_s=10, first_byte_s=10, idle_s=10)
Target = RawUpstream | str | Origin
Failed = TypeVar("Failed", bound=BaseException)


@pytest.fixture
def client() -> Iterator[HttpClient]:
    client = HttpClient()
    yield client
    client.close_idle()


class Serve:
    """Starts raw upstreams that end with the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(
        self, script: Callable[[Peer], None], *, tls_context: ssl.SSLContext | None = None
    ) -> RawUpstream:
        return self._stack.enter_context(RawUpstream(script, tls_context))


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield Serve(stack)


class Caller:
    """Sends through one door with roomy limits, except for those a test names."""

    def __init__(self, client: HttpClient, serve: Serve, replies: ExitStack) -> None:
        self._door = client
        self._replies = replies
        self.serve = serve

    def through(self, client: HttpClient) -> "Caller":
        """The same through another door, which is emptied when the test ends."""
        self._replies.callback(client.close_idle)
        return Caller(client, self.serve, self._replies)

    def fails(self, kind: type[Failed], target: Target, **options: Any) -> Failed:
        """The error of this kind that a call raises."""
        with pytest.raises(kind) as caught:
            self(target, **options)
        return caught.value

    def __call__(
        self,
        target: Target,
        *,
        method: str = "POST",
        path: str = "/chat",
        headers: list[tuple[str, str]] | None = None,
        body: bytes = b"{}",
        deadline_s: float = 15,
        abort_handle: AbortHandle | None = None,
        **limits: Any,
    ) -> Reply:
        reply = self._door.send(
            _origin(target),
            method=method,
            path=path,
            headers=headers or [],
            body=body,
            limits=replace(ROOMY, **limits),
            deadline=time.monotonic() + deadline_s,
            abort_handle=abort_handle,
        )
        self._replies.callback(reply.close)
        return reply


def _origin(target: Target) -> Origin:
    if isinstance(target, Origin):
        return target
    return Origin.parse(target if isinstance(target, str) else target.url)


def socket_of(reply: Reply) -> socket.socket:
    assert reply._connection is not None
    return reply._connection.sock


def read_in_pieces(reply: Reply) -> Iterator[bytes]:
    return iter(lambda: reply.read_some() or b"", b"")


@pytest.fixture
def call(client: HttpClient, serve: Serve) -> Iterator[Caller]:
    with ExitStack() as replies:
        yield Caller(client, serve, replies)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "upstream.pem")


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))
