"""Ten thousand guesses at each way in: few are looked at, and nobody else waits for them."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from statistics import median

import pytest
import requests
from pytest_django import DjangoDbBlocker

from accounts.models import AuditRecord
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.support.orm import pointed_at

pytestmark = [pytest.mark.timed, pytest.mark.nightly, pytest.mark.timeout(900)]
GUESSES, GUESSERS, PACE_PER_S = 10_000, 4, 100.0
# Of one address, in a minute.
LOOKED_AT = 30
GOOD = 100
SLOWER = 1.1
# What a busy clock may add to a request of a few milliseconds.
NOISE_S = 0.001


@pytest.fixture
def desk(desk_on: Open) -> Desk:
    return desk_on(
        [bench.model("acme/one", bench.endpoint("first"))],
        RATE_FAILED_CREDENTIALS=str(LOOKED_AT),
        TRUSTED_PROXIES="127.0.0.1",
    )


class Guesser:
    """Sends guesses at an even pace from one address, each by `guess`, and counts the answers."""

    def __init__(self, guess: Callable[[requests.Session, int], int]) -> None:
        self._guess = guess
        self._begun = time.monotonic()
        self._next, self._lock = 0, threading.Lock()
        self.statuses: Counter[int] = Counter()
        self.threads = [threading.Thread(target=self._run) for _ in range(GUESSERS)]

    def _run(self) -> None:
        with requests.Session() as session:
            # The good requests come from elsewhere.
            session.headers["X-Forwarded-For"] = "198.51.100.7"
            while True:
                with self._lock:
                    number = self._next
                    self._next += 1
                if number >= GUESSES:
                    return
                time.sleep(max(0.0, self._begun + number / PACE_PER_S - time.monotonic()))
                status = self._guess(session, number)
                with self._lock:
                    self.statuses[status] += 1


def guess_token(root_url: str) -> Callable[[requests.Session, int], int]:
    def guess(session: requests.Session, number: int) -> int:
        token = f"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.{number:043d}"
        headers = {"Authorization": f"Bearer {token}"}
        return session.get(f"{root_url}/api/v1/key", headers=headers, timeout=30).status_code

    return guess


def guess_code(root_url: str) -> Callable[[requests.Session, int], int]:
    def guess(session: requests.Session, number: int) -> int:
        body = {"code": f"{number:043d}", "code_verifier": "x" * 43}
        return session.post(f"{root_url}/api/v1/auth/keys", json=body, timeout=30).status_code

    return guess


def guess_password(root_url: str) -> Callable[[requests.Session, int], int]:
    page = f"{root_url}/console/sign-in"

    def guess(session: requests.Session, number: int) -> int:
        if "csrftoken" not in session.cookies:
            session.get(page, timeout=30)
        form = {
            "login": "admin",
            "password": f"guess {number}",
            "csrfmiddlewaretoken": session.cookies["csrftoken"],
        }
        # Whether it was looked at is told to nobody; the books know.
        return session.post(page, data=form, timeout=30, allow_redirects=False).status_code

    return guess


def measure(desk: Desk) -> float:
    """The median of good requests, in seconds."""
    took = []
    for _ in range(GOOD):
        began = time.monotonic()
        assert desk.post(model="acme/one").status_code == 200
        took.append(time.monotonic() - began)
    return median(took)


@pytest.mark.parametrize("way", [guess_token, guess_code, guess_password])
def test_guesses_are_bounded_and_good_requests_do_not_wait(
    desk: Desk,
    way: Callable[[str], Callable[[requests.Session, int], int]],
    django_db_blocker: DjangoDbBlocker,
) -> None:
    measure(desk)
    alone_s = measure(desk)
    guesser = Guesser(way(desk.server.root_url))
    for thread in guesser.threads:
        thread.start()
    beside_s = [measure(desk)]
    while any(thread.is_alive() for thread in guesser.threads):
        beside_s.append(measure(desk))

    minutes = GUESSES / PACE_PER_S / 60 + 1
    looked_at = guesser.statuses.total() - guesser.statuses[429]
    if way is guess_password:
        with pointed_at(desk.server.env["DATABASE_URL"], django_db_blocker):
            looked_at = AuditRecord.objects.filter(action="failed").count()
    assert 0 < looked_at <= LOOKED_AT * (minutes + 1) + GUESSERS, guesser.statuses
    assert set(guesser.statuses) <= {200, 401, 403, 429}, guesser.statuses
    assert min(beside_s) <= SLOWER * alone_s + NOISE_S, (alone_s, beside_s)
