"""Host names to addresses, within a time limit that the system's resolver does not offer."""

import ipaddress
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.outbound.errors import ConnectTimeout, DnsFailed
from gateway.outbound.exchange import Exchange

_KEEP_S = 10.0
_NAMES_MAX = 1024


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
    """Looks each name up once at a time and keeps good answers for 10 s.

    A look-up runs in a thread of its own (a greenlet under gevent), so that a caller can leave
    when its time is up; callers who ask for the same dead name meanwhile share that one thread.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lookups: dict[tuple[str, int], _Lookup] = {}

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
            raise exchange.fail(DnsFailed, f"no address found for {host}")
        return lookup.addresses

    def forget(self, host: str, port: int) -> None:
        """Ask anew next time: none of the addresses answered."""
        with self._lock:
            self._lookups.pop((host, port), None)

    def _lookup(self, host: str, port: int) -> _Lookup:
        """The look-up that runs or is still fresh, else a new one."""
        key = (host, port)
        with self._lock:
            lookup = self._lookups.get(key)
            if lookup and (not lookup.done.is_set() or self._clock() < lookup.fresh_until):
                return lookup
            if len(self._lookups) >= _NAMES_MAX:
                self._lookups.clear()
            lookup = self._lookups[key] = _Lookup()
        threading.Thread(target=self._run, args=(lookup, host, port), daemon=True).start()
        return lookup

    def _run(self, lookup: _Lookup, host: str, port: int) -> None:
        try:
            lookup.addresses = _getaddrinfo(host, port)
            lookup.fresh_until = self._clock() + _KEEP_S
        except OSError:
            pass  # No addresses, and not fresh: the waiters report it and the next call asks again.
        finally:
            lookup.done.set()


def _literal(host: str, port: int) -> tuple[Address, ...]:
    """Numeric addresses without the resolver: names that hang would keep its threads from them."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return _odd_literal(host, port)
    if version == 4:
        return (Address(socket.AF_INET, (host, port)),)
    return (Address(socket.AF_INET6, (host, port, 0, 0)),) if "%" not in host else ()


def _odd_literal(host: str, port: int) -> tuple[Address, ...]:
    """Addresses like `0x7f.1`: no name of the public DNS has a last label that begins so."""
    if not host.rsplit(".", 1)[-1][:1].isdigit():
        return ()
    try:
        return _getaddrinfo(host, port, socket.AI_NUMERICHOST)
    except OSError:
        return ()


def _getaddrinfo(host: str, port: int, flags: int = 0) -> tuple[Address, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return tuple(Address(family, sockaddr) for family, _, _, _, sockaddr in found)
