"""Guesses of passwords are slowed down, and keep nobody out of the browser they use."""

import io
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from pytest_django import Settings

from accounts.models import AuditRecord, SignInAttempts, User
from accounts.people import known_browsers
from accounts.people.middleware import SignInRate
from accounts.sign_in import BOUNDS, count_try
from gateway.limits.limits import MINUTE_S
from tests.support.hashing import CountingHasher
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PASSWORD, COOKIE = "right horse", "known-browser"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = "/console/sign-in"
# The first is somebody's.
NAMES = ("op", "nobody")


def somewhere() -> str:
    """A client address that nobody was wrong from: runs share a store."""
    return f"198.18.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


def signs_in(password: str, *, address: str = "192.0.2.1", name: str = "op") -> bool:
    form = {"login": name, "password": password}
    return Client(REMOTE_ADDR=address).post(PAGE, form).status_code == 302


@pytest.fixture
def operator() -> User:
    return User.objects.create_superuser("op", password=PASSWORD)


def test_the_right_password_comes_too_late_behind_too_many_wrong_ones(operator: User) -> None:
    assert signs_in(PASSWORD)
    assert not any(signs_in(f"wrong {number}") for number in range(BOUNDS["pair"].tries))

    assert not signs_in(PASSWORD)
    assert signs_in(PASSWORD, address="192.0.2.2")
    record = AuditRecord.objects.get(object_type="sign_in", action="blocked")
    assert record.object_id == str(operator.pk)
    assert record.after == {"by": "pair", "address": "192.0.2.1", "tries": BOUNDS["pair"].tries}


def test_a_try_that_comes_too_soon_is_not_even_hashed(operator: User, settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["tests.support.hashing.CountingHasher"]
    CountingHasher.hashed = 0
    assert not signs_in("wrong")
    assert CountingHasher.hashed == 1
    SignInAttempts.objects.update(blocked_until=datetime.now(UTC) + timedelta(hours=1))

    assert not any(signs_in(each, name=name) for each in ("wrong", PASSWORD) for name in NAMES)

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
    client.post(PAGE, {"login": "op", "password": PASSWORD})

    for _ in range(BOUNDS["pair"].tries + 1):
        assert client.post("/console/you/password", {"password": PASSWORD}).status_code == 302

    assert not SignInAttempts.objects.filter(count__gt=0).exists()
    assert signs_in(PASSWORD)


# --- Known browsers -------------------------------------------------------------------------------


def comes_in(client: Client, password: str = PASSWORD, name: str = "op") -> bool:
    sent = client.post(PAGE, {"login": name, "password": password})
    came_in = sent.status_code == 302
    if came_in:
        client.post("/console/sign-out")
    return came_in


def guess_from_everywhere() -> None:
    """As often as blocks all who are strangers, and again whenever that is over."""
    now = datetime.now(UTC)
    for number in range(BOUNDS["user"].tries):
        count_try(name="op", address=f"192.0.2.{number}", now=now)
    blocked = SignInAttempts.objects.filter(blocked_until__isnull=False)
    assert blocked.update(blocked_until=now + timedelta(hours=1)) == 1


def test_strangers_keep_nobody_out_of_a_known_browser(operator: User) -> None:
    known = Client()
    assert comes_in(known)
    cookie = known.cookies[COOKIE]
    assert (cookie["httponly"], cookie["path"]) == (True, "/")
    # Sealed: whose browser it is cannot be read.
    assert cookie.value.startswith("v1:")

    guess_from_everywhere()

    assert not comes_in(Client())
    # As often as it takes: each time is the right one.
    assert all(comes_in(known) for _ in range(BOUNDS["known"].tries + 1))
    assert not comes_in(Client())


def test_guesses_in_a_known_browser_are_bounded_too(operator: User) -> None:
    known, another = Client(), Client()
    assert comes_in(known)
    assert comes_in(another)

    assert not any(comes_in(known, f"wrong {each}") for each in range(BOUNDS["known"].tries))

    assert not comes_in(known)
    # The first block lasts a second, and what follows may take longer.
    blocked = SignInAttempts.objects.filter(blocked_until__isnull=False)
    assert blocked.update(blocked_until=datetime.now(UTC) + timedelta(hours=1)) == 1
    record = AuditRecord.objects.get(action="blocked")
    assert (record.object_id, (record.after or {})["by"]) == (str(operator.pk), "known")
    # They slow down nobody elsewhere.
    assert comes_in(Client())
    assert comes_in(another)
    assert not comes_in(known)


def test_a_browser_is_known_for_who_signed_in_there_and_for_a_time(
    operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.create_user("eve", password=PASSWORD)
    theirs, forged, old, before = (Client() for _ in range(4))
    assert comes_in(theirs, name="eve")
    changed = theirs.cookies[COOKIE].value
    forged.cookies[COOKIE] = changed[:-4] + ("AAAA" if changed[-4:] != "AAAA" else "BBBB")
    monkeypatch.setattr(known_browsers, "_AGE_S", -1)
    assert comes_in(old)
    monkeypatch.undo()
    assert comes_in(before)
    operator.set_password(PASSWORD)
    operator.save()
    guess_from_everywhere()

    assert [comes_in(each) for each in (theirs, forged, old, before)] == [False] * 4


def test_a_browser_knows_the_five_who_came_last() -> None:
    request, answer = HttpRequest(), HttpResponse()
    for number in range(6):
        known_browsers.remember_browser(request, answer, User(username=f"User-{number}"))
        request.COOKIES[COOKIE] = answer.cookies[COOKIE].value

    known = [known_browsers.has_signed_in(request, f"user-{number}") for number in range(6)]
    assert known == [False, True, True, True, True, True]


def test_forms_of_known_browsers_do_not_wait_for_those_of_strangers() -> None:
    inside, let_go = threading.Semaphore(0), threading.Event()

    def look(request: HttpRequest) -> HttpResponse:
        if request.POST.get("login", "op") != "op" or COOKIE not in request.COOKIES:
            inside.release()
            let_go.wait(60)
        return HttpResponse()

    known, factory, door = HttpResponse(), RequestFactory(), SignInRate(look)
    known_browsers.remember_browser(HttpRequest(), known, User(username="op"))
    with ThreadPoolExecutor(2) as threads:
        # The second has a cookie, but of somebody else.
        elsewhere = factory.post(PAGE, {"login": "op"}, REMOTE_ADDR="192.0.2.1")
        strangers = [threads.submit(door, elsewhere)]
        factory.cookies[COOKIE] = known.cookies[COOKIE].value
        strangers.append(threads.submit(door, factory.post(PAGE, {"login": "eve"})))
        try:
            assert all(inside.acquire(timeout=60) for _ in strangers)
            assert door(factory.post(PAGE, {"login": "op"})).status_code == 200
            # A second factor's code names nobody.
            assert door(factory.post(PAGE, {"code": "1"})).status_code == 200
        finally:
            let_go.set()

    assert [each.result().status_code for each in strangers] == [200, 200]
