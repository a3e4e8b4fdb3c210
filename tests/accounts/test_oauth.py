"""Keys for apps by OAuth with PKCE: codes, their exchange, the page, and revoking."""

import hashlib
import re
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from secrets import randbelow
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client

from accounts.models import ApiKey, AuditRecord, AuthorizationCode, Membership
from accounts.services.keys import create_key, delete_keys
from accounts.services.oauth import (
    FAILURES_MAX,
    AppRequest,
    InvalidCode,
    authorize_app,
    exchange_code,
    find_origin,
)
from accounts.services.organization import admit_member
from accounts.services.records import operator_actor
from gateway.limits.limits import MINUTE_S
from tests.accounts.office import Office, open_office
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
CALLBACK = "https://app.example/back?state=1"
VERIFIER = "v" * 43
S256 = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CHALLENGE = {"code_challenge": S256, "code_challenge_method": "S256"}


def new_code(office: Office, **body: Any) -> Any:
    return office.ok("POST", "/auth/keys/code", {"callback_url": CALLBACK} | body)["data"]


def exchange(office: Office, code: str, **body: Any) -> tuple[int, Any]:
    """The status, and the message or the whole body. It takes no credential."""
    found: Any = Client().post(
        "/api/v1/auth/keys", {"code": code} | body, content_type="application/json"
    )
    said = found.json()
    return found.status_code, said["error"]["message"] if "error" in said else said


def make_older(code: str, age: timedelta) -> None:
    rows = AuthorizationCode.objects.filter(code_hash=hashlib.sha256(code.encode()).hexdigest())
    assert rows.update(created_at=datetime.now(UTC) - age)


def test_a_code_becomes_a_key_once(office: Office) -> None:
    code = new_code(office, **CHALLENGE, limit=5, usage_limit_type="daily")

    assert exchange(office, code["id"], code_verifier="w" * 43) == (
        403,
        "Invalid code or code_verifier",
    )
    status, made = exchange(
        office, code["id"], code_verifier=VERIFIER, code_challenge_method="S256"
    )
    assert status == 200
    assert made == {"key": made["key"], "user_id": office.admin.public_id}
    (key,) = office.ok("GET", "/keys")["data"]
    assert key["hash"] == hashlib.sha256(made["key"].encode()).hexdigest()
    assert (key["name"], key["limit"], key["limit_reset"]) == ("app.example", 5, "daily")
    assert key["app_id"] == code["app_id"]
    assert office.status_of(made["key"]) == 200
    again = exchange(office, code["id"], code_verifier=VERIFIER)
    assert again == (403, "Invalid code or code_verifier")
    assert code["id"] not in str(list(AuthorizationCode.objects.values()))


def test_a_code_is_too_old_after_ten_minutes(office: Office) -> None:
    old, young = (new_code(office)["id"] for _ in range(2))
    make_older(old, timedelta(minutes=11))
    make_older(young, timedelta(minutes=9))

    assert exchange(office, old) == (403, "Authorization code expired")
    assert exchange(office, young)[0] == 200


def test_five_failures_use_a_code_up(office: Office) -> None:
    spoilt, saved = (new_code(office, **CHALLENGE)["id"] for _ in range(2))
    for code, tries in ((spoilt, FAILURES_MAX), (saved, FAILURES_MAX - 1)):
        for _ in range(tries):
            assert exchange(office, code)[0] == 403

    assert exchange(office, spoilt, code_verifier=VERIFIER)[0] == 403
    assert exchange(office, saved, code_verifier=VERIFIER)[0] == 200


def test_guesses_from_its_address_keep_no_code_from_being_exchanged(
    office: Office, settings: Any
) -> None:
    settings.RATE_FAILED_TOKENS = 2
    guesses = [f"{number:065d}" for number in range(3)]

    def work() -> None:
        here = Client(REMOTE_ADDR=f"198.18.{randbelow(256)}.{randbelow(256)}")

        def ask(code: str, **more: str) -> int:
            body = {"code": code, "code_verifier": VERIFIER} | more
            path, kind = "/api/v1/auth/keys", "application/json"
            return here.post(path, body, content_type=kind).status_code

        code = new_code(office, **CHALLENGE)["id"]
        assert [ask(each) for each in guesses] == [403, 403, 429]
        assert ask(f"{code[:-1]}{'A' if code[-1] != 'A' else 'B'}") == 429
        # A code that was given out counts by itself, wherever it comes from.
        assert ask(code, code_verifier="w" * 43) == 403
        assert ask(code) == 200
        assert [ask(code), ask(code)] == [403, 429]

    within_one(MINUTE_S, work)


STEPS: list[tuple[Any, Any, int]] = [
    (CHALLENGE, {"code_verifier": VERIFIER, "code_challenge_method": "plain"}, 400),
    (CHALLENGE, {"code_verifier": VERIFIER, "code_challenge_method": "S512"}, 400),
    (CHALLENGE, {"code_verifier": VERIFIER, "code_challenge_method": None}, 200),
    ({"code_challenge": VERIFIER}, {"code_verifier": VERIFIER}, 200),
    ({"code_challenge": S256}, {"code_verifier": VERIFIER}, 403),
    ({}, {"code_challenge_method": "S256"}, 400),
    ({}, {"code_verifier": VERIFIER}, 403),
    ({}, {}, 200),
]


