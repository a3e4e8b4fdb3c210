"""S5 for `router:web_fetch` and the files of requests: no URL of a model's or a caller's, and no
redirect of a site's, leads to a private address, whatever its spelling and whatever its name comes
to."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from gateway.http.errors import InvalidRequest
from routing.fetching import doors
from routing.plugins.files import text_of
from routing.tools.web.fetch import WebFetch
from routing.upstreams import dialing
from routing.upstreams.resolver import Address, Resolver
from tests.faults.test_s5_addresses import LITERALS
from tests.routing.tools.made import context
from tests.support.web_site import WebSite, serve_web_site

PUBLIC = "93.184.216.34"
NOT_THERE = "url_not_accessible"
Refused = Callable[[str], str]


@pytest.fixture(scope="module")
def running_web_site() -> Iterator[WebSite]:
    with serve_web_site() as site:
        yield site
    for door in (doors._guarded(), doors._open()):
        door.close_idle()


@pytest.fixture
def site(running_web_site: WebSite, settings: Any) -> WebSite:
    settings.ROUTER_FETCH_PRIVATE_HOSTS = frozenset({"site.example"})
    running_web_site.met.clear()
    return running_web_site


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a socket was told to connect to."""
    found: list[Any] = []
    connect_ex = socket.socket.connect_ex

    def noted(self: socket.socket, address: Any) -> int:
        found.append(address)
        return 111 if address[0] == PUBLIC else connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect_ex", noted)
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
        text_of(url, time.monotonic() + 30, chars_max=100)
    is_judged = "not one of the public Internet" in error.value.text
    return "url_not_allowed" if is_judged or "not fetched" in error.value.text else NOT_THERE


@pytest.fixture(params=[_page_refused, _file_refused], ids=["page", "file"])
def refused(request: pytest.FixtureRequest) -> Refused:
    chosen: Refused = request.param
    return chosen


@pytest.mark.parametrize("host", LITERALS)
def test_no_spelling_of_a_private_address_is_dialled(
    refused: Refused, host: str, dialled: list[Any]
) -> None:
    assert refused(f"http://{host}/") in ("url_not_allowed", NOT_THERE)
    assert dialled == []


@pytest.mark.parametrize("host", LITERALS)
@pytest.mark.parametrize("status", [301, 307])
def test_nor_is_one_that_a_site_redirects_to(
    refused: Refused, site: WebSite, names: Any, dialled: list[Any], host: str, status: int
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
        to = quote(f"http://{host}/latest", safe="")
        code = refused(f"http://site.example:{site.port}/to?status={status}&url={to}")

    assert code in ("url_not_allowed", NOT_THERE)
    assert [address for address in dialled if address[1] != site.port] == []
    assert len(site.met) == 1


@pytest.mark.parametrize("second", ["127.0.0.1", "169.254.169.254", "::1", "fd00::1"])
def test_a_name_that_moves_is_judged_by_what_is_dialled(
    refused: Refused, names: Any, dialled: list[Any], second: str
) -> None:
    names(moving_example=[PUBLIC, second])

    assert refused("http://moving.example/") == NOT_THERE
    assert refused("http://moving.example/") == "url_not_allowed"

    assert [address[0] for address in dialled] == [PUBLIC]


def test_a_redirect_to_the_own_name_is_resolved_and_judged_anew(
    refused: Refused, site: WebSite, names: Any, dialled: list[Any]
) -> None:
    """The operator's leave is for the one host, not for where it sends its readers."""
    names(other_example=["127.0.0.1"])
    to = quote(f"http://other.example:{site.port}/plain", safe="")

    assert refused(f"http://site.example:{site.port}/to?url={to}") == "url_not_allowed"
    assert site.met == [f"/to?url={to}"]


def test_private_hosts_are_the_operators_alone(site: WebSite, names: Any) -> None:
    names()
    url = f"http://site.example:{site.port}/plain"

    assert not WebFetch({}).run({"url": url}, context()).failed
    assert text_of(url, time.monotonic() + 30, chars_max=100).text
    assert _page_refused(url, allowed_domains=["else.example"]) == "url_not_allowed"


def test_the_door_has_no_proxy() -> None:
    assert doors.door_for("a.example", private=())._proxy is None
    assert isinstance(doors.door_for("a.example", private=())._dialer, dialing.Dialer)
