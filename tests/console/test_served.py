"""The console as web processes serve it, on their event loop."""

import re

import pytest
import requests

from tests.support.gateways import StartGateway

pytestmark = [pytest.mark.both, pytest.mark.thorough]


def test_a_list_is_served_beside_requests(start_gateway: StartGateway) -> None:
    server = start_gateway()
    server.manage("seed_keys", "--account", "acme", "--workspace", "main")
    link = server.manage("console_link", "--user", "acme-admin")["path"]
    browser = requests.Session()
    form = browser.get(server.root_url + link, timeout=30).text
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)

    home = browser.post(
        server.root_url + link,
        data={"csrfmiddlewaretoken": token},
        headers={"Accept": "text/html"},
        timeout=30,
    )

    assert (home.status_code, "Make your first request" in home.text) == (200, True)
    keys = browser.get(f"{server.root_url}/console/keys", timeout=30)
    assert (keys.status_code, "seeded key" in keys.text) == (200, True)
    style = browser.get(f"{server.root_url}/static/console/console.css", timeout=30)
    assert (style.status_code, style.headers["Content-Type"][:8]) == (200, "text/css")