def test_the_second_step_says_what_the_first_said(office: Office) -> None:
    for first, second, status in STEPS:
        got, said = exchange(office, new_code(office, **first)["id"], **second)
        assert got == status, (first, second)
        if status == 400:
            assert said == "Invalid code_challenge_method"


@pytest.mark.django_db(transaction=True)
def test_of_many_exchanges_at_once_one_makes_a_key() -> None:
    office = open_office()
    asked, workspace = AppRequest(callback_url=CALLBACK), office.account.workspaces.get()
    by = operator_actor(office.admin)
    _, code = authorize_app(asked=asked, workspace=workspace, creator=None, by=by)

    def try_it(_: int) -> bool:
        try:
            exchange_code(code=code, verifier=None, method=None)
        except InvalidCode:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_it, range(8))) == 1
    assert ApiKey.objects.filter(app__isnull=False).count() == 1


ODD_CALLBACKS: list[str] = [
    *("http://app.example/", "ftp://localhost/", "https:///x", "javascript:alert(1)", "x"),
    *("https://a@b.example/", "https://b.example\\@a.example/", "https://a.example/ x"),
    *("https://a.example:99999/", "https://é.example/", "https://a;b.example/"),
]


def test_a_callback_is_https_or_local(office: Office) -> None:
    for url in ODD_CALLBACKS:
        said = office.expect_refusal(400, "POST", "/auth/keys/code", {"callback_url": url})
        assert "callback_url" in said, url


def test_an_operator_may_ask_for_the_strong_challenge(office: Office, settings: Any) -> None:
    settings.OAUTH_S256_ONLY = True
    body, browser = {"callback_url": CALLBACK}, sign_in(office)
    plain = {"code_challenge": VERIFIER, "code_challenge_method": "plain"}

    for weak in ({}, {"code_challenge": VERIFIER}, plain):
        refused = office.expect_refusal(400, "POST", "/auth/keys/code", body | weak)
        assert refused == "A code_challenge with code_challenge_method S256 is needed here"
        assert browser.get(page(callback_url=CALLBACK, **weak)).status_code == 400

    assert new_code(office, **CHALLENGE)["id"]
    assert browser.get(page(callback_url=CALLBACK, **CHALLENGE)).status_code == 200


def test_tools_on_any_local_port_are_one_app() -> None:
    assert find_origin("http://127.0.0.1:4711/x") == find_origin("http://127.0.0.1:80")
    assert find_origin("https://App.Example:8443/x") == "https://app.example:8443"


def test_a_key_lets_apps_use_what_it_may_use_itself(office: Office) -> None:
    workspace, team = office.account.workspaces.get(is_default=True), office.workspace("team")
    elsewhere = {"callback_url": CALLBACK, "workspace_id": str(team.pk)}
    free = office.new()["key"]
    assert office.call("POST", "/auth/keys/code", elsewhere, key=free)[0] == 403
    assert new_code(office, workspace_id=str(team.pk))["id"]
    limited = (office.new(limit=1), office.new(expires_at="2090-01-01T00:00:00Z"))
    for made in limited:
        status, said = office.call(
            "POST", "/auth/keys/code", {"callback_url": CALLBACK}, key=made["key"]
        )
        assert (status, "management key" in said["error"]["message"]) == (403, True)
    other = open_office("other").account.workspaces.get()
    refused = office.expect_refusal(
        400, "POST", "/auth/keys/code", elsewhere | {"workspace_id": str(other.pk)}
    )
    assert "no workspace of this account" in refused
    assert workspace.keys.filter(app__isnull=False).count() == 0
    string = exchange(office, new_code(office)["id"])[1]["key"]
    status, said = office.call("POST", "/auth/keys/code", {"callback_url": CALLBACK}, key=string)
    assert (status, "an app's" in said["error"]["message"]) == (403, True)


def test_a_code_dies_with_who_approved_it(office: Office) -> None:
    approver, string = create_key(
        account=office.account, name="a", workspace=office.account.workspaces.get()
    )
    body = {"callback_url": CALLBACK}
    by_key = office.call("POST", "/auth/keys/code", body, key=string)[1]["data"]["id"]
    by_member = new_code(office)["id"]
    delete_keys(keys=ApiKey.objects.filter(pk=approver.pk))
    Membership.objects.filter(user=office.admin).delete()

    assert exchange(office, by_key)[0] == exchange(office, by_member)[0] == 403
    assert not ApiKey.objects.filter(app__isnull=False).exists()


def test_a_code_makes_no_key_where_its_creator_may_have_none_any_more(office: Office) -> None:
    team = new_code(office, workspace_id=str(office.workspace("team").pk))["id"]
    default = new_code(office)["id"]
    Membership.objects.filter(user=office.admin).update(role=Membership.Role.MEMBER)

    assert exchange(office, team)[0] == 403
    assert exchange(office, default)[0] == 200


