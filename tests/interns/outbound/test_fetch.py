"""POST /interns/{id}/fetch: what goes out, what comes back, and what is refused."""

import base64
import json
import logging
import socket
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.outbound import dialing, doors
from gateway.outbound.dialing import Address
from interns.models import Intern, Status, VaultSecret
from interns.vault.service import delete_intern_vault, put_managed
from interns.views import outbound as views
from tests.interns.outbound.door import VALUE, Door
from tests.interns.outbound.site import Site, serve_site
from tests.interns.vault.team import SHARED, vault_of, vault_path

pytestmark = pytest.mark.django_db
SAY = {"X-Say": "{{secret:token}}"}


def test_a_page_is_handed_on(door: Door, site: Site) -> None:
    said = door.fetch("/a?b=c d&e=%20#part", headers={"X-One": "1"})
    assert json.loads(said.pop("body"))["headers"]["x-one"] == "1"
    assert said.pop("headers")["content-type"] == "application/json"
    url = f"{site.url}/a?b=c%20d&e=%20"
    told = {"status": 200, "url": url, "body_base64": None, "truncated": False}
    assert said == told | {"redirects": [], "secrets": []}
    assert site.met[0].headers["accept-encoding"] == "identity"


def test_every_method_and_bytes_as_base64(door: Door, site: Site) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        body = "hello" if method in {"POST", "PUT", "PATCH"} else None
        said = door.fetch(method=method, body=body)
        assert said["status"] == 200
        assert (site.met[-1].method, site.met[-1].body) == (method, (body or "").encode())
        assert (said["body"] == "") is (method == "HEAD")
    sent = base64.b64encode(b"\x00\x01{{secret:token}}").decode()
    said = door.fetch("/bytes", method="POST", body_base64=sent)
    assert said["body"] is None
    assert base64.b64decode(said["body_base64"]) == b"\x00\xff\x00\x01{{secret:token}}"


# --- Secrets on their way out --------------------------------------------------------------------


def test_a_secret_stands_in_header_path_query_and_body(door: Door, site: Site) -> None:
    door.keep("token")
    headers = {
        "Authorization": "Bearer {{secret:token}}",
        "X-Basic": "Basic {{basic:me:token}}",
        "Content-Type": "application/json; charset=utf-8",
    }
    path, body = "/bot{{secret:token}}/x?k={{ secret:token }}", '{"token": "{{secret:token}}"}'
    said = door.fetch(path, method="POST", headers=headers, body=body)
    met = site.met[0]
    assert met.path == "/botcanary%2F%C3%A4%22value%2B%26%3D1/x?k=canary%2F%C3%A4%22value%2B%26%3D1"
    assert met.headers["authorization"] == f"Bearer {VALUE}"
    assert base64.b64decode(met.headers["x-basic"][6:]).decode() == f"me:{VALUE}"
    assert json.loads(met.body) == {"token": VALUE}
    assert said["secrets"] == ["token"]
    assert "canary" not in json.dumps(said)

    # In a form it is form-encoded, and else as it is.
    door.keep("token", "a b&c")
    for headers in ({"Content-Type": "application/x-www-form-urlencoded"}, {}):
        door.fetch(method="POST", body="t={{secret:token}}", headers=headers)
    assert [met.body for met in site.met[1:]] == [b"t=a+b%26c", b"t=a b&c"]


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
    # Nor does a slow stream of little, of which is told what came in time.
    door.keep("token", "canary-value")
    said = door.fetch("/slowly?canary-val", timeout_seconds=0.6)
    assert (said["truncated"], "word" in said["body"], "can" in said["body"]) == (True, True, False)


def test_a_secret_goes_to_its_exact_hosts_alone_and_over_tls(door: Door, site: Site) -> None:
    door.keep("token", hosts=["localhost", "api.example.com"])
    for url, over in (
        *((f"http://{host}:{site.port}/", "") for host in ("127.0.0.1", "sub.localhost", "host")),
        ("http://api.example.com/", " over plain http"),
    ):
        told = door.expect_refusal(403, "secret_not_released", url=url, headers=SAY)
        host = url.split("/")[2].partition(":")[0]
        assert told == f"The secret token is not released to {host}{over}"
    assert site.met == []
    for url in (site.named_url, f"http://LOCALHOST.:{site.port}"):
        assert door.fetch(url, headers=SAY)["secrets"] == ["token"]


