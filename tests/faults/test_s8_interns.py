"""S8 and S5 for interns, over HTTP: canaries in a vault, in instructions and on a disk show up
nowhere but where they belong, whatever goes wrong, and no request reaches what it must not."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from interns.models import Intern, Status
from tests.accounts.dump import database_text
from tests.faults.test_s5_addresses import LITERALS
from tests.interns.outbound.site import Site, serve_site
from tests.support.gateways import StartGateway, seed_account
from tests.support.server import GatewayServer, as_json

pytestmark = [pytest.mark.both, pytest.mark.thorough]
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
SECRET = f"canary-secret-{uuid.uuid4().hex}"
TOLD = f"canary-instructions-{uuid.uuid4().hex}"
SHORT = {
    "LOG_LEVEL": "DEBUG",
    "INTERN_FETCH_PRIVATE_HOSTS": "localhost,127.0.0.1",
    "INTERN_FETCH_SECONDS": "2",
    "INTERN_FETCH_RPM": "0",
}


class Scene:
    """A running intern with a secret and instructions, and all that anybody was told."""

    def __init__(self, server: GatewayServer, orm_of: Orm) -> None:
        self.server = server
        self.account = seed_account(server)
        self.answers: list[requests.Response] = []
        told = {"name": "keeper", "instructions": TOLD}
        made = server.request("POST", "/api/v1/interns", key=self.account.api_key, json=told)
        self.intern = as_json(made)["id"]
        with orm_of(server):
            self.key = self._running()

    def _running(self) -> str:
        """As after a boot, with a key of its own."""
        from accounts.models import ApiKey
        from accounts.services.keys import create_key

        row = Intern.objects.get(pk=self.intern)
        workspace = row.workspace
        key, string = create_key(account=workspace.account, name="own", workspace=workspace)
        ApiKey.objects.filter(pk=key.pk).update(intern_id=row.pk)
        Intern.objects.filter(pk=row.pk).update(
            status=Status.RUNNING, api_key=key, booted_at=datetime.now(UTC)
        )
        return string

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> requests.Response:
        key = key or self.account.api_key
        answer = self.server.request(method, f"/api/v1{path}", key=key, json=body)
        self.answers.append(answer)
        return answer

    def fetch(self, **body: Any) -> requests.Response:
        return self.ask("POST", f"/interns/{self.intern}/fetch", body, self.key)

    def told(self) -> str:
        return "".join(f"{answer.headers}{answer.text}" for answer in self.answers)


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture
def scene(start_gateway: StartGateway, orm_of: Orm) -> Scene:
    return Scene(start_gateway(**SHORT), orm_of)


def test_s8_no_canary_of_an_intern_s_shows_up(scene: Scene, site: Site, orm_of: Orm) -> None:
    body = {"value": SECRET, "hosts": ["127.0.0.1", "localhost"]}
    assert scene.ask("PUT", "/vault/secrets/token", body).status_code == 200
    assert scene.ask("PUT", f"/vault/interns/{scene.intern}/secrets/own", body).ok
    say = {"X-Say": "{{secret:token}}", "Authorization": "Bearer {{secret:own}}"}
    paths = ("/spelled", "/drip", "/zipped", "/bytes", "/cut", "/silent", "/bomb", "/nowhere")
    for path in paths:
        url = f"{site.url}{path}?{{{{secret:token}}}}"
        scene.fetch(url=url, method="POST", headers=say, body="{{secret:own}}", max_bytes=500)
    for to in (f"{site.named}/spelled", "http://10.0.0.1/", "http://127.0.0.1:1/", "file:///x"):
        scene.fetch(url=f"{site.url}/redirect?to={to}", headers=say)
    for wrong in ({"value": SECRET, "hosts": []}, {"value": [SECRET]}, {"names": [SECRET]}):
        scene.ask("PUT", "/vault/secrets/other", wrong)
        scene.ask("POST", f"/vault/interns/{scene.intern}/secrets/copy", wrong)
    for path in ("", "/secrets", "/effective-secrets", "/connections"):
        scene.ask("GET", f"/vault/interns/{scene.intern}{path}", key=scene.key)
    assert any(SECRET in met.headers.get("x-say", "") for met in site.met), "it went out"

    with orm_of(scene.server):
        tables = database_text()
        Intern.objects.filter(pk=scene.intern).update(instructions=None)
        without = database_text()
    log = scene.server.log()
    for canary in (SECRET, SECRET[::-1], SECRET.encode().hex()):
        assert canary not in tables
        assert canary not in log
        assert canary not in scene.told()
    assert TOLD in tables
    assert TOLD not in without
    assert TOLD not in log


@pytest.mark.parametrize("spelled", LITERALS)
def test_s5_no_spelling_of_a_private_address_is_fetched(shared: Scene, spelled: str) -> None:
    for port in ("", ":8080"):
        answer = shared.fetch(url=f"http://{spelled}{port}/", timeout_seconds=1)
        assert (answer.status_code, as_json(answer)["error"]["metadata"]["reason"]) in (
            (403, "target_not_allowed"),
            # No address, or a name that nobody knows.
            (502, "site_unreachable"),
        ), answer.text
    assert "connect to" not in answer.text


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Scene]:
    """One gateway that lets interns reach no private host at all."""
    from tests.conftest import BED
    from tests.support.orm import pointed_at

    options = {**SHORT, "INTERN_FETCH_PRIVATE_HOSTS": ""}
    with StartGateway(BED, tmp_path_factory.mktemp("guarded")) as starter:
        server = starter(**options)
        yield Scene(server, lambda it: pointed_at(it.env["DATABASE_URL"], django_db_blocker))


def test_s5_a_redirect_to_a_private_address_is_not_followed(scene: Scene, site: Site) -> None:
    for to in ("http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://0x7f.1:8080/"):
        answer = scene.fetch(url=f"{site.url}/redirect?to={to}")
        assert as_json(answer)["error"]["metadata"]["reason"] == "target_not_allowed", answer.text
    assert len(site.met) == 3


def test_the_door_is_quick_and_keeps_the_loop_turning(scene: Scene, site: Site) -> None:
    """Large answers with several secrets to look for, while others are served."""
    for number in range(5):
        body = {"value": f"{SECRET}-{number}", "hosts": ["127.0.0.1"]}
        scene.ask("PUT", f"/vault/secrets/s{number}", body)
    said = scene.fetch(url=f"{site.url}/large?bytes=5000000", max_bytes=5_242_880)
    assert (said.status_code, len(json.loads(said.text)["body"])) == (200, 5_000_000)
    assert scene.server.get("/healthz").status_code == 200
