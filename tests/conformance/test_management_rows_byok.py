"""Row 77 of the management reference's section 19: credentials that a team brings."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
import requests
import yaml

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.conformance.test_management_rows import error_of
from tests.routing.upstreams.raw_upstream import Peer, RawUpstream
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.own_credentials import ask, fingerprint
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
KEY = "sk-abcd1234efgh"
NEW = {"provider": "openai", "key": KEY}


class Strict:
    """A provider that answers whatever it is asked with one status, and repeats the credential."""

    status = 401

    def __call__(self, peer: Peer) -> None:
        asked = peer.read_request() or b""
        repeated = asked[asked.find(b"Authorization") :].replace(b"\r\n", b" ")
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(repeated)}\r\n"
        peer.send(head.encode() + b"Connection: close\r\n\r\n" + repeated)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, stores: Bed, simulator: SimulatedUpstream
) -> Iterator[GatewayServer]:
    """It knows `openai`, a strict provider and one that is not there."""
    folder = tmp_path_factory.mktemp("byok")
    file = folder / "openai.yaml"
    with RawUpstream(Strict()) as strict, StartGateway(stores, folder) as starter:
        urls = {
            "openai": f"{simulator.url}/openai/v1",
            "strict": f"http://127.0.0.1:{strict.port}/v1",
            "gone": "http://127.0.0.1:9/v1",
        }
        providers = [{"slug": slug, "name": slug, "base_url": url} for slug, url in urls.items()]
        file.write_text(yaml.safe_dump({"providers": providers, "models": []}))
        server = starter.build()
        server.manage("load_catalogue", str(file))
        server.start()
        yield server


@pytest.fixture
def desk(server: GatewayServer, simulator: SimulatedUpstream) -> Desk:
    simulator.clear()
    return Desk(server, simulator, seed_account(server))


def test_a_credential_is_brought_and_not_shown(desk: Desk) -> None:
    answer = ask(desk, "POST", body=NEW)

    assert answer.status_code == 201, answer.text
    data = as_json(answer)["data"]
    assert "key" not in data
    assert KEY not in answer.text
    assert data["label"] == "sk-...efgh"
    (tried,) = desk.upstream.requests("openai")
    assert (tried["method"], tried["path"]) == ("GET", "/openai/v1/models")
    assert tried["headers"]["authorization"] == fingerprint(KEY)
    assert as_json(ask(desk, "GET", f"/{data['id']}"))["data"] == data


def test_no_keys_are_not_all_keys(desk: Desk) -> None:
    error = error_of(ask(desk, "POST", body=NEW | {"allowed_api_key_hashes": []}), 400)

    assert [issue["path"] for issue in error["metadata"]["issues"]] == ["allowed_api_key_hashes"]


def test_a_provider_is_believed_in_what_it_refuses_and_nothing_else(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = NEW | {"provider": "strict"}
    for status in (401, 403):
        monkeypatch.setattr(Strict, "status", status)
        refused = ask(desk, "POST", body=new)
        error = error_of(refused, 400)
        assert [issue["path"] for issue in error["metadata"]["issues"]] == ["key"]
        assert str(status) in error["message"]
        assert KEY not in refused.text
    assert as_json(ask(desk, "GET"))["total_count"] == 0

    for status in (404, 429, 500):
        monkeypatch.setattr(Strict, "status", status)
        assert ask(desk, "POST", body=new).status_code == 201
    assert ask(desk, "POST", body=NEW | {"provider": "gone"}).status_code == 201
    assert KEY not in desk.server.log()


def test_an_inference_key_manages_none(desk: Desk) -> None:
    refused = desk.server.post("/api/v1/byok", key=desk.account.api_key, json=NEW)

    message = error_of(refused, 403)["message"]
    assert message == "Only management keys can perform this operation"
    assert desk.upstream.requests() == []


def test_many_at_once_get_a_place_each(desk: Desk) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(desk, "POST", body=NEW), range(12)))

    assert {answer.status_code for answer in answers} == {201}
    places = [as_json(answer)["data"]["sort_order"] for answer in answers]
    assert sorted(places) == list(range(12))
    path = f"/{as_json(answers[0])['data']['id']}"
    with ThreadPoolExecutor(8) as pool:
        changed = list(pool.map(lambda n: ask(desk, "PATCH", path, {"name": str(n)}), range(12)))
    assert {answer.status_code for answer in changed} <= {200, 409}
    won = {as_json(answer)["data"]["name"] for answer in changed if answer.status_code == 200}
    assert as_json(ask(desk, "GET", path))["data"]["name"] in won


def test_an_operator_brings_one_on_a_running_gateway(desk: Desk, orm_of: Orm) -> None:
    with orm_of(desk.server):
        from accounts.models import User

        User.objects.create_superuser("operator", password="a-long-password-1")
    root = desk.server.root_url
    with requests.Session() as browser:

        def post(path: str, **typed: str) -> requests.Response:
            token = (
                browser.get(root + path).cookies.get("csrftoken") or browser.cookies["csrftoken"]
            )
            return browser.post(root + path, data=typed | {"csrfmiddlewaretoken": token})

        post("/admin/login/", username="operator", password="a-long-password-1")
        page = "/admin/accounts/byokcredential/add/"
        done = post(page, account=desk.account.account_id, provider="openai", key=KEY)

    assert done.status_code == 200
    assert "The key was tried: the provider answered 200." in done.text
    (tried,) = desk.upstream.requests("openai")
    assert tried["headers"]["authorization"] == fingerprint(KEY)
    assert KEY not in done.text + desk.server.log()
    (everywhere,) = as_json(ask(desk, "GET"))["data"]
    assert (everywhere["workspace_id"], everywhere["label"]) == (None, "sk-...efgh")
