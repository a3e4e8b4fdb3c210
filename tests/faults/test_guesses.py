"""Ten thousand guesses at each way in: few are looked at, and who is good there is not kept out.
With a password that holds for other addresses: one may send so many forms, whoever is there."""

import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from pytest_django import DjangoDbBlocker

from accounts.models import AuditRecord, User
from accounts.sign_in import BOUNDS
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.load.flooding import read_paced, start_paced
from tests.load.guessing import build_guesses
from tests.support.orm import pointed_at
from tests.support.server import as_json

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
GUESSES, PER_S = 10_000, 500
# Of one address, in a minute; and those that may come at once, which are looked at together.
LOOKED_AT, AT_ONCE = 30, 20
# Whose password is guessed.
NAME, PASSWORD, CSRF = "admin", "correct horse", "c" * 32


@pytest.fixture
def desk(desk_on: Open) -> Desk:
    return desk_on(
        [bench.model("acme/one", bench.endpoint("first"))],
        RATE_FAILED_TOKENS=str(LOOKED_AT),
        RATE_SIGN_INS=str(LOOKED_AT),
        TRUSTED_PROXIES="127.0.0.1",
    )


def sign_in(desk: Desk, **cookies: str) -> requests.Session:
    """From another address: of one there are so many forms a minute, whoever sends them."""
    browser = requests.Session()
    browser.headers["X-Forwarded-For"] = "203.0.113.9"
    browser.cookies.update({"csrftoken": CSRF, **cookies})
    form = {"login": NAME, "password": PASSWORD, "csrfmiddlewaretoken": CSRF}
    page = f"{desk.server.root_url}/console/sign-in"
    browser.post(page, form, allow_redirects=False, timeout=60)
    return browser


@pytest.fixture
def browser_cookie(desk: Desk, django_db_blocker: DjangoDbBlocker) -> str:
    """The cookie of a browser in which that person has signed in before."""
    with pointed_at(desk.server.env["DATABASE_URL"], django_db_blocker):
        User.objects.create_user(NAME, password=PASSWORD)
    return sign_in(desk).cookies["known-browser"]


def present_token(desk: Desk, _: str) -> int:
    """A new token of a good key, from where the guesses come."""
    types = "urn:ietf:params:oauth"
    form = {
        "grant_type": f"{types}:grant-type:token-exchange",
        "subject_token": desk.account.api_key,
        "subject_token_type": f"{types}:token-type:access_token",
    }
    root_url = desk.server.root_url
    made = requests.post(f"{root_url}/api/v1/oauth/token", form, timeout=60)
    headers = {"Authorization": f"Bearer {as_json(made)['access_token']}"}
    return requests.get(f"{root_url}/api/v1/key", headers=headers, timeout=60).status_code


def present_code(desk: Desk, _: str) -> int:
    body = {"callback_url": "https://app.example/back"}
    made = desk.server.post("/api/v1/auth/keys/code", key=desk.account.management_key, json=body)
    code = {"code": as_json(made)["data"]["id"]}
    return requests.post(
        f"{desk.server.root_url}/api/v1/auth/keys", json=code, timeout=60
    ).status_code


def present_password(desk: Desk, browser_cookie: str) -> int:
    browser, page = sign_in(desk, **{"known-browser": browser_cookie}), "/console/you"
    return browser.get(desk.server.root_url + page, allow_redirects=False, timeout=60).status_code


@pytest.mark.parametrize(
    ("aim", "present", "refused"),
    [
        ("token", present_token, "401"),
        ("code", present_code, "403"),
        ("password", present_password, "200"),
    ],
)
def test_few_guesses_are_looked_at_and_who_is_good_there_gets_in(
    desk: Desk,
    browser_cookie: str,
    aim: str,
    present: Callable[[Desk, str], int],
    refused: str,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    target, seconds, begun = build_guesses(desk.server.root_url)[aim], GUESSES / PER_S, time.time()

    with ThreadPoolExecutor(1) as pool:
        guessing = pool.submit(read_paced, start_paced(target, PER_S, seconds), seconds * 10)
        presented = set[int]()
        while not guessing.done():
            presented.add(present(desk, browser_cookie))
    statuses = guessing.result().statuses

    ended = time.time()
    windows = int(ended // 60 - begun // 60) + 1
    assert sum(statuses.values()) == GUESSES
    assert set(statuses) == {refused, "429"}, json.dumps(statuses)
    assert statuses[refused] <= windows * (LOOKED_AT + AT_ONCE)
    assert presented == {200}
    # Whether a password was hashed is told to nobody; the records know. Each further one waits
    # twice as long, so that no pace of guesses has more of them looked at.
    with pointed_at(desk.server.env["DATABASE_URL"], django_db_blocker):
        failed = AuditRecord.objects.filter(object_type="sign_in", action="failed").count()
    assert failed <= BOUNDS["pair"].tries + math.log2(ended - begun + 1)
    assert (failed > 0) == (aim == "password")
