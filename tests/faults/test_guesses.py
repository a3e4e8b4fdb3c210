"""Ten thousand guesses at each way in: few are looked at, and who is good there is not kept out."""

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
import requests
from pytest_django import DjangoDbBlocker

from accounts.models import AuditRecord
from accounts.sign_in import BOUNDS
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.support.orm import pointed_at
from tests.support.server import as_json

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
GUESSES, GUESSERS = 10_000, 4
# Of one address, in a minute.
LOOKED_AT, SIGN_INS = 30, 60
PLACE = {"X-Forwarded-For": "198.51.100.7"}
Guess = Callable[[requests.Session, int], int]


@pytest.fixture
def desk(desk_on: Open) -> Desk:
    return desk_on(
        [bench.model("acme/one", bench.endpoint("first"))],
        RATE_FAILED_TOKENS=str(LOOKED_AT),
        RATE_SIGN_INS=str(SIGN_INS),
        TRUSTED_PROXIES="127.0.0.1",
    )


def send_guesses(guess: Guess) -> tuple[Counter[int], int]:
    """All of them from one address: the statuses, and how many windows of a minute they touched."""
    numbers, lock, statuses = iter(range(GUESSES)), threading.Lock(), Counter[int]()

    def run() -> None:
        with requests.Session() as session:
            session.headers.update(PLACE)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                status = guess(session, number)
                with lock:
                    statuses[status] += 1

    threads = [threading.Thread(target=run) for _ in range(GUESSERS)]
    begun = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, int(time.time() // 60 - begun // 60) + 1


def guess_token(desk: Desk) -> Guess:
    url = f"{desk.server.root_url}/api/v1/key"

    def guess(session: requests.Session, number: int) -> int:
        token = f"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.{number:043d}"
        headers = {"Authorization": f"Bearer {token}"}
        return session.get(url, headers=headers, timeout=60).status_code

    return guess


def guess_code(desk: Desk) -> Guess:
    url = f"{desk.server.root_url}/api/v1/auth/keys"

    def guess(session: requests.Session, number: int) -> int:
        body = {"code": f"{number:065d}", "code_verifier": "x" * 43}
        return session.post(url, json=body, timeout=60).status_code

    return guess


def present_token(desk: Desk) -> int:
    """A new token of a good key, from where the guesses come."""
    types = "urn:ietf:params:oauth"
    form = {
        "grant_type": f"{types}:grant-type:token-exchange",
        "subject_token": desk.account.api_key,
        "subject_token_type": f"{types}:token-type:access_token",
    }
    root_url = desk.server.root_url
    made = requests.post(f"{root_url}/api/v1/oauth/token", form, headers=PLACE, timeout=60)
    headers = PLACE | {"Authorization": f"Bearer {as_json(made)['access_token']}"}
    return requests.get(f"{root_url}/api/v1/key", headers=headers, timeout=60).status_code


def present_code(desk: Desk) -> int:
    body = {"callback_url": "https://app.example/back"}
    made = desk.server.post("/api/v1/auth/keys/code", key=desk.account.management_key, json=body)
    code = {"code": as_json(made)["data"]["id"]}
    url = f"{desk.server.root_url}/api/v1/auth/keys"
    return requests.post(url, json=code, headers=PLACE, timeout=60).status_code


@pytest.mark.parametrize(
    ("aim", "present", "refused"),
    [(guess_token, present_token, 401), (guess_code, present_code, 403)],
)
def test_few_guesses_are_looked_at_and_who_is_good_there_gets_in(
    desk: Desk, aim: Callable[[Desk], Guess], present: Callable[[Desk], int], refused: int
) -> None:
    statuses, windows = send_guesses(aim(desk))

    assert statuses.total() == GUESSES
    assert set(statuses) == {refused, 429}
    # Those that come at once may be looked at together.
    assert statuses[refused] <= windows * (LOOKED_AT + GUESSERS)
    assert present(desk) == 200


def test_few_passwords_are_looked_at(desk: Desk, django_db_blocker: DjangoDbBlocker) -> None:
    page = f"{desk.server.root_url}/console/sign-in"

    def guess(session: requests.Session, number: int) -> int:
        if "csrftoken" not in session.cookies:
            session.get(page, timeout=60)
        form = {
            "login": "admin",
            "password": f"guess {number}",
            "csrfmiddlewaretoken": session.cookies["csrftoken"],
        }
        return session.post(page, data=form, timeout=60, allow_redirects=False).status_code

    statuses, windows = send_guesses(guess)

    # Whether one was looked at is told to nobody; the records know. Each further one waits twice
    # as long, so that no pace of guesses has more of them looked at.
    with pointed_at(desk.server.env["DATABASE_URL"], django_db_blocker):
        looked_at = AuditRecord.objects.filter(action="failed").count()
    assert statuses.total() == GUESSES
    assert set(statuses) == {200, 429}
    assert statuses[200] <= windows * (SIGN_INS + GUESSERS)
    assert 0 < looked_at <= BOUNDS["pair"].tries + 20
