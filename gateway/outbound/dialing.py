"""Opening connections: names to addresses, proxy, TLS, all within one connect limit."""

import errno
import functools
import ipaddress
import os
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import certifi

from gateway.eventloop import find_loop
from gateway.outbound.connection import wait_for
from gateway.outbound.errors import (
    ConnectFailed,
    ConnectTimeout,
    DnsFailed,
    NotAllowed,
    OutboundError,
    TlsFailed,
)
from gateway.outbound.exchange import Exchange, Origin

_KEEP_S = 10.0
_NAMES_MAX = 1024
_PROXY_HEAD_BYTES_MAX = 16 * 1024
_CONNECTED = frozenset({0, errno.EISCONN})
_CONNECTING = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK, errno.EINTR})


@dataclass(frozen=True, slots=True)
class Address:
    """What ``socket.connect`` needs, and the numeric host on its own."""

    family: int
    sockaddr: tuple[object, ...]

    @property
    def host(self) -> str:
        return str(self.sockaddr[0])


@dataclass(slots=True)
class _Lookup:
    done: threading.Event = field(default_factory=threading.Event)
    addresses: tuple[Address, ...] = ()
    fresh_until: float = 0.0


class Resolver:
    """Looks each name up once at a time, within a limit that the system's resolver does not offer,
    and keeps good answers for 10 s.

    A look-up runs in a thread of its own (a greenlet under gevent), so that a caller can leave when
    its time is up. Callers who ask for the same dead name share that thread. Callers of other
    threads have their own: a greenlet that everybody left runs no further there.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lookups: dict[tuple[int, str, int], _Lookup] = {}

    def resolve(
        self, host: str, port: int, exchange: Exchange, until: float
    ) -> tuple[Address, ...]:
        """At least one address. Raises DnsFailed, ConnectTimeout, DeadlineExceeded, Aborted."""
        literal = _literal(host, port)
        if literal:
            return literal
        lookup = self._lookup(host, port)
        while not lookup.done.wait(exchange.notice_s(until, ConnectTimeout)):
            pass
        if not lookup.addresses:
            raise exchange.build_error(DnsFailed, f"no address found for {host}")
        return lookup.addresses

    def forget(self, host: str, port: int) -> None:
        """Ask anew next time: none of the addresses answered."""
        with self._lock:
            self._lookups.pop((find_loop(), host, port), None)

    def _lookup(self, host: str, port: int) -> _Lookup:
        """The look-up that runs or is still fresh, else a new one."""
        key = (find_loop(), host, port)
        with self._lock:
            lookup = self._lookups.get(key)
            if lookup and (not lookup.done.is_set() or self._clock() < lookup.fresh_until):
                return lookup
            if len(self._lookups) >= _NAMES_MAX:
                self._lookups.clear()
            lookup = self._lookups[key] = _Lookup()

        def run() -> None:
            try:
                lookup.addresses = _getaddrinfo(host, port)
                lookup.fresh_until = self._clock() + _KEEP_S
            except OSError:
                pass  # No addresses, and not fresh: waiters report it and the next call asks again.
            finally:
                lookup.done.set()

        threading.Thread(target=run, daemon=True).start()
        return lookup


def _literal(host: str, port: int) -> tuple[Address, ...]:
    """Numeric addresses without the resolver: names that hang would keep its threads from them."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        # Addresses like `0x7f.1`: no name of the public DNS has a last label that begins so.
        if not host.rsplit(".", 1)[-1][:1].isdigit():
            return ()
        try:
            return _getaddrinfo(host, port, socket.AI_NUMERICHOST)
        except OSError:
            return ()
    if version == 4:
        return (Address(socket.AF_INET, (host, port)),)
    return (Address(socket.AF_INET6, (host, port, 0, 0)),) if "%" not in host else ()


def _getaddrinfo(host: str, port: int, flags: int = 0) -> tuple[Address, ...]:
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return tuple(Address(family, sockaddr) for family, _, _, _, sockaddr in results)


