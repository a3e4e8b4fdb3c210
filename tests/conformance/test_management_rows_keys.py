"""Rows 33 to 39 and 64 to 67 of the management reference's section 19: keys and vaults."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.conformance.test_management_rows import error_of
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
KEYS = "/api/v1/keys"
TOKEN = "/vault/secrets/github_token"


class Office:
    """An account's keys at the shared gateway."""

    def __init__(self, server: GatewayServer, owner: SeededAccount) -> None:
        self.server = server
        self.owner = owner

    def ask(self, method: str, path: str = "", **body: Any) -> requests.Response:
        """About keys, with the management key."""
        sent = {"json": body} if body else {}
        return self.server.request(method, KEYS + path, key=self.owner.management_key, **sent)

    def new(self, **body: Any) -> Any:
        response = self.ask("POST", **({"name": "k"} | body))
        assert response.status_code == 201, response.text
        return as_json(response)

    def hashes(self, query: str = "") -> list[str]:
        response = self.ask("GET", query)
        assert response.status_code == 200, response.text
        return [key["hash"] for key in as_json(response)["data"]]

    def use(self, method: str, path: str, body: Any = None) -> requests.Response:
        """With the inference key."""
        return self.server.request(method, f"/api/v1{path}", key=self.owner.api_key, json=body)

    def put(self, path: str = TOKEN, **said: Any) -> requests.Response:
        return self.use("PUT", path, {"value": "v", "hosts": ["a.b"]} | said)


@pytest.fixture
def office(gateway: GatewayServer, account: Callable[..., SeededAccount]) -> Office:
    return Office(gateway, account())


def test_a_new_key_is_shown_once_and_opens_the_door(office: Office) -> None:
    made = office.new(limit=10, limit_reset="daily")

    string, data = made["key"], made["data"]
    assert re.fullmatch(r"sk-[a-z]+-v1-[0-9a-f]{64}", string)
    assert data["hash"] == hashlib.sha256(string.encode()).hexdigest()
    assert (data["limit_remaining"], data["limit_reset"]) == (10, "daily")
    assert data["updated_at"] is None
    shown = office.ask("GET", f"/{data['hash']}")
    assert (shown.status_code, as_json(shown)) == (200, {"data": data})
    assert string not in shown.text
    about = office.server.get("/api/v1/key", key=string)
    assert as_json(about)["data"]["limit"] == 10


def test_who_makes_no_key(office: Office, account: Callable[..., SeededAccount]) -> None:
    error_of(office.server.post(KEYS, key=office.owner.api_key, json={"name": "k"}), 403)
    error = error_of(office.ask("POST", name="k", workspace_id=account().workspace_id), 400)
    assert error["message"].startswith("workspace_id: ")


def test_a_change_of_nothing_and_of_something(office: Office) -> None:
    made = office.new()
    path = f"/{made['data']['hash']}"

    refused = error_of(office.ask("PATCH", path, foo=1), 400)
    changed = office.ask("PATCH", path, disabled=True)

    assert refused["message"] == "No update fields provided"
    assert changed.status_code == 200
    assert as_json(changed)["data"]["disabled"] is True
    assert as_json(changed)["data"]["updated_at"] is not None
    # It asks about itself no more.
    error = error_of(office.server.get("/api/v1/key", key=made["key"]), 401)
    assert error["message"] == "Invalid API key"


def test_when_a_key_expires(office: Office) -> None:
    for wrong in ("2130-01-01T00:00Z", "2130-01-01T00:00:00+02:00"):
        error = error_of(office.ask("POST", name="k", expires_at=wrong), 400)
        assert error["metadata"]["issues"] == [
            {"path": "expires_at", "message": "Invalid ISO datetime"}
        ]
    made = office.new(expires_at="2130-01-01T00:00:00Z")
    assert made["data"]["expires_at"] == "2130-01-01T00:00:00.000Z"


def test_a_disabled_key_is_listed_on_request(office: Office) -> None:
    stays, goes = (office.new()["data"]["hash"] for _ in range(2))
    assert office.hashes() == [goes, stays]

    # With a trailing slash as without one.
    office.ask("PATCH", f"/{goes}/", disabled=True)

    assert office.hashes() == [stays]
    assert office.hashes("/?include_disabled=true") == [goes, stays]


def test_a_key_is_deleted_once(office: Office) -> None:
    made = office.new()
    path = f"/{made['data']['hash']}"

    first, second = office.ask("DELETE", path + "/"), office.ask("DELETE", path)

    assert (first.status_code, as_json(first)) == (200, {"deleted": True})
    assert error_of(second, 404)["message"] == "Resource not found"
    error_of(office.ask("GET", path), 404)
    error_of(office.ask("PATCH", path, name="again"), 404)
    assert office.hashes("?include_disabled=true") == []
    error_of(office.server.get("/api/v1/key", key=made["key"]), 401)


# --- Vaults ---------------------------------------------------------------------------------------


def refused(answer: requests.Response, status: int) -> None:
    """With code and message alone."""
    error = as_json(answer)["error"]
    assert (answer.status_code, set(error)) == (status, {"code", "message"})
    assert error["code"] == status


def test_a_secret_is_stored_and_told_without_its_value(office: Office) -> None:
    answer = office.put(value="canary-v", hosts=["API.GitHub.com."])

    assert answer.status_code == 200
    data = as_json(answer)["data"]
    assert data["hosts"] == ["api.github.com"]
    assert re.fullmatch("sha256:[0-9a-f]{64}", data["fingerprint"])
    assert "canary" not in answer.text
    assert as_json(office.use("GET", "/vault/secrets")) == {"data": [data], "has_more": False}
    first, again = office.use("DELETE", TOKEN), office.use("DELETE", TOKEN)
    assert (first.status_code, first.content) == (204, b"")
    refused(again, 404)


def test_names_hosts_and_fields_of_secrets_are_strict(office: Office) -> None:
    for name in ("GitHub", "a__b", "a_"):
        refused(office.put(f"/vault/secrets/{name}"), 400)
    for hosts in (["https://x.y"], ["*.x.y"], []):
        refused(office.put(hosts=hosts), 400)
    refused(office.put(extra=1), 400)
    assert as_json(office.use("GET", "/vault/secrets"))["data"] == []


def test_a_copy_of_something_that_is_not_there_copies_nothing(office: Office) -> None:
    office.put()
    intern = as_json(office.use("POST", "/interns", {"name": "research"}))["id"]
    path = f"/vault/interns/{intern}/secrets"
    refused(office.use("POST", f"{path}/copy", {"names": ["github_token", "none"]}), 404)
    assert as_json(office.use("GET", path))["data"] == []
    copied = office.use("POST", f"{path}/copy", {"names": ["github_token"]})
    assert (copied.status_code, len(as_json(copied)["data"])) == (200, 1)
