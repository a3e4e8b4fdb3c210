"""Pages of other origins reach inference paths, errors and streams included, and no others."""

from typing import Any

import pytest
import requests

from gateway.http.cors import add_headers, is_covered
from tests.support.server import GatewayServer

PAGE = {"Origin": "https://app.example"}
ASKS = {
    **PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


def test_a_browser_may_ask_and_read_the_answer(gateway: GatewayServer) -> None:
    for path in ("/api/v1/chat/completions", "/api/v1/models/acme/small"):
        before = requests.options(gateway.root_url + path, headers=ASKS, timeout=10)
        assert (before.status_code, before.content) == (204, b"")
        assert before.headers["Access-Control-Allow-Origin"] == "*"
        assert before.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
        assert "Access-Control-Allow-Credentials" not in before.headers
    refused = requests.post(
        f"{gateway.root_url}/api/v1/chat/completions", json={}, headers=PAGE, timeout=10
    )
    assert refused.status_code == 401
    assert refused.headers["Access-Control-Allow-Origin"] == "*"
    exposed = refused.headers["Access-Control-Expose-Headers"].split(", ")
    of_limits = {"x-ratelimit-remaining-tokens", "anthropic-ratelimit-requests-reset"}
    assert {"X-Generation-Id", *of_limits} < set(exposed)


@pytest.mark.parametrize("path", ["/api/v1/keys", "/api/v1/credits", "/admin/login/", "/healthz"])
def test_other_paths_say_nothing_of_it(gateway: GatewayServer, path: str) -> None:
    for send, headers in ((requests.get, PAGE), (requests.options, ASKS)):
        answer = send(gateway.root_url + path, headers=headers, timeout=10)
        assert not [name for name in answer.headers if name.startswith("Access-Control")]


def test_it_can_be_narrowed(settings: Any) -> None:
    settings.CORS_ALLOW_ORIGINS = ("https://app.example",)

    def read_headers(origin: str) -> dict[str, str]:
        heard: list[tuple[str, str]] = []
        add_headers(origin, lambda status, headers: heard.extend(headers))("200 OK", [])
        return dict(heard)

    assert (
        read_headers("https://app.example")["Access-Control-Allow-Origin"] == "https://app.example"
    )
    assert read_headers("https://other.example") == {"Vary": "Origin"}
    # A name that only begins so is not covered.
    assert (is_covered("/api/v1/key"), is_covered("/api/v1/keys")) == (True, False)
