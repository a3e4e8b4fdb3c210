"""S1 and S8 for every secret there is: shown where it is made or nowhere, at rest only as a hash or
sealed. One table; a secret of a new kind is one entry in it."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from accounts.keystring import hash_key
from routing.simulator.testing import SimulatedUpstream
from tests.accounts.dump import database_text
from tests.support.access_table import TABLE, Row
from tests.support.bed import Bed
from tests.support.catalogue import rewritten
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer
from tests.support.tenants import NAMES

pytestmark = [pytest.mark.both, pytest.mark.thorough]
Orm = Callable[[GatewayServer], AbstractContextManager[None]]
# What an operator gives the processes, each a canary.
IN_ENVIRONMENT = {
    name: f"canary-{name.lower()}-{uuid.uuid4().hex}{uuid.uuid4().hex}"
    for name in (
        *("SECRET_KEY", "VAULT_MASTER_KEY", "ROUTER_USER_HASH_SECRET", "CREDITS_WEBHOOK_SECRET"),
        "VAULT_FORMER_MASTER_KEYS",
    )
}


@dataclass
class Desk:
    """A gateway that logs all it can, an account on it, and every answer that was given."""

    server: GatewayServer
    account: SeededAccount
    simulator: SimulatedUpstream
    answers: list[requests.Response] = field(default_factory=list)

    def ask(self, method: str, path: str, key: str, body: Any = None) -> requests.Response:
        answer = self.server.request(method, f"/api/v1{path}", key=key, json=body)
        self.answers.append(answer)
        return answer

    def manage(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a change, which may show what it made: nobody else may."""
        key = self.account.management_key
        answer = self.server.request(method, f"/api/v1{path}", key=key, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


@dataclass(frozen=True)
class Secret:
    """`plant` makes one and returns it. `at_rest` is what the database holds in its stead; None
    where it holds nothing. `route` is the one that it needs."""

    plant: Callable[[Desk], str]
    at_rest: Callable[[str], str] | None = None
    route: str = "api/v1/key"


def _key_over_the_api(desk: Desk) -> str:
    return str(desk.manage("POST", "/keys", {"name": "k"})["key"])


def _rotated_key(desk: Desk) -> str:
    made = desk.manage("POST", "/keys", {"name": "k"})["data"]["hash"]
    return str(desk.manage("POST", f"/keys/{made}/rotate", {})["key"])


def _former_key(desk: Desk) -> str:
    made = desk.manage("POST", "/keys", {"name": "k"})
    desk.manage("POST", f"/keys/{made['data']['hash']}/rotate", {"grace_seconds": 60})
    return str(made["key"])


def _provider_credential(desk: Desk) -> str:
    """One that travels to its provider."""
    credential = f"canary-provider-{uuid.uuid4().hex}"
    text = rewritten(desk.simulator.url)
    assert text.count("gamma-credential") == 1
    file = desk.server.folder / "canary.yaml"
    file.write_text(text.replace("gamma-credential", credential), encoding="utf-8")
    desk.server.manage("load_catalogue", str(file), "--wait")
    return credential


def _pooled_credential(desk: Desk) -> str:
    """One of several for a provider."""
    credential = f"canary-pooled-{uuid.uuid4().hex}"
    pool = [{"label": "one", "credential": credential}]
    pooled = {"slug": "pooled", "name": "Pooled", "base_url": "http://127.0.0.1:9/v1"}
    file = desk.server.folder / "pooled.yaml"
    text = json.dumps({"providers": [{**pooled, "credentials": pool}]})
    file.write_text(text, encoding="utf-8")
    desk.server.manage("load_catalogue", str(file), "--wait")
    return credential


def _byok_key(desk: Desk) -> str:
    key = f"sk-canary-{uuid.uuid4().hex}"
    told = desk.manage("POST", "/byok", {"provider": "gamma", "key": key})
    assert key not in repr(told)
    return key


def _vault_secret(desk: Desk) -> str:
    return _store_secret(desk, "/vault/secrets/token")


def _intern_secret(desk: Desk) -> str:
    made = desk.ask("POST", "/interns", desk.account.api_key, {"name": "keeper"})
    assert made.status_code == 201, made.text
    return _store_secret(desk, f"/vault/interns/{made.json()['id']}/secrets/token")


def _store_secret(desk: Desk, path: str) -> str:
    value = f"canary-vault-{uuid.uuid4().hex}"
    body = {"value": value, "hosts": ["api.example.com"]}
    told = desk.server.request("PUT", f"/api/v1{path}", key=desk.account.api_key, json=body)
    assert told.status_code == 200, told.text
    assert value not in told.text
    return value


def _from_environment(name: str) -> Callable[[Desk], str]:
    return lambda desk: desk.server.env[name]


SECRETS: dict[str, Secret] = {
    "an inference key": Secret(lambda desk: desk.account.api_key, hash_key),
    "a management key": Secret(lambda desk: desk.account.management_key, hash_key),
    "a key made over the API": Secret(_key_over_the_api, hash_key),
    "a rotated key": Secret(_rotated_key, hash_key),
    "a key that was rotated away": Secret(_former_key, hash_key),
    "a provider's credential": Secret(_provider_credential, lambda _: "v1:"),
    "one of several credentials of a provider's": Secret(_pooled_credential, lambda _: "v1:"),
    "a credential of the caller's own": Secret(_byok_key, lambda _: "v1:", "api/v1/byok"),
    "a secret of a workspace's": Secret(_vault_secret, lambda _: "v1:", "api/v1/vault/secrets"),
    "a secret of an intern's": Secret(_intern_secret, lambda _: "v1:", "api/v1/vault/secrets"),
    **{name: Secret(_from_environment(name)) for name in IN_ENVIRONMENT},
}


@pytest.fixture
def desk(start_gateway: StartGateway, simulator: SimulatedUpstream, tmp_path: Path) -> Desk:
    simulator.clear()
    options: dict[str, Any] = {"LOG_LEVEL": "DEBUG", **IN_ENVIRONMENT}
    server = start_gateway(**options)
    file = tmp_path / "catalogue.yaml"
    file.write_text(rewritten(simulator.url), encoding="utf-8")
    server.manage("load_catalogue", str(file), "--wait")
    return Desk(server, seed_account(server), simulator)


def _use(desk: Desk) -> None:
    """Every route once with each kind of key, for good and ill, and what goes wrong on the way."""
    chat = {"model": "acme/solo", "messages": [{"role": "user", "content": "Hello"}]}
    for status in (200, 401, 500):
        if status != 200:
            step = {"status": status, "json": {"error": {"message": "Wrong key"}}}
            desk.simulator.script("gamma", step)
        desk.ask("POST", "/chat/completions", desk.account.api_key, chat)
    keys = (desk.account.api_key, desk.account.management_key, desk.account.api_key[:-1] + "!")
    for method, row in _rows():
        for key in keys:
            body = json.loads(row.body) if row.body else None
            desk.ask(method, row.path.removeprefix("/api/v1"), key, body)
    wrong = {"X-Signature": "sha256=" + "0" * 64}
    desk.answers.append(desk.server.post("/api/v1/credits/payments", json={}, headers=wrong))
    desk.answers.append(desk.server.get("/admin/login/"))


def _rows() -> Iterator[tuple[str, Row]]:
    """Those of the API that name no object."""
    for methods in TABLE.values():
        for method, rows in methods.items():
            for row in rows:
                if row.path.startswith("/api/v1") and not NAMES.search(row.path + row.body):
                    yield method, row


def test_no_secret_is_anywhere_but_where_it_was_made(desk: Desk, stores: Bed, orm_of: Orm) -> None:
    there = {name: each for name, each in SECRETS.items() if each.route in TABLE}
    planted = {name: each.plant(desk) for name, each in there.items()}
    for name, secret in planted.items():
        if name.startswith("a ") and "key" in name:
            desk.ask("GET", "/key", secret)
    _use(desk)

    with orm_of(desk.server):
        tables = database_text()
    kept = tables + desk.server.log() + _hints(stores)
    told = "".join(f"{answer.headers}{answer.text}" for answer in desk.answers)
    for name, secret in planted.items():
        for shape in _shapes(secret):
            assert shape not in kept, name
            assert shape not in told, name
        held = there[name].at_rest
        assert held is None or held(secret) in tables, name


def _shapes(secret: str) -> list[str]:
    """How it would look: whole; a key's middle, since its ends are its label; as hexadecimal."""
    core = secret[15:-6] if secret.startswith("sk-rt-") else secret
    return [core, core.encode().hex(), core[::-1]]


def _hints(stores: Bed) -> str:
    if not stores.is_postgres:
        return ""
    with redis.Redis.from_url(stores.redis_url) as client:
        return repr([(name, client.dump(name)) for name in client.scan_iter()])


def test_every_secret_in_the_settings_is_in_the_table() -> None:
    text = (Path(__file__).parents[2] / "gateway" / "settings.py").read_text(encoding="utf-8")

    named = set(re.findall(r"(?m)^(\w*(?:SECRET|MASTER_KEY)\w*) = ", text))

    assert named <= set(IN_ENVIRONMENT)
