"""S5: the check of addresses at the moment of dialling, in every spelling of an address.

Providers' base URLs are the operator's own and may name any host, this one included. Whoever dials
for a caller passes `address_allowed`, and nothing gets past it. No URL of a model's, a caller's or
an intern's leads to a private address, nor does a site's redirect, whatever the name resolves to.
"""

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from gateway.http.errors import InvalidRequest
from gateway.outbound import dialing, doors
from gateway.outbound.dialing import Address, Dialer, Resolver
from gateway.outbound.doors import is_public
from gateway.outbound.errors import ConnectFailed, DnsFailed, OutboundError
from gateway.outbound.exchange import AbortHandle, Exchange, Limits, Origin, Request
from routing.plugins.file_parser import read_text
from routing.tools.web.fetch import WebFetch
from tests.interns.outbound.door import open_door
from tests.interns.outbound.site import serve_site
from tests.routing.tools.made import context
from tests.support.web_site import WebSite, serve_web_site

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


def a_call() -> Exchange:
    limits = Limits(connect_s=5, first_byte_s=5, idle_s=5)
    request = Request(b"", b"", is_head=False)
    return Exchange(request, time.monotonic, time.monotonic() + 10, limits, AbortHandle())


@pytest.fixture
def dialled_addresses(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every address a socket was told to connect to; none of them is reached."""
    found: list[object] = []

    def connect_ex(self: socket.socket, address: object) -> int:
        found.append(address)
        return 111

    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex)
    return found


def dial(url: str, allowed: Callable[[str], bool] | None, resolver: Resolver) -> OutboundError:
    dialer = Dialer(resolver=resolver, proxy=None, address_allowed=allowed)
    call = a_call()
    with pytest.raises((ConnectFailed, DnsFailed)) as error:
        dialer.dial(Origin.parse(url), call)
    return error.value


@pytest.mark.parametrize("host", LITERALS)
def test_no_spelling_of_a_private_address_is_dialled(
    host: str, dialled_addresses: list[object]
) -> None:
    call = a_call()
    dial(f"http://{host}/v1", is_public, Resolver(call.clock))
    assert dialled_addresses == []


def test_without_the_check_these_would_be_dialled(dialled_addresses: list[object]) -> None:
    call = a_call()
    for host in ("127.0.0.1", "0x7f000001", "[::ffff:127.0.0.1]"):
        dial(f"http://{host}/v1", None, Resolver(call.clock))
    assert len(dialled_addresses) == 3


class Rebinding(Resolver):
    """A name that answers with a public address first and with a private one from then on."""

    def __init__(self) -> None:
        super().__init__(a_call().clock)
        self.answers = ["93.184.216.34", "169.254.169.254", "127.0.0.1"]

    def resolve(self, host: str, port: int, *_: object) -> tuple[Address, ...]:
        answer = self.answers.pop(0)
        return (Address(socket.AF_INET, (answer, port)),)


def test_a_name_that_moves_between_check_and_dial_is_judged_by_what_is_dialled(
    dialled_addresses: list[object],
) -> None:
    resolver = Rebinding()
    for _ in range(3):
        dial("http://moving.example/v1", is_public, resolver)
    assert dialled_addresses == [("93.184.216.34", 80)]


def test_only_the_allowed_addresses_of_a_name_are_dialled(dialled_addresses: list[object]) -> None:
    class Mixed(Resolver):
        def resolve(self, host: str, port: int, *_: object) -> tuple[Address, ...]:
            hosts = ("10.0.0.1", "93.184.216.34", "192.168.0.1")
            return tuple(Address(socket.AF_INET, (found, port)) for found in hosts)

    dial("http://mixed.example/v1", is_public, Mixed(a_call().clock))
    assert dialled_addresses == [("93.184.216.34", 80)]


# --- `router:web_fetch`, the files of requests, and the doors of interns --------------------------

PUBLIC = "93.184.216.34"
NOT_THERE = "url_not_accessible"
Refused = Callable[[str], str]


@pytest.fixture(scope="module")
def running_web_site() -> Iterator[WebSite]:
    with serve_web_site() as site:
        yield site
    for private in ((), ("any",)):
        doors.door_for("any", private=private).close_idle()


@pytest.fixture
def site(running_web_site: WebSite, settings: Any) -> WebSite:
    settings.ROUTER_FETCH_PRIVATE_HOSTS = frozenset({"site.example"})
    running_web_site.met.clear()
    return running_web_site


@pytest.fixture
def asked_to_dial(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a socket was told to connect to."""
    found: list[Any] = []
    connect_ex = socket.socket.connect_ex

    def note_address(self: socket.socket, address: Any) -> int:
        found.append(address)
        return 111 if address[0] == PUBLIC else connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect_ex", note_address)
    return found


class Names:
    """A resolver of our own: what each name comes to, one answer after the other."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = {name.replace("_", "."): given for name, given in answers.items()}

    def resolve(self, host: str, port: int, *_: object) -> tuple[Address, ...]:
        answers = self._answers[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        family = socket.AF_INET6 if ":" in found else socket.AF_INET
        return (Address(family, (found, port)),)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Any:
    def answering(**answers: list[str]) -> None:
        resolver = Names(site_example=["127.0.0.1"], **answers)
        monkeypatch.setattr(
            Resolver, "resolve", lambda self, host, port, *more: resolver.resolve(host, port)
        )

    return answering


def _page_refused(url: str, **parameters: Any) -> str:
    result = WebFetch(parameters).run({"url": url}, context())
    assert result.failed, result.text
    code: str = result.block["error_code"]
    assert json.loads(result.text)["error"]
    return code


def _file_refused(url: str) -> str:
    """By the codes of the other."""
    with pytest.raises(InvalidRequest) as error:
        read_text(url, time.monotonic() + 30, chars_max=100)
    is_judged = "not one of the public Internet" in error.value.text
    return "url_not_allowed" if is_judged or "not fetched" in error.value.text else NOT_THERE


@pytest.fixture(params=[_page_refused, _file_refused], ids=["page", "file"])
def refusal(request: pytest.FixtureRequest) -> Refused:
    chosen: Refused = request.param
    return chosen


def test_no_spelling_leads_there(refusal: Refused, asked_to_dial: list[Any]) -> None:
    for host in LITERALS:
        assert refusal(f"http://{host}/") in ("url_not_allowed", NOT_THERE), host
        assert asked_to_dial == [], host


@pytest.mark.parametrize("status", [301, 307])
def test_nor_is_one_that_a_site_redirects_to(
    refusal: Refused, site: WebSite, names: Any, asked_to_dial: list[Any], status: int
) -> None:
    # Only names of our own go to our resolver; addresses are what they are.
    original = Resolver.resolve
    names()
    own = Resolver.resolve

    def resolve(self: Resolver, name: str, port: int, *more: Any) -> Any:
        chosen = own if name == "site.example" else original
        return chosen(self, name, port, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Resolver, "resolve", resolve)
        for host in LITERALS:
            to = quote(f"http://{host}/latest", safe="")
            code = refusal(f"http://site.example:{site.port}/to?status={status}&url={to}")
            assert code in ("url_not_allowed", NOT_THERE), host
            assert [address for address in asked_to_dial if address[1] != site.port] == [], host

    assert len(site.met) == len(LITERALS)


@pytest.mark.parametrize("second", ["127.0.0.1", "169.254.169.254", "::1", "fd00::1"])
def test_a_name_that_moves_is_judged_by_what_is_dialled(
    refusal: Refused, names: Any, asked_to_dial: list[Any], second: str
) -> None:
    names(moving_example=[PUBLIC, second])

    assert refusal("http://moving.example/") == NOT_THERE
    assert refusal("http://moving.example/") == "url_not_allowed"

    assert [address[0] for address in asked_to_dial] == [PUBLIC]


def test_a_redirect_to_the_own_name_is_resolved_and_judged_anew(
    refusal: Refused, site: WebSite, names: Any, asked_to_dial: list[Any]
) -> None:
    """The operator's leave is for the one host, not for where it sends its readers."""
    names(other_example=["127.0.0.1"])
    to = quote(f"http://other.example:{site.port}/plain", safe="")

    assert refusal(f"http://site.example:{site.port}/to?url={to}") == "url_not_allowed"
    assert site.met == [f"/to?url={to}"]


def test_private_hosts_are_the_operators_alone(site: WebSite, names: Any) -> None:
    names()
    url = f"http://site.example:{site.port}/plain"

    assert not WebFetch({}).run({"url": url}, context()).failed
    assert read_text(url, time.monotonic() + 30, chars_max=100).text
    assert _page_refused(url, allowed_domains=["else.example"]) == "url_not_allowed"


def test_the_door_has_no_proxy() -> None:
    assert doors.door_for("a.example", private=())._proxy is None
    assert isinstance(doors.door_for("a.example", private=())._dialer, dialing.Dialer)


@pytest.mark.django_db
def test_no_door_of_an_intern_leads_there(settings: Any, asked_to_dial: list[Any]) -> None:
    def refusal(**body: Any) -> tuple[int, str]:
        status, said = door.ask(**body)
        return status, said["error"]["metadata"]["reason"]

    with serve_site() as site:
        door = open_door(site)
        for host in LITERALS:
            # Of no address, or a name that nobody knows, it is said that it is not reached.
            allowed = ((403, "target_not_allowed"), (502, "site_unreachable"))
            assert refusal(url=f"http://{host}:8080/", timeout_seconds=1) in allowed, host
        assert asked_to_dial == []
        settings.INTERN_FETCH_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
        for to in (
            "http://169.254.169.254/latest/meta-data",
            "http://[::1]/",
            "http://0x7f.1:8080/",
        ):
            told = refusal(url=f"{site.url}/redirect?to={to}")
            assert told == (403, "target_not_allowed"), to
        assert len(site.met) == 3