def test_over_tls_it_reaches_a_host_of_the_internet(
    door: Door,
    server_tls: ssl.SSLContext,
    trusting: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name stands for one out there; the guard, which would refuse this machine, is away."""
    monkeypatch.setattr(dialing, "default_tls_context", lambda: trusting)
    monkeypatch.setattr(doors, "is_public", lambda host: True)
    door.keep("token", hosts=["upstream.example"])
    with serve_site(server_tls) as site:
        here = (Address(socket.AF_INET, ("127.0.0.1", site.port)),)
        monkeypatch.setattr(dialing, "_getaddrinfo", lambda *_: here)
        said = door.fetch(f"https://upstream.example:{site.port}/spelled", headers=SAY)
        other = f"https://other.example:{site.port}"
        door.expect_refusal(502, "site_unreachable", url=other, timeout_seconds=2)
        doors.door_for("upstream.example", private=()).close_idle()
    assert site.met[0].headers["x-say"] == VALUE
    assert (len(site.met), said["secrets"]) == (1, ["token"])
    assert "canary" not in json.dumps(said)


def test_the_winner_alone_counts(door: Door, site: Site) -> None:
    """The workspace's would fit the host, but the intern has one of its own by that name."""
    door.keep("token", "shared")
    door.keep("token", "own", ["localhost"], place=vault_path(door.intern))
    door.expect_refusal(403, "secret_not_released", url=site.url, headers=SAY)
    door.fetch(site.named_url, headers=SAY)
    assert site.met[0].headers["x-say"] == "own"


def test_secrets_that_are_not_there(door: Door, site: Site) -> None:
    told = door.expect_refusal(404, "secret_unknown", url=site.url, headers=SAY)
    assert told == "The intern has no secret token"
    # Names of the gateway's own are none that anybody can write.
    put_managed(door.intern.pk, "router_api_key", "sk-own", ["127.0.0.1"])
    for body in ("{{basic:u:token}}", "{{secret:_router_api_key}}"):
        door.expect_refusal(404, "secret_unknown", url=site.url, body=body, method="POST")
    assert site.met == []

    # Nor is any released when the attached vault is gone.
    lender = door.team.intern("lender")
    Intern.objects.filter(pk=door.intern.pk).update(attached_vault_id=vault_of(lender).pk)
    door.keep("token")
    assert door.fetch(headers=SAY)["secrets"] == ["token"]
    delete_intern_vault(lender.pk)
    door.expect_refusal(404, "not_found", url=site.url, headers=SAY)
    assert door.fetch()["status"] == 200


def test_a_value_that_no_header_carries(door: Door, site: Site) -> None:
    door.keep("token", "two\r\nX-Evil: lines")
    told = door.expect_refusal(403, "secret_not_released", url=site.url, headers=SAY)
    assert told == "The secret token holds characters that no header can carry"
    door.keep("token", "with a last line break\n")
    door.fetch(headers=SAY)
    assert [met.headers["x-say"] for met in site.met] == ["with a last line break"]


def test_more_and_longer_secrets_than_can_be_looked_for(door: Door, site: Site) -> None:
    for number in range(4):
        door.keep(f"s{number}", "v" * 65_536)
    assert door.fetch()["status"] == 200
    door.keep("one_more", "v")
    told = door.expect_refusal(403, "secret_not_released", url=site.url)
    assert told == "The secrets bound to 127.0.0.1 are too long together"
    now = datetime.now(UTC)
    more = {"vault": vault_of(door.intern), "hosts": ["127.0.0.1"]}
    more |= {"created_at": now, "updated_at": now}
    VaultSecret.objects.bulk_create(VaultSecret(name=f"o{n}", **more) for n in range(200))
    told = door.expect_refusal(403, "secret_not_released", url=site.url)
    assert told == "More than 200 secrets are bound to 127.0.0.1"
    assert door.team.names(f"{SHARED}?limit=1")


# --- Redirects -----------------------------------------------------------------------------------


def test_redirects_are_followed_and_told_up_to_five(door: Door, site: Site) -> None:
    said = door.fetch("/redirect?to=/redirect%3Fto%3D%2Fend", headers={"Cookie": "c"})
    assert (said["url"], len(said["redirects"])) == (f"{site.url}/end", 2)
    assert [met.headers.get("cookie") for met in site.met] == ["c", "c", "c"]
    said = door.fetch("/redirect?to=/end", follow_redirects=False)
    assert (said["status"], said["redirects"]) == (302, [])
    site.met.clear()
    url = f"{site.url}/redirect?to=/redirect"
    for _ in range(6):
        quoted = url.replace("%", "%25").replace("&", "%26").replace("?", "%3F")
        url = f"{site.url}/redirect?to={quoted}"
    status, said = door.ask(url=url)
    assert (status, said["error"]["message"]) == (502, "More than 5 redirects")
    assert len(site.met) == 6


def test_what_is_bound_to_one_host_does_not_follow_to_another(door: Door, site: Site) -> None:
    door.keep("token")
    headers = SAY | {"Authorization": "Bearer plain", "Cookie": "plain", "X-Kept": "kept"}
    door.fetch(f"/redirect?to={site.named_url}/end", headers=headers)
    first, last = site.met
    assert first.headers["x-say"] == VALUE
    assert {"x-say", "authorization", "cookie"} & set(last.headers) == set()
    assert last.headers["x-kept"] == "kept"
    # A site must not get the door to put a secret into a URL of its choice.
    said = door.fetch("/redirect?to=/end%3F%7B%7Bsecret%3Atoken%7D%7D")
    assert site.met[-1].path == "/end?%7B%7Bsecret:token%7D%7D"
    assert said["secrets"] == []


def test_a_body_with_a_secret_goes_nowhere_else(door: Door, site: Site) -> None:
    door.keep("token")
    path = f"/redirect?status=307&to={site.named_url}/end"
    said = door.fetch(path, method="POST", body="{{secret:token}}")
    assert (said["status"], len(site.met)) == (307, 1)
    said = door.fetch(path, method="POST", body="plain")
    assert (said["status"], site.met[-1].body) == (200, b"plain")
    said = door.fetch(path.replace("307", "303"), method="POST", body="{{secret:token}}")
    assert (site.met[-1].method, site.met[-1].body) == ("GET", b"")


# --- Bounds --------------------------------------------------------------------------------------


def test_time_and_size_are_bounded(door: Door, site: Site) -> None:
    said = door.expect_refusal(504, "timeout", url=f"{site.url}/silent", timeout_seconds=0.2)
    assert said == "The site took too long"
    said = door.fetch("/endless", timeout_seconds=0.6, max_bytes=5_000_000)
    assert (said["truncated"], set(said["body"])) == (True, {"z"})
    for path, bound, told in (
        ("/large?bytes=3000000", {}, (1_048_576, True)),
        ("/large?bytes=1000", {"max_bytes": 1000}, (1000, False)),
    ):
        said = door.fetch(path, **bound)
        assert (len(said["body"]), said["truncated"]) == told
    assert door.fetch("/bomb", max_bytes=1000)["truncated"] is True


def test_a_site_that_breaks_off(door: Door, site: Site) -> None:
    told = door.expect_refusal(502, "site_unreachable", url=f"{site.url}/cut")
    assert told.startswith("The site failed: ")
    told = door.expect_refusal(502, "site_unreachable", url="http://127.0.0.1:1024/")
    assert "127.0.0.1:1024" in told


def test_bodies_are_strict(door: Door, site: Site) -> None:
    door.expect_refusal(400, "invalid_body")
    wrong: Any = (
        *({"url": 1}, {"url": ""}, {"url": "http://a.b/" + "a" * 8192}),
        *({"extra": 1}, {"method": "TRACE"}),
        *({"headers": {name: "c"}} for name in ("Host", "range", "Transfer-Encoding", "a b")),
        *({"headers": {"X-One": value}} for value in ("a\r\nX-Two: b", "€")),
        {"headers": {f"x{number}": "1" for number in range(65)}},
        *({"max_bytes": bound} for bound in (0, 5_242_881)),
        *({"timeout_seconds": bound} for bound in (0, 30.5)),
        *({"body": "a", "body_base64": "YQ=="}, {"body_base64": "*"}),
    )
    for body in wrong:
        door.expect_refusal(400, "invalid_body", **{"url": site.url, **body})
    assert site.met == []


def test_rates_hold_for_each_intern(
    door: Door, site: Site, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(views._under_way, door.intern.pk, 4)
    door.expect_refusal(429, "rate_limited", url=site.url)
    monkeypatch.setitem(views._under_way, door.intern.pk, 3)
    door.fetch()
    assert views._under_way[door.intern.pk] == 3
    settings.INTERN_FETCH_RPM = 2
    door.intern, key = door.team.create_running("second")
    for _ in range(2):
        door.fetch(key=key)
    door.expect_refusal(429, "rate_limited", url=site.url, key=key)


# --- Who may -------------------------------------------------------------------------------------


def test_only_the_intern_s_own_key_sends_in_its_name_while_it_runs(door: Door, site: Site) -> None:
    _, second = door.team.create_running("second")
    keys = {"owner": 403, "boss": 403, "management": 401, "wrong": 401, second: 404}
    assert {key: door.ask(url=site.url, key=key)[0] for key in keys} == keys
    for status in (Status.STOPPED, Status.FAILED):
        Intern.objects.filter(pk=door.intern.pk).update(status=status)
        door.expect_refusal(409, "intern_not_ready", url=site.url)
    assert site.met == []


def test_logs_name_secrets_and_hosts_and_nothing_more(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    door.keep("token", "canary-value")
    door.fetch("/canary-path?{{secret:token}}", method="POST", headers=SAY, body="canary-body")
    told = [each.getMessage() for each in caplog.records if each.name == "gateway.interns"]
    assert told == [f"Intern {door.intern.pk}: POST to 127.0.0.1, secrets: token"]
    assert "canary" not in caplog.text
