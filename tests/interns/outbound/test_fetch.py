"""POST /interns/{id}/fetch: what goes out, what comes back, and what is refused."""

import base64
import json
import logging
import socket
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest

from interns.models import Intern, Status, VaultSecret
from interns.outbound import views
from interns.vault.service import delete_intern_vault, put_managed
from routing.fetching import doors
from routing.upstreams import dialing, resolver
from routing.upstreams.resolver import Address
from tests.interns.outbound.door import VALUE, Door
from tests.interns.outbound.site import Site, serve_site
from tests.interns.vault.team import SHARED, of, vault_of

pytestmark = pytest.mark.django_db
SAY = {"X-Say": "{{secret:token}}"}


def test_a_page_is_handed_on(door: Door, site: Site) -> None:
    said = door.fetch("/a?b=c d&e=%20#part", headers={"X-One": "1"})
    assert json.loads(said.pop("body"))["headers"]["x-one"] == "1"
    assert said.pop("headers")["content-type"] == "application/json"
    assert said == {
        "status": 200,
        "url": f"{site.url}/a?b=c%20d&e=%20",
        "body_base64": None,
        "truncated": False,
        "redirects": [],
        "secrets": [],
    }
    assert site.met[0].headers["accept-encoding"] == "identity"


def test_every_method(door: Door, site: Site) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        body = "hello" if method in {"POST", "PUT", "PATCH"} else None
        said = door.fetch(method=method, body=body)
        assert said["status"] == 200
        assert (site.met[-1].method, site.met[-1].body) == (method, (body or "").encode())
        assert (said["body"] == "") is (method == "HEAD")


def test_bytes_go_and_come_as_base64(door: Door, site: Site) -> None:
    sent = base64.b64encode(b"\x00\x01{{secret:token}}").decode()
    said = door.fetch("/bytes", method="POST", body_base64=sent)
    assert said["body"] is None
    assert base64.b64decode(said["body_base64"]) == b"\x00\xff\x00\x01{{secret:token}}"


# --- Secrets on their way out --------------------------------------------------------------------


def test_a_secret_stands_in_header_path_query_and_body(door: Door, site: Site) -> None:
    door.keep("token")
    said = door.fetch(
        "/bot{{secret:token}}/x?k={{ secret:token }}",
        method="POST",
        headers={
            "Authorization": "Bearer {{secret:token}}",
            "X-Basic": "Basic {{basic:me:token}}",
            "Content-Type": "application/json; charset=utf-8",
        },
        body='{"token": "{{secret:token}}"}',
    )
    met = site.met[0]
    assert met.path == "/botcanary%2F%C3%A4%22value%2B%26%3D1/x?k=canary%2F%C3%A4%22value%2B%26%3D1"
    assert met.headers["authorization"] == f"Bearer {VALUE}"
    assert base64.b64decode(met.headers["x-basic"][6:]).decode() == f"me:{VALUE}"
    assert json.loads(met.body) == {"token": VALUE}
    assert said["secrets"] == ["token"]
    assert "canary" not in json.dumps(said)


def test_in_a_form_it_is_form_encoded_and_else_as_it_is(door: Door, site: Site) -> None:
    door.keep("token", "a b&c")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    door.fetch(method="POST", headers=form, body="t={{secret:token}}")
    door.fetch(method="POST", body="t={{secret:token}}")
    assert [met.body for met in site.met] == [b"t=a+b%26c", b"t=a b&c"]


def test_what_the_site_says_back_holds_no_value(door: Door) -> None:
    door.keep("token")
    said = door.fetch("/spelled", headers=SAY)
    told = json.dumps(said, ensure_ascii=False)
    assert "canary" not in told
    assert "[secret:token]" in said["body"]
    assert said["headers"]["x-said"] == said["headers"]["set-cookie"] == "[secret:token]"
    for shape in (VALUE.encode().hex(), base64.b64encode(VALUE.encode()).decode()[:-4]):
        assert shape not in told