@functools.cache
def default_tls_context() -> ssl.SSLContext:
    """The one context every origin without its own shares: the system's roots, else certifi's."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    # Certificates of a directory are loaded one by one as they are needed, so it is looked into.
    capath = ssl.get_default_verify_paths().capath
    in_directory = capath is not None and any(Path(capath).iterdir())
    if not (in_directory or context.cert_store_stats()["x509_ca"] > 0):
        context.load_verify_locations(certifi.where())
    return context


class Dialer:
    """Opens sockets that are ready for a request.

    ``address_allowed`` is asked about each numeric address at the moment of dialling, so that a
    name cannot point elsewhere between check and use. With a proxy it judges the proxy's address.
    """

    def __init__(
        self,
        *,
        resolver: Resolver,
        proxy: Origin | None,
        address_allowed: Callable[[str], bool] | None,
    ) -> None:
        self._resolver = resolver
        self._proxy = proxy
        self._address_allowed = address_allowed

    def dial(self, origin: Origin, exchange: Exchange) -> socket.socket:
        """Raises DnsFailed, ConnectFailed, TlsFailed, ConnectTimeout, DeadlineExceeded, Aborted."""
        if origin.socket_path:
            return _open_local(origin.socket_path, exchange)
        until = exchange.clock() + exchange.limits.connect_s
        sock = self._connect(self._proxy or origin, exchange, until)
        try:
            if origin.is_tls:
                if self._proxy is not None:
                    _open_tunnel(sock, origin, exchange, until)
                context = origin.tls_context or default_tls_context()
                try:
                    # It takes the descriptor over: from here on the TLS socket is to be closed.
                    sock = context.wrap_socket(
                        sock, server_hostname=origin.host, do_handshake_on_connect=False
                    )
                except OSError as error:
                    text = f"the TLS handshake failed: {type(error).__name__}"
                    raise exchange.build_error(TlsFailed, text) from error
                _handshake(sock, exchange, until)
        except BaseException:  # Also a greenlet being killed must not leave a socket behind.
            sock.close()
            raise
        return sock

    def _connect(self, target: Origin, exchange: Exchange, until: float) -> socket.socket:
        """The first address that answers. Each gets an equal share of the time that is left."""
        addresses = self._resolver.resolve(target.host, target.port, exchange, until)
        last: OutboundError = exchange.build_error(
            NotAllowed, f"no address of {target.authority} may be dialled"
        )
        for tried, address in enumerate(addresses):
            if self._address_allowed is not None and not self._address_allowed(address.host):
                continue
            share_s = exchange.left_s(until, ConnectTimeout) / (len(addresses) - tried)
            try:
                return _open(address, exchange, exchange.clock() + share_s)
            except (TimeoutError, ConnectTimeout):
                last = exchange.build_late_error(until, ConnectTimeout)
            except OSError as error:
                reason = error.strerror or type(error).__name__
                last = exchange.build_error(
                    ConnectFailed, f"cannot connect to {target.authority}: {reason}"
                )
        self._resolver.forget(target.host, target.port)
        raise last


def _open(address: Address, exchange: Exchange, until: float) -> socket.socket:
    """A connected socket. Raises OSError, ConnectTimeout, DeadlineExceeded, Aborted."""
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.settimeout(0)
        problem = sock.connect_ex(address.sockaddr)
        while problem in _CONNECTING:
            wait_s = exchange.notice_s(until, ConnectTimeout)
            if wait_for(sock, selectors.EVENT_WRITE, wait_s):
                problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem not in _CONNECTED:
            raise OSError(problem, os.strerror(problem))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:  # Also a greenlet being killed must not leave a socket behind.
        sock.close()
        raise
    return sock


def _open_local(path: str, exchange: Exchange) -> socket.socket:
    """A socket of this machine connects at once, or not: where its queue is full nobody waits."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(0)
        sock.connect(path)
    except OSError as error:
        sock.close()
        reason = error.strerror or str(error)
        raise exchange.build_error(
            ConnectFailed, f"cannot connect to the local socket: {reason}"
        ) from error
    return sock


def _handshake(sock: socket.socket, exchange: Exchange, until: float) -> None:
    """Shake hands in steps: gevent's own loop would give each read the whole limit anew."""
    assert isinstance(sock, ssl.SSLSocket)
    sock.settimeout(0)
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            wait_for(sock, selectors.EVENT_READ, exchange.notice_s(until, ConnectTimeout))
        except ssl.SSLWantWriteError:
            wait_for(sock, selectors.EVENT_WRITE, exchange.notice_s(until, ConnectTimeout))
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message
            raise exchange.build_error(TlsFailed, f"the TLS handshake failed: {reason}") from error
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            raise exchange.build_error(TlsFailed, f"the TLS handshake failed: {reason}") from error
        else:
            return


def _open_tunnel(sock: socket.socket, origin: Origin, exchange: Exchange, until: float) -> None:
    """Ask the proxy for a way through to the origin."""
    authority = origin.authority
    request = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("ascii")
    sock.settimeout(exchange.left_s(until, ConnectTimeout))
    try:
        sock.sendall(request)
        head = b""
        while b"\r\n\r\n" not in head:
            sock.settimeout(exchange.notice_s(until, ConnectTimeout))
            try:
                data = sock.recv(_PROXY_HEAD_BYTES_MAX)
            except TimeoutError:
                continue
            if not data or len(head) > _PROXY_HEAD_BYTES_MAX:
                raise exchange.build_error(ConnectFailed, "the proxy opened no tunnel")
            head += data
    except TimeoutError:
        raise exchange.build_late_error(until, ConnectTimeout) from None
    except OSError as error:
        raise exchange.build_error(ConnectFailed, "the proxy ended the connection") from error
    status = head[9:12]
    # The origin speaks only after our TLS hello, so bytes behind the proxy's head are not its.
    if not head.startswith(b"HTTP/1.") or not head.endswith(b"\r\n\r\n") or status[:1] != b"2":
        shown = status.decode("ascii") if status.isdigit() else "no HTTP"
        raise exchange.build_error(
            ConnectFailed, f"the proxy opened no tunnel: it answered {shown}"
        )
