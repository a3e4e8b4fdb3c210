"""S5: the check of addresses at the moment of dialling, in every spelling of an address.

Providers' base URLs are the operator's own and may name any host, this one included; whoever dials
for a caller passes `address_allowed`, and nothing gets past it.
"""

import socket
import time
from collections.abc import Callable

import pytest

from routing.upstreams.addresses import is_public
from routing.upstreams.call import AbortHandle, Call, Limits, Request
from routing.upstreams.dialing import Dialer
from routing.upstreams.door_errors import ConnectFailed, DnsFailed, DoorError
from routing.upstreams.origin import Origin
from routing.upstreams.resolver import Address, Resolver

LITERALS = [
    "127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0",  # noqa: S104 - Nothing is bound.
    "10.0.0.1", "10.255.255.255", "172.16.0.1",
    "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.0.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "0177.0.01",
    "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.0xa9fe",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]",
    "[fd00:ec2::254]", "[ff02::1]", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]",
    "[2002:7f00:1::]", "[2001:db8::1]",
]  # fmt: skip


def a_call() -> Call:
    limits = Limits(connect_s=5, first_byte_s=5, idle_s=5)
    request = Request(b"", b"", is_head=False)
    return Call(request, time.monotonic, time.monotonic() + 10, limits, AbortHandle())


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every address a socket was told to connect to; none of them is reached."""
    found: list[object] = []

    def connect_ex(self: socket.socket, address: object) -> int:
        found.append(address)
        return 111

    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex)
    return found


def dial(url: str, allowed: Callable[[str], bool] | None, resolver: Resolver) -> DoorError:
    dialer = Dialer(resolver=resolver, proxy=None, address_allowed=allowed)
    call = a_call()
    with pytest.raises((ConnectFailed, DnsFailed)) as error:
        dialer.dial(Origin.parse(url), call)
    return error.value


@pytest.mark.parametrize("host", LITERALS)
def test_no_spelling_of_a_private_address_is_dialled(host: str, dialled: list[object]) -> None:
    call = a_call()
    dial(f"http://{host}/v1", is_public, Resolver(call.clock))
    assert dialled == []


def test_without_the_check_these_would_be_dialled(dialled: list[object]) -> None:
    call = a_call()
    for host in ("127.0.0.1", "0x7f000001", "[::ffff:127.0.0.1]"):
        dial(f"http://{host}/v1", None, Resolver(call.clock))
    assert len(dialled) == 3


class Rebinding(Resolver):
    """A name that answers with a public address first and with a private one from then on."""

    def __init__(self) -> None:
        super().__init__(a_call().clock)
        self.answers = ["93.184.216.34", "169.254.169.254", "127.0.0.1"]

    def resolve(self, host: str, port: int, *_: object) -> tuple[Address, ...]:
        answer = self.answers.pop(0)
        return (Address(socket.AF_INET, (answer, port)),)


def test_a_name_that_moves_between_check_and_dial_is_judged_by_what_is_dialled(
    dialled: list[object],
) -> None:
    resolver = Rebinding()
    for _ in range(3):
        dial("http://moving.example/v1", is_public, resolver)
    assert dialled == [("93.184.216.34", 80)]


def test_only_the_allowed_addresses_of_a_name_are_dialled(dialled: list[object]) -> None:
    class Mixed(Resolver):
        def resolve(self, host: str, port: int, *_: object) -> tuple[Address, ...]:
            hosts = ("10.0.0.1", "93.184.216.34", "192.168.0.1")
            return tuple(Address(socket.AF_INET, (found, port)) for found in hosts)

    dial("http://mixed.example/v1", is_public, Mixed(a_call().clock))
    assert dialled == [("93.184.216.34", 80)]