def test_an_app_is_listed_and_revoked_with_its_keys(office: Office) -> None:
    app = new_code(office)["app_id"]
    strings = [exchange(office, new_code(office)["id"])[1]["key"] for _ in range(2)]
    pending = new_code(office)["id"]

    listed = office.ok("GET", "/auth/apps")
    assert listed["total_count"] == 1
    assert listed["data"][0]["id"] == app
    assert (listed["data"][0]["origin"], listed["data"][0]["active_keys"]) == (
        "https://app.example",
        2,
    )
    assert office.ok("GET", f"/auth/apps/{app}/keys")["total_count"] == 2
    # Each key takes two queries, so it is not asked through the office, which counts them.
    headers = {"Authorization": f"Bearer {office.key}"}
    answer: Any = Client().delete(f"/api/v1/auth/apps/{app}", headers=headers)
    assert answer.json() == {"deleted": True}
    assert [office.status_of(each) for each in strings] == [401, 401]
    assert exchange(office, pending)[0] == 403
    assert office.ok("GET", "/auth/apps")["data"] == []
    assert office.call("GET", f"/auth/apps/{app}")[0] == 404
    actions = AuditRecord.objects.filter(object_type="app").values_list("action", flat=True)
    assert list(actions.order_by("pk")) == ["authorized"] * 4 + ["revoked"]
    assert new_code(office)["app_id"] == app
    assert office.ok("GET", "/auth/apps")["total_count"] == 1


# --- The page -------------------------------------------------------------------------------------


def page(**query: str) -> str:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/auth?{text}"


ASKED = page(callback_url="http://localhost:3000/back", code_challenge=VERIFIER, key_label="CLI")


def sign_in(office: Office) -> Client:
    client = Client()
    client.force_login(office.admin)
    return client


def test_a_person_lets_an_app_have_a_key(office: Office) -> None:
    client = sign_in(office)
    shown: Any = client.get(ASKED)
    text = shown.content.decode()
    assert "localhost:3000" in text
    assert "CLI" in text
    assert shown["Content-Security-Policy"].endswith("form-action 'self' http://localhost:3000")
    assert "no-store" in shown["Cache-Control"]
    workspace = office.account.workspaces.get()

    form = {"decision": "allow", "workspace": workspace.pk, "limit_usd": "2.5", "lifetime": "30"}
    sent: Any = client.post(ASKED, form)
    assert sent.status_code == 302
    assert sent["Location"].startswith("http://localhost:3000/back?code=")
    code = parse_qs(urlsplit(sent["Location"]).query)["code"][0]
    status, made = exchange(office, code, code_verifier=VERIFIER, code_challenge_method="plain")
    assert (status, made["user_id"]) == (200, office.admin.public_id)
    key = ApiKey.objects.get(app__origin="http://localhost")
    assert (key.name, key.limit_nano, key.creator) == ("CLI", 2_500_000_000, office.admin)
    assert key.expires_at
    assert key.expires_at - key.created_at < timedelta(days=31)


def test_a_person_refuses(office: Office) -> None:
    sent: Any = sign_in(office).post(ASKED, {"decision": "refuse"})
    assert sent["Location"] == "http://localhost:3000/back?error=access_denied"
    assert not AuthorizationCode.objects.exists()


def test_without_a_callback_the_code_is_shown(office: Office) -> None:
    form = {"decision": "allow", "workspace": office.account.workspaces.get().pk, "lifetime": "0"}
    shown: Any = sign_in(office).post(page(code_challenge=VERIFIER), form)
    (code,) = re.findall(r"<code>([\w-]{65})</code>", shown.content.decode())
    assert exchange(office, code, code_verifier=VERIFIER)[0] == 200


def test_the_page_asks_who_is_there_and_refuses_odd_requests(office: Office) -> None:
    stranger: Any = Client().get(ASKED)
    assert stranger.status_code == 302
    assert stranger["Location"].startswith("/console/sign-in?next=/auth%3Fcallback_url")
    for odd in (
        "/auth",
        page(callback_url="http://app.example", code_challenge="x"),
        page(callback_url="https://app.example", code_challenge_method="S256"),
        page(code_challenge="x", code_challenge_method="S512"),
    ):
        refused: Any = sign_in(office).get(odd)
        assert (refused.status_code, "Location" in refused) == (400, False)
    with_checks = Client(enforce_csrf_checks=True)
    with_checks.force_login(office.admin)
    assert with_checks.post(ASKED, {"decision": "allow"}).status_code == 403


def test_a_member_chooses_among_its_own_workspaces(office: Office) -> None:
    member = admit_member(account=office.account, username="m", role=Membership.Role.MEMBER)
    team, stranger = office.workspace("team"), open_office("other")
    client = Client()
    client.force_login(member)

    def status(workspace: Any) -> int:
        form = {"decision": "allow", "workspace": workspace.pk, "lifetime": "0"}
        code: int = client.post(ASKED, form).status_code
        return code

    assert status(team) == status(stranger.account.workspaces.get()) == 400
    assert status(office.account.workspaces.get(is_default=True)) == 302
    assert sign_in(office).get(ASKED).content.count(b"<option") > client.get(ASKED).content.count(
        b"<option"
    )
