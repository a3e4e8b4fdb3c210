"""Rows 64 to 67 of the management reference's section 19: vaults."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
TOKEN = "/vault/secrets/github_token"


class Caller:
    """Who holds an inference key of a workspace of its own."""

    def __init__(self, server: GatewayServer, account: SeededAccount) -> None:
        self._server = server
        self._account = account

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response:
        key = self._account.api_key
        return self._server.request(method, f"/api/v1{path}", key=key, json=body)

    def put(self, path: str = TOKEN, **said: Any) -> requests.Response:
        return self.ask("PUT", path, {"value": "v", "hosts": ["a.b"]} | said)


@pytest.fixture
def k(gateway: GatewayServer, account: Callable[..., SeededAccount]) -> Caller:
    return Caller(gateway, account())


def refused(answer: requests.Response, status: int) -> None:
    """With code and message alone."""
    error = as_json(answer)["error"]
    assert (answer.status_code, set(error)) == (status, {"code", "message"})
    assert error["code"] == status


def test_a_secret_is_stored_and_told_without_its_value(k: Caller) -> None:
    answer = k.put(value="canary-v", hosts=["API.GitHub.com."])
    assert answer.status_code == 200
    data = as_json(answer)["data"]
    assert data["hosts"] == ["api.github.com"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", data["fingerprint"])
    assert "canary" not in answer.text
    assert as_json(k.ask("GET", "/vault/secrets")) == {"data": [data], "has_more": False}


def test_names_hosts_and_fields_are_strict(k: Caller) -> None:
    for name in ("GitHub", "a__b", "a_"):
        refused(k.put(f"/vault/secrets/{name}"), 400)
    for hosts in (["https://x.y"], ["*.x.y"], []):
        refused(k.put(hosts=hosts), 400)
    refused(k.put(extra=1), 400)
    assert as_json(k.ask("GET", "/vault/secrets"))["data"] == []


def test_a_copy_of_something_that_is_not_there_copies_nothing(k: Caller) -> None:
    k.put()
    intern = as_json(k.ask("POST", "/interns", {"name": "research"}))["id"]
    path = f"/vault/interns/{intern}/secrets"
    refused(k.ask("POST", f"{path}/copy", {"names": ["github_token", "none"]}), 404)
    assert as_json(k.ask("GET", path))["data"] == []
    copied = k.ask("POST", f"{path}/copy", {"names": ["github_token"]})
    assert (copied.status_code, len(as_json(copied)["data"])) == (200, 1)


def test_deleting_is_204_once(k: Caller) -> None:
    k.put()
    first, again = k.ask("DELETE", TOKEN), k.ask("DELETE", TOKEN)
    assert (first.status_code, first.content) == (204, b"")
    refused(again, 404)
