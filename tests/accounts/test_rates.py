"""Limits on managing, on wrong credentials, and on guesses of an operator's password, by which
others lock nobody out for long."""

import io
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from pytest_django import DjangoAssertNumQueries, Settings

from accounts.authentication import forget_keys
from accounts.caller import read_caller
from accounts.identity import own_tokens
from accounts.keystring import hash_key
from accounts.models import ApiKey, AuditRecord, SignInAttempts, User
from accounts.money import NANO_PER_USD
from accounts.people.middleware import SignInRate
from accounts.rates import daily_limit, read_free_requests
from accounts.services.keys import set_disabled
from accounts.sign_in import BOUNDS, count_try
from gateway.limits.limits import DAY_S, MINUTE_S, rate_limiter
from tests.accounts.office import KEYS, Office, open_office
from tests.support.hashing import CountingHasher
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
_numbers = itertools.count(1)


def office() -> Office:
    return open_office(f"rated-{next(_numbers)}")


def somewhere() -> str:
    """A client address that nobody was wrong from: runs share a store."""
    import secrets

    return f"198.18.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


def get(key: str, *, at: str = "192.0.2.1", path: str = "/api/v1/key") -> Any:
    client = Client(headers={"Authorization": f"Bearer {key}"})
    return client.get(path, REMOTE_ADDR=at)


def statuses(office: Office, *asked: tuple[str, str]) -> list[int]:
    """What each method and path of these is answered with."""
    return [office.call(method, path, {"name": "k"})[0] for method, path in asked]


READ, WRITE = ("GET", KEYS), ("POST", KEYS)


def test_nothing_is_limited_unless_somebody_says_so() -> None:
    assert statuses(office(), *[READ] * 30, *[WRITE] * 30) == [200] * 30 + [201] * 30


