"""Rows 33 to 39 of the management reference's section 19: keys, made, changed and deleted."""

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


class Office:
    """An account's management key at the shared gateway."""

    def __init__(self, server: GatewayServer, owner: SeededAccount) -> None:
        self.server = server
        self.owner = owner

    def ask(self, method: str, path: str = "", **body: Any) -> requests.Response:
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


@pytest.fixture
def office(gateway: GatewayServer, account: Callable[..., SeededAccount]) -> Office:
    return Office(gateway, account())


def test_a_new_key(office: Office) -> None:
    made = office.new(limit=10, limit_reset="daily")

    assert re.fullmatch(r"sk-[a-z]+-v1-[0-9a-f]{64}", made["key"])
    assert made["data"]["hash"] == hashlib.sha256(made["key"].encode()).hexdigest()
    assert made["data"]["limit_remaining"] == 10
    assert made["data"]["limit_reset"] == "daily"
    assert made["data"]["updated_at"] is None


def test_a_key_by_its_hash(office: Office) -> None:
    made = office.new()

    response = office.ask("GET", f"/{made['data']['hash']}")

    assert response.status_code == 200
    assert as_json(response) == {"data": made["data"]}
    assert made["key"] not in response.text
    assert "key" not in as_json(response)["data"]


def test_a_change_of_nothing_and_of_something(office: Office) -> None:
    path = f"/{office.new()['data']['hash']}"

    refused = error_of(office.ask("PATCH", path, foo=1), 400)
    changed = office.ask("PATCH", path, disabled=True)

    assert refused["message"] == "No update fields provided"
    assert changed.status_code == 200
    assert as_json(changed)["data"]["disabled"] is True
    assert as_json(changed)["data"]["updated_at"] is not None


def test_a_disabled_key_asks_about_itself(office: Office) -> None:
    made = office.new()
    office.ask("PATCH", f"/{made['data']['hash']}", disabled=True)

    error = error_of(office.server.get("/api/v1/key", key=made["key"]), 401)

    assert error["message"] == "Invalid API key"


@pytest.mark.parametrize(
    ("expires_at", "status"),
    [("2130-01-01T00:00Z", 400), ("2130-01-01T00:00:00+02:00", 400), ("2130-01-01T00:00:00Z", 201)],
)
def test_when_a_key_expires(office: Office, expires_at: str, status: int) -> None:
    response = office.ask("POST", name="k", expires_at=expires_at)

    assert response.status_code == status
    if status == 201:
        assert as_json(response)["data"]["expires_at"] == "2130-01-01T00:00:00.000Z"
    else:
        issues = error_of(response, status)["metadata"]["issues"]
        assert issues == [{"path": "expires_at", "message": "Invalid ISO datetime"}]


def test_a_disabled_key_is_listed_on_request(office: Office) -> None:
    stays, goes = (office.new()["data"]["hash"] for _ in range(2))
    assert office.hashes() == [goes, stays]

    office.ask("PATCH", f"/{goes}", disabled=True)

    assert office.hashes() == [stays]
    assert office.hashes("?include_disabled=true") == [goes, stays]


def test_a_key_is_deleted_once(office: Office) -> None:
    made = office.new()
    path = f"/{made['data']['hash']}"

    first, second = office.ask("DELETE", path), office.ask("DELETE", path)

    assert (first.status_code, as_json(first)) == (200, {"deleted": True})
    assert error_of(second, 404)["message"] == "Resource not found"
    error_of(office.ask("GET", path), 404)
    error_of(office.ask("PATCH", path, name="again"), 404)
    assert office.hashes("?include_disabled=true") == []
    error_of(office.server.get("/api/v1/key", key=made["key"]), 401)


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_keys_with_a_trailing_slash(office: Office, method: str) -> None:
    one, two = (f"/{office.new()['data']['hash']}" for _ in range(2))

    without = office.ask(method, one, disabled=True)
    with_slash = office.ask(method, f"{two}/", disabled=True)

    assert without.status_code == with_slash.status_code == 200
    assert as_json(without).keys() == as_json(with_slash).keys()
    assert len(office.hashes("/?include_disabled=true")) == (0 if method == "DELETE" else 2)
