"""The console as web processes serve it, on their event loop."""

import gzip
import re

import pytest
import requests

from tests.support.catalogue import rewritten
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer

pytestmark = [pytest.mark.both, pytest.mark.thorough]


# Of a model and of a provider there are charts.
PATHS = (
    *("/", "/console/requests", "/console/playground", "/console/models", "/console/providers"),
    *("/console/models/acme/small", "/console/providers/alpha", "/console/keys/new"),
    *("/console/guardrails/new", "/console/decisions", "/console/interns/new"),
    *("/console/settings", "/console/you"),
)
FIRST_LOAD_BYTES_MAX = 250_000


def sign_in(server: GatewayServer) -> tuple[requests.Session, requests.Response]:
    """A browser in which somebody is signed in, and the page they came to."""
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
    return browser, home


def test_no_page_has_more_than_250_kb_with_its_files_which_are_compressed(
    start_gateway: StartGateway,
) -> None:
    server = start_gateway.with_catalogue(rewritten("http://127.0.0.1:9"))
    browser, home = sign_in(server)
    assert (home.status_code, "Make your first request" in home.text) == (200, True)
    sizes: dict[str, int] = {}

    def load(path: str) -> tuple[int, str]:
        """The bytes as they came, and the text in them."""
        headers = {"Accept": "text/html", "Accept-Encoding": "gzip"}
        with browser.get(server.root_url + path, headers=headers, stream=True, timeout=30) as got:
            assert (path, got.status_code) == (path, 200)
            came = got.raw.read()
        is_packed = got.headers.get("Content-Encoding") == "gzip"
        return len(came), (gzip.decompress(came) if is_packed else came).decode()

    for path in PATHS:
        size, page = load(path)
        files = set(re.findall(r'(?:href|src)="(/static/[^"#]+)', page))
        assert any(file.endswith("console.css") for file in files)
        sizes[path] = size + sum(load(file)[0] for file in files)

    assert {path: size for path, size in sizes.items() if size > FIRST_LOAD_BYTES_MAX} == {}
    check_compression(f"{server.root_url}/static/console/console.css")


def check_compression(url: str) -> None:
    packed = requests.get(url, headers={"Accept-Encoding": "gzip"}, timeout=30)
    plain = requests.get(url, headers={"Accept-Encoding": "identity"}, timeout=30)

    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.content == plain.content
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    seen = {"If-Modified-Since": packed.headers["Last-Modified"]}
    assert requests.get(url, headers=seen, timeout=30).status_code == 304