def test_however_it_says_it(door: Door) -> None:
    door.keep("token", "canary-" * 40)
    for path in ("/drip", "/zipped", "/bytes", "/unquoted?{{secret:token}}"):
        said = door.fetch(path, method="POST", body="<{{secret:token}}>" * 3)
        raw = (said["body"] or "").encode() + base64.b64decode(said["body_base64"] or "")
        assert b"canary" not in raw, path
        assert b"[secret:token]" in raw, path
    # The site may have remembered it from an earlier request.
    assert "canary" not in json.dumps(door.fetch(f"/?{'canary-' * 40}"))


def test_a_body_that_is_cut_shows_no_half_of_a_value(door: Door) -> None:
    door.keep("token", "canary-" * 100)
    for keep in (995, 1000, 1350):
        asked = {"method": "POST", "body": "{{secret:token}}", "max_bytes": keep}
        said = door.fetch("/large?bytes=1000", **asked)
        assert said["truncated"] is (keep <= 1000)
        assert "can" not in said["body"]
        assert len(said["body"]) <= keep


def test_a_secret_goes_to_its_exact_hosts_alone_and_over_tls(door: Door, site: Site) -> None:
    door.keep("token", hosts=["localhost", "api.example.com"])
    told = door.refused(403, "secret_not_released", url=site.url, headers=SAY)
    assert told == "The secret token is not released to 127.0.0.1"
    for host in ("sub.localhost", "host"):
        url = f"http://{host}:{site.port}/"
        door.refused(403, "secret_not_released", url=url, headers=SAY)
    told = door.refused(403, "secret_not_released", url="http://api.example.com/", headers=SAY)
    assert told == "The secret token is not released to api.example.com over plain http"
    assert site.met == []
    for url in (site.named, f"http://LOCALHOST.:{site.port}"):
        assert door.fetch(url, headers=SAY)["secrets"] == ["token"]


