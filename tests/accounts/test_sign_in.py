"""Guesses of an operator's password are bounded, and nobody is locked out for long by others."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from accounts.models import AuditRecord, SignInAttempts, User
from accounts.sign_in import BOUNDS, count_try

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = "/admin/login/"


def signs_in(password: str, *, address: str = "192.0.2.1", name: str = "op") -> bool:
    form = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address).post(PAGE, form).status_code == 302


@pytest.fixture
def operator() -> User:
    return User.objects.create_superuser("op", password="right horse")


def test_the_right_password_comes_too_late_behind_too_many_wrong_ones(operator: User) -> None:
    assert signs_in("right horse")
    assert not any(signs_in(f"wrong {number}") for number in range(BOUNDS["pair"].tries))

    assert not signs_in("right horse")
    assert signs_in("right horse", address="192.0.2.2")
    record = AuditRecord.objects.get(object_type="sign_in")
    assert record.object_id == str(operator.pk)
    assert record.after == {"by": "pair", "address": "192.0.2.1", "tries": BOUNDS["pair"].tries}


def test_what_is_read_does_not_tell_whether_the_user_exists(operator: User) -> None:
    def page(name: str) -> bytes:
        client = Client(REMOTE_ADDR="192.0.2.9")
        for _ in range(BOUNDS["pair"].tries + 1):
            answer = client.post(PAGE, {"username": name, "password": "wrong"})
        return answer.content.split(b"errornote")[1].split(b"</p>")[0]

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