def test_reads_and_writes_are_limited_apart_per_account(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS, settings.RATE_MANAGEMENT_WRITES = 3, 2

    def work() -> None:
        mine, other = office(), office()
        key = mine.new()["key"]  # One write.
        # One who may not manage does not count.
        assert [mine.call("POST", KEYS, {"name": "k"}, key=key)[0] for _ in range(3)] == [403] * 3
        assert statuses(mine, READ, READ, WRITE, WRITE) == [200, 200, 201, 429]
        # Any key of the account counts, and so does what any key may read.
        assert mine.call("GET", "/key", key=key)[0] == 200
        assert mine.call("GET", "/key", key=key)[0] == 429
        assert mine.call("GET", "/generation?id=x", key=key)[0] == 429
        assert statuses(other, READ, WRITE) == [200, 201]
        # The catalogue is nobody's management. Its first reading takes many queries.
        Client().get("/api/v1/models")
        assert mine.call("GET", "/models", key=key)[0] == 200

    within_one(MINUTE_S, work)


def test_queries_of_analytics_are_limited_by_themselves(settings: Settings) -> None:
    settings.RATE_ANALYTICS, settings.RATE_MANAGEMENT_WRITES = 1, 1
    query = ("POST", "/analytics/query")

    def work() -> None:
        # What is wrong with the query is told past the limit only.
        assert statuses(office(), query, query, WRITE, WRITE) == [400, 429, 201, 429]

    within_one(MINUTE_S, work)


def test_the_refusal_s_words_and_headers(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS = 1

    def work() -> tuple[Any, Any]:
        mine = office()
        answers = get(mine.key), get(mine.key)
        assert [answer.status_code for answer in answers] == [200, 429]
        # An account's limit comes after its key's: nobody learns of it without one.
        assert get("nope").status_code == 401
        return answers

    served, refused = within_one(MINUTE_S, work)
    assert not [name for name in served.headers if name.startswith("X-RateLimit")]
    error = refused.json()["error"]
    headers = error["metadata"]["headers"]
    assert error == {
        "code": 429,
        "message": "Rate limit exceeded",
        "metadata": {
            "error_type": "rate_limit_exceeded",
            "limit_source": "router_management_reads",
            "headers": headers,
        },
    }
    reset = headers["X-RateLimit-Reset"]
    assert int(reset) % 60_000 == 0
    shown = {"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    assert headers == shown == {name: refused[name] for name in headers}
    assert 1 <= int(refused["Retry-After"]) <= 60


# --- Free requests --------------------------------------------------------------------------------


def test_free_requests_of_a_day_depend_on_what_was_bought(settings: Settings) -> None:
    settings.ROUTER_FREE_CREDIT_THRESHOLD = 10
    settings.ROUTER_FREE_RPD_LOW, settings.ROUTER_FREE_RPD_HIGH = 50, 1000
    caller = read_caller(hash_key(office().key))
    assert caller is not None
    threshold_nano = 10 * NANO_PER_USD
    buyers = [replace(caller, bought_nano=threshold_nano + more) for more in (-1, 0)]
    assert [read_free_requests(each) for each in buyers] == [(50, 0, 50), (1000, 0, 1000)]

    limit = daily_limit(buyers[0])
    assert limit is not None
    within_one(DAY_S, lambda: rate_limiter().take(limit._replace(cost=3)))
    assert read_free_requests(buyers[0]) == (50, 3, 47)
    settings.ROUTER_FREE_RPD_LOW = 2
    assert read_free_requests(buyers[0]) == (2, 3, 0)
    settings.ROUTER_FREE_RPD_LOW = 0
    assert daily_limit(buyers[0]) is None
    assert read_free_requests(buyers[0]) == (-1, 0, -1)


# --- Wrong credentials ----------------------------------------------------------------------------


def test_too_many_wrong_keys_from_one_address_are_not_looked_up(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.RATE_FAILED_CREDENTIALS = 3
    unseen = office().key

    def work() -> None:
        here, there = somewhere(), somewhere()
        wrong = ["nope", f"{unseen[:-1]}!", "sk-rt-v1-x"]
        assert [get(each, at=here).status_code for each in wrong] == [401] * 3
        forget_keys()
        with django_assert_num_queries(0):
            refused = get(unseen, at=here)
        assert refused.status_code == 429
        assert refused.json()["error"]["metadata"]["limit_source"] == "router_failed_credentials"
        assert get("nope", at=there).status_code == 401
        assert get(unseen, at=there).status_code == 200

    within_one(MINUTE_S, work)


def test_good_keys_and_no_keys_do_not_count_as_guesses(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 1
    key = office().key

    def work() -> None:
        here = somewhere()
        for _ in range(3):
            forget_keys()
            assert get(key, at=here).status_code == 200
            assert Client().get("/api/v1/key", REMOTE_ADDR=here).status_code == 401
        assert [get("nope", at=here).status_code for _ in range(2)] == [401, 429]
        assert get(key, at=here).status_code == 200

    within_one(MINUTE_S, work)


def test_a_key_that_is_good_no_more_counts_as_wrong(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 2

    def work() -> None:
        mine, here = office(), somewhere()
        assert get(mine.key, at=here).status_code == 200
        set_disabled(keys=ApiKey.objects.filter(account=mine.account), disabled=True)
        forget_keys()
        found = [get(mine.key, at=here).status_code for _ in range(4)]
        assert found == [401, 401, 429, 429]

    within_one(MINUTE_S, work)


def test_wrong_tokens_close_an_address_to_guesses_and_not_to_good_ones(settings: Settings) -> None:
    settings.RATE_FAILED_TOKENS = 3

    def work() -> None:
        here, mine = somewhere(), office()
        wrong = [f"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.{number:043d}" for number in range(5)]
        found = [get(each, at=here).status_code for each in wrong]
        assert found == [401] * 3 + [429] * 2
        # Keys are no tokens, and a token of the gateway's own proves itself.
        assert get("nope", at=here).status_code == 401
        assert get(mine.key, at=here).status_code == 200
        assert get(own_tokens.issue(hash_key(mine.key)), at=here).status_code == 200
        assert get(wrong[0], at=somewhere()).status_code == 401

    within_one(MINUTE_S, work)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = "/console/sign-in"
# The first is somebody's.
NAMES = ("op", "nobody")


def signs_in(password: str, *, address: str = "192.0.2.1", name: str = "op") -> bool:
    form = {"login": name, "password": password}
    return Client(REMOTE_ADDR=address).post(PAGE, form).status_code == 302


@pytest.fixture
def operator() -> User:
    return User.objects.create_superuser("op", password="right horse")


def test_the_right_password_comes_too_late_behind_too_many_wrong_ones(operator: User) -> None:
    assert signs_in("right horse")
    assert not any(signs_in(f"wrong {number}") for number in range(BOUNDS["pair"].tries))

    assert not signs_in("right horse")
    assert signs_in("right horse", address="192.0.2.2")
    record = AuditRecord.objects.get(object_type="sign_in", action="blocked")
    assert record.object_id == str(operator.pk)
    assert record.after == {"by": "pair", "address": "192.0.2.1", "tries": BOUNDS["pair"].tries}


def test_a_try_that_comes_too_soon_is_not_even_hashed(operator: User, settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["tests.support.hashing.CountingHasher"]
    CountingHasher.hashed = 0
    assert not signs_in("wrong")
    assert CountingHasher.hashed == 1
    SignInAttempts.objects.update(blocked_until=datetime.now(UTC) + timedelta(hours=1))

    assert not any(signs_in(each, name=name) for each in ("wrong", "right horse") for name in NAMES)

    assert CountingHasher.hashed == 1


def test_forms_and_beginnings_of_sign_in_are_limited_by_address(settings: Settings) -> None:
    settings.RATE_SIGN_INS = 3
    form = {"login": "nobody", "password": "wrong"}

    def work() -> None:
        here = Client(REMOTE_ADDR=somewhere())
        answers = [here.post(PAGE, form) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert 0 < int(answers[-1]["Retry-After"]) <= MINUTE_S
        assert "default-src 'none'" in answers[-1]["Content-Security-Policy"]
        # What only begins, to which any page can lead browsers, takes no tries from forms.
        begun = [here.get(f"{PAGE}/{each}").status_code for each in ("passkey", "at/acme") * 2]
        assert begun == [302, 404, 302, 429]
        assert here.get(f"{PAGE}/at/acme/back").status_code == 404
        assert here.get(PAGE).status_code == 200
        assert Client(REMOTE_ADDR=somewhere()).post(PAGE, form).status_code == 200

    within_one(MINUTE_S, work)


def test_what_another_site_sends_is_refused_and_takes_no_tries(settings: Settings) -> None:
    settings.RATE_SIGN_INS = 1
    form = {"login": "nobody", "password": "wrong"}
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    link = elsewhere | {"Sec-Fetch-Mode": "navigate"}

    def work() -> None:
        here = Client(REMOTE_ADDR=somewhere())
        for _ in range(2):
            assert here.post(PAGE, form, headers=elsewhere).status_code == 403
            assert here.post(PAGE, form, headers=link).status_code == 403
            assert here.get(f"{PAGE}/passkey", headers=elsewhere).status_code == 403
        assert here.post(PAGE, form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        assert here.get(f"{PAGE}/passkey", headers=link).status_code == 302

    within_one(MINUTE_S, work)


class SlowBody(io.BytesIO):
    """Comes once the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go = threading.Semaphore(0), threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.asked.release()
        self.let_go.wait(60)
        return b"x" * (size or 0)


def test_slow_bodies_keep_no_form_waiting() -> None:
    def look(request: HttpRequest) -> HttpResponse:
        return HttpResponse(request.body)

    body, door, factory = SlowBody(), SignInRate(look), RequestFactory()
    form = {"REQUEST_METHOD": "POST", "PATH_INFO": PAGE, "CONTENT_LENGTH": "5", "wsgi.input": body}
    slow = [factory.request(**form) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        late = [threads.submit(door, each) for each in slow]
        try:
            assert all(body.asked.acquire(timeout=60) for _ in slow)
            assert door(factory.post(PAGE)).status_code == 200
        finally:
            body.let_go.set()

    assert [each.result().status_code for each in late] == [200] * 3


@pytest.mark.parametrize(("addresses", "at_once"), [(6, 2), (1, 1)])
def test_two_forms_are_looked_at_at_once_and_one_of_an_address(
    addresses: int, at_once: int
) -> None:
    together, lock, inside, most = threading.Barrier(at_once), threading.Lock(), 0, 0

    def look(_: HttpRequest) -> HttpResponse:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        together.wait(60)
        with lock:
            inside -= 1
        return HttpResponse()

    door, factory = SignInRate(look), RequestFactory()
    places = [f"192.0.2.{number % addresses}" for number in range(6)]
    requests = [factory.post(PAGE, REMOTE_ADDR=each) for each in places]
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(door, requests))

    assert [each.status_code for each in answers] == [200] * 6
    assert most == at_once


def test_what_is_read_does_not_tell_whether_the_user_exists(operator: User) -> None:
    def page(name: str) -> bytes:
        client = Client(REMOTE_ADDR="192.0.2.9")
        for _ in range(BOUNDS["pair"].tries + 1):
            answer = client.post(PAGE, {"login": name, "password": "wrong"})
        return answer.content.split(b'class="errors"')[1].split(b"</p>")[0]

    assert page("op") == page("nobody")


def test_the_wait_doubles_and_ends() -> None:
    bound = BOUNDS["pair"]
    now, waits = NOW, []
    for _ in range(bound.tries + 4):
        assert count_try(name="op", address="192.0.2.1", now=now)
        row = SignInAttempts.objects.filter(blocked_until__gt=now).first()
        waits.append((row.blocked_until - now).seconds if row and row.blocked_until else 0)
        now += timedelta(seconds=waits[-1])
        assert not waits[-1] or not count_try(
            name="op", address="192.0.2.1", now=now - timedelta(seconds=0.5)
        )
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16]
    assert count_try(name="op", address="192.0.2.1", now=now + bound.longest)


def test_a_user_guessed_at_from_everywhere_waits_a_minute_at_most() -> None:
    for number in range(60):
        count_try(name="op", address=f"192.0.2.{number}", now=NOW)
    assert not count_try(name="op", address="198.51.100.1", now=NOW)
    later = NOW + BOUNDS["user"].longest
    assert count_try(name="op", address="198.51.100.1", now=later)


def test_wrong_tries_of_an_office_fade_however_many_people_try_meanwhile() -> None:
    now = NOW
    for number in range(40):
        now = NOW + number * timedelta(minutes=10)
        assert count_try(name=f"user-{number}", address="192.0.2.1", now=now)
    assert count_try(name="op", address="192.0.2.1", now=now + timedelta(seconds=0.1))


def test_a_right_password_that_is_asked_for_again_is_no_guess(operator: User) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    client.post(PAGE, {"login": "op", "password": "right horse"})

    for _ in range(BOUNDS["pair"].tries + 1):
        assert client.post("/console/you/password", {"password": "right horse"}).status_code == 302

    assert not SignInAttempts.objects.filter(count__gt=0).exists()
    assert signs_in("right horse")