def test_over_tls_it_reaches_a_host_of_the_internet(
    door: Door,
    server_tls: ssl.SSLContext,
    trusting: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name stands for one out there; the guard, which would refuse this machine, is away."""
    monkeypatch.setattr(dialing, "default_tls_context", lambda: trusting)
    monkeypatch.setattr(doors, "_guarded", doors._open)
    door.keep("token", hosts=["upstream.example"])
    with serve_site(server_tls) as site:
        here = (Address(socket.AF_INET, ("127.0.0.1", site.port)),)
        monkeypatch.setattr(resolver, "_getaddrinfo", lambda *_: here)
        said = door.fetch(f"https://upstream.example:{site.port}/spelled", headers=SAY)
        other = f"https://other.example:{site.port}"
        door.refused(502, "site_unreachable", url=other, timeout_seconds=2)
        doors._open().close_idle()
    assert site.met[0].headers["x-say"] == VALUE
    assert (len(site.met), said["secrets"]) == (1, ["token"])
    assert "canary" not in json.dumps(said)


def test_the_winner_alone_counts(door: Door, site: Site) -> None:
    """The workspace's would fit the host, but the intern has one of its own by that name."""
    door.keep("token", "shared")
    door.keep("token", "own", ["localhost"], place=of(door.intern))
    door.refused(403, "secret_not_released", url=site.url, headers=SAY)
    door.fetch(site.named, headers=SAY)
    assert site.met[0].headers["x-say"] == "own"


def test_secrets_that_are_not_there(door: Door, site: Site) -> None:
    told = door.refused(404, "secret_unknown", url=site.url, headers=SAY)
    assert told == "The intern has no secret token"
    door.refused(404, "secret_unknown", url=site.url, body="{{basic:u:token}}", method="POST")
    # Names of the gateway's own are none that anybody can write.
    put_managed(door.intern.pk, "router_api_key", "sk-own", ["127.0.0.1"])
    asked = {"url": site.url, "method": "PUT", "body": "{{secret:_router_api_key}}"}
    door.refused(404, "secret_unknown", **asked)
    assert site.met == []


def test_when_the_attached_vault_is_gone_nothing_is_released(door: Door, site: Site) -> None:
    lender = door.team.intern("lender")
    Intern.objects.filter(pk=door.intern.pk).update(attached_vault_id=vault_of(lender).pk)
    door.keep("token")
    assert door.fetch(headers=SAY)["secrets"] == ["token"]
    delete_intern_vault(lender.pk)
    door.refused(404, "not_found", url=site.url, headers=SAY)
    assert door.fetch()["status"] == 200


def test_a_value_that_no_header_carries(door: Door, site: Site) -> None:
    door.keep("token", "two\r\nX-Evil: lines")
    told = door.refused(403, "secret_not_released", url=site.url, headers=SAY)
    assert told == "The secret token holds characters that no header can carry"
    door.keep("token", "with a last line break\n")
    door.fetch(headers=SAY)
    assert [met.headers["x-say"] for met in site.met] == ["with a last line break"]


# --- Redirects -----------------------------------------------------------------------------------


def test_redirects_are_followed_and_told(door: Door, site: Site) -> None:
    said = door.fetch("/redirect?to=/redirect%3Fto%3D%2Fend", headers={"Cookie": "c"})
    assert (said["url"], len(said["redirects"])) == (f"{site.url}/end", 2)
    assert [met.headers.get("cookie") for met in site.met] == ["c", "c", "c"]
    said = door.fetch("/redirect?to=/end", follow_redirects=False)
    assert (said["status"], said["redirects"]) == (302, [])


def test_what_is_bound_to_one_host_does_not_follow_to_another(door: Door, site: Site) -> None:
    door.keep("token")
    headers = SAY | {"Authorization": "Bearer plain", "Cookie": "plain", "X-Kept": "kept"}
    door.fetch(f"/redirect?to={site.named}/end", headers=headers)
    first, last = site.met
    assert first.headers["x-say"] == VALUE
    assert {"x-say", "authorization", "cookie"} & set(last.headers) == set()
    assert last.headers["x-kept"] == "kept"


def test_a_redirect_names_no_secrets_of_the_intern_s(door: Door, site: Site) -> None:
    """A site must not get the door to put one into a URL of its choice."""
    door.keep("token")
    said = door.fetch("/redirect?to=/end%3F%7B%7Bsecret%3Atoken%7D%7D")
    assert site.met[-1].path == "/end?%7B%7Bsecret:token%7D%7D"
    assert said["secrets"] == []


def test_a_body_with_a_secret_goes_nowhere_else(door: Door, site: Site) -> None:
    door.keep("token")
    path = f"/redirect?status=307&to={site.named}/end"
    said = door.fetch(path, method="POST", body="{{secret:token}}")
    assert (said["status"], len(site.met)) == (307, 1)
    said = door.fetch(path, method="POST", body="plain")
    assert (said["status"], site.met[-1].body) == (200, b"plain")
    said = door.fetch(path.replace("307", "303"), method="POST", body="{{secret:token}}")
    assert (site.met[-1].method, site.met[-1].body) == ("GET", b"")


def test_a_chain_has_an_end(door: Door, site: Site) -> None:
    url = f"{site.url}/redirect?to=/redirect"
    site_url = f"{site.url}/redirect?to="
    for _ in range(6):
        url = site_url + url.replace("%", "%25").replace("&", "%26").replace("?", "%3F")
    status, said = door.ask(url=url)
    assert (status, said["error"]["message"]) == (502, "More than 5 redirects")
    assert len(site.met) == 6


# --- Bounds --------------------------------------------------------------------------------------


def test_time_is_bounded(door: Door, site: Site) -> None:
    said = door.refused(504, "timeout", url=f"{site.url}/silent", timeout_seconds=0.3)
    assert said == "The site took too long"
    said = door.fetch("/endless", timeout_seconds=0.5, max_bytes=5_000_000)
    assert said["truncated"] is True
    assert set(said["body"]) == {"z"}


def test_size_is_bounded(door: Door, site: Site) -> None:
    said = door.fetch("/large?bytes=3000000")
    assert (len(said["body"]), said["truncated"]) == (1_048_576, True)
    said = door.fetch("/large?bytes=1000", max_bytes=1000)
    assert (len(said["body"]), said["truncated"]) == (1000, False)
    said = door.fetch("/bomb", max_bytes=1000)
    assert said["truncated"] is True


def test_a_site_that_breaks_off(door: Door, site: Site) -> None:
    told = door.refused(502, "site_unreachable", url=f"{site.url}/cut")
    assert told.startswith("The site failed: ")
    told = door.refused(502, "site_unreachable", url="http://127.0.0.1:1024/")
    assert "127.0.0.1:1024" in told


WRONG: list[dict[str, Any]] = [
    *({"url": 1}, {"url": ""}, {"url": "http://a.b/" + "a" * 8192}),
    *({"extra": 1}, {"method": "TRACE"}),
    *({"headers": {name: "c"}} for name in ("Host", "range", "Transfer-Encoding", "a b")),
    *({"headers": {"X-One": value}} for value in ("a\r\nX-Two: b", "€")),
    {"headers": {f"x{number}": "1" for number in range(65)}},
    *({"max_bytes": bound} for bound in (0, 5_242_881)),
    *({"timeout_seconds": bound} for bound in (0, 30.5)),
    *({"body": "a", "body_base64": "YQ=="}, {"body_base64": "*"}),
]


def test_bodies_are_strict(door: Door, site: Site) -> None:
    door.refused(400, "invalid_body")
    for body in WRONG:
        door.refused(400, "invalid_body", **{"url": site.url, **body})
    assert site.met == []


def test_a_rate_holds_for_each_intern(door: Door, site: Site, settings: Any) -> None:
    settings.INTERN_FETCH_RPM = 2
    door.fetch()
    door.fetch()
    status, said = door.ask(url=site.url)
    assert (status, said["error"]["metadata"]["reason"]) == (429, "rate_limited")


def test_four_at_once(door: Door, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(views._under_way, door.intern.pk, 4)
    door.refused(429, "rate_limited", url=site.url)
    monkeypatch.setitem(views._under_way, door.intern.pk, 3)
    door.fetch()
    assert views._under_way[door.intern.pk] == 3


# --- Who may -------------------------------------------------------------------------------------


def test_only_the_intern_s_own_key_sends_in_its_name(door: Door, site: Site) -> None:
    for key, status in (("owner", 403), ("boss", 403), ("management", 401), ("wrong", 401)):
        assert door.ask(url=site.url, key=key)[0] == status
    _, own = door.team.running("second")
    assert door.ask(url=site.url, key=own)[0] == 404
    assert site.met == []


def test_only_while_it_runs(door: Door, site: Site) -> None:
    for status in (Status.STOPPED, Status.FAILED):
        Intern.objects.filter(pk=door.intern.pk).update(status=status)
        door.refused(409, "intern_not_ready", url=site.url)


def test_logs_name_secrets_and_hosts_and_nothing_more(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    door.keep("token", "canary-value")
    door.fetch("/canary-path?{{secret:token}}", method="POST", headers=SAY, body="canary-body")
    told = [each.getMessage() for each in caplog.records if each.name == "gateway.interns"]
    assert told == [f"Intern {door.intern.pk}: POST to 127.0.0.1, secrets: token"]
    assert "canary" not in caplog.text


def test_more_and_longer_secrets_than_can_be_looked_for(door: Door) -> None:
    for number in range(4):
        door.keep(f"s{number}", "v" * 65_536)
    assert door.fetch()["status"] == 200
    door.keep("one_more", "v")
    told = door.refused(403, "secret_not_released", url=door.site.url)
    assert told == "The secrets bound to 127.0.0.1 are too long together"

    now = datetime.now(UTC)
    more = {"vault": vault_of(door.intern), "hosts": ["127.0.0.1"]}
    more |= {"created_at": now, "updated_at": now}
    VaultSecret.objects.bulk_create(VaultSecret(name=f"o{n}", **more) for n in range(200))
    told = door.refused(403, "secret_not_released", url=door.site.url)
    assert told == "More than 200 secrets are bound to 127.0.0.1"
    assert door.team.names(f"{SHARED}?limit=1")


def test_what_came_in_time_is_told(door: Door) -> None:
    """A slow stream of little, part of which may be half a value."""
    door.keep("token", "canary-value")
    said = door.fetch("/slowly?canary-val", timeout_seconds=0.3)
    assert said["truncated"] is True
    assert "word" in said["body"]
    assert "can" not in said["body"]
