"""What every page carries in production, whoever asks for it."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PAGES = ("/", "/console/sign-in", "/console/you", "/admin/", "/auth?code_challenge=x", "/docs")


@pytest.fixture
def production(settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SECURE_SSL_REDIRECT = True
    settings.COOKIE_PREFIX = "__Host-"


@pytest.mark.parametrize("path", PAGES)
def test_pages_stand_in_no_frame_and_say_little_elsewhere(production: None, path: str) -> None:
    page = Client(headers={"Accept": "text/html"}).get(path, secure=True)

    assert page["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    assert page["X-Content-Type-Options"] == "nosniff"
    assert page["Referrer-Policy"] == "same-origin"
    assert page["Strict-Transport-Security"].startswith("max-age=31536000")
    assert not [name for name in page.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("path", ["/console/keys?x=%00", "/static/console/console.css"])
def test_refusals_and_files_say_as_little(production: None, path: str) -> None:
    page = Client().get(path, secure=True)
    page.close()

    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    assert page["X-Content-Type-Options"] == "nosniff"
    assert page["Strict-Transport-Security"].startswith("max-age=31536000")
    assert not [name for name in page.headers if name.startswith("Access-Control")]


def test_pages_move_to_https_and_their_cookies_stay_there(production: None) -> None:
    User.objects.create_user("ada", password="correct horse")
    client = Client(headers={"Accept": "text/html"})
    moved = client.get("/console/sign-in")
    assert moved["Location"].startswith("https://")

    client.get("/console/sign-in", secure=True)
    client.post("/console/sign-in", {"login": "ada", "password": "correct horse"}, secure=True)

    assert "__Host-known-browser" in client.cookies
    for cookie in client.cookies.values():
        assert cookie["path"] == "/", cookie
        assert cookie["secure"], cookie
        assert cookie["samesite"] == "Lax", cookie
    assert client.cookies["sessionid"]["httponly"]
