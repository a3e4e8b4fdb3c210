"""Nobody who guesses from ever new addresses keeps a person out of the browser they use."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from accounts.models import AuditRecord, SignInAttempts, User
from accounts.people import known_browsers
from accounts.people.middleware import SignInRate
from accounts.sign_in import BOUNDS, count_try

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PAGE, COOKIE = "/console/sign-in", "known-browser"
PASSWORD = "right horse"


@pytest.fixture
def operator() -> User:
    return User.objects.create_superuser("op", password=PASSWORD)


def signs_in(client: Client, password: str = PASSWORD, name: str = "op") -> bool:
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
    assert signs_in(known)
    cookie = known.cookies[COOKIE]
    assert (cookie["httponly"], cookie["path"]) == (True, "/")
    assert "op" not in cookie.value

    guess_from_everywhere()

    assert not signs_in(Client())
    # As often as it takes: each time is the right one.
    assert all(signs_in(known) for _ in range(BOUNDS["known"].tries + 1))
    assert not signs_in(Client())


def test_guesses_in_a_known_browser_are_bounded_too(operator: User) -> None:
    known, another = Client(), Client()
    assert signs_in(known)
    assert signs_in(another)

    assert not any(signs_in(known, f"wrong {each}") for each in range(BOUNDS["known"].tries))

    assert not signs_in(known)
    record = AuditRecord.objects.get(action="blocked")
    assert (record.object_id, (record.after or {})["by"]) == (str(operator.pk), "known")
    # They slow down nobody elsewhere.
    assert signs_in(Client())
    assert signs_in(another)
    assert not signs_in(known)


def test_a_browser_is_known_for_who_signed_in_there_and_for_a_time(
    operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.create_user("eve", password=PASSWORD)
    theirs, forged, old, before = (Client() for _ in range(4))
    assert signs_in(theirs, name="eve")
    changed = theirs.cookies[COOKIE].value
    forged.cookies[COOKIE] = changed[:-4] + ("AAAA" if changed[-4:] != "AAAA" else "BBBB")
    monkeypatch.setattr(known_browsers, "_AGE_S", -1)
    assert signs_in(old)
    monkeypatch.undo()
    assert signs_in(before)
    operator.set_password(PASSWORD)
    operator.save()
    guess_from_everywhere()

    assert [signs_in(each) for each in (theirs, forged, old, before)] == [False] * 4


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
