"""Rows 33 to 36 and 39 of the management reference's section 19: keys."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import requests
from pytest_django import DjangoDbBlocker

from accounts.models import AuditRecord
from tests.conformance.desk import Desk
from tests.conformance.test_management_rows import error_of
from tests.support.gateways import SeededAccount
from tests.support.orm import pointed_at
from tests.support.server import GatewayServer, as_json

pytestmark = pytest.mark.both
KEYS = "/api/v1/keys"


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


def test_a_change_is_recorded_with_the_address_and_the_agent_of_its_request(
    own_desk: Desk, django_db_blocker: DjangoDbBlocker
) -> None:
    made = own_desk.server.post(
        "/api/v1/keys",
        key=own_desk.account.management_key,
        json={"name": "from a console"},
        headers={"User-Agent": "console/7 " + "x" * 300},
    )
    assert made.status_code == 201, made.text
    body, agent = {"code": "x"}, {"User-Agent": "app/1"}
    refused = own_desk.server.post("/api/v1/auth/keys", json=body, headers=agent)
    assert refused.status_code == 403, refused.text
    own_desk.server.manage("seed_keys", "--account", "another", "--workspace", "main")

    with pointed_at(own_desk.server.env["DATABASE_URL"], django_db_blocker):
        rows = AuditRecord.objects.filter(object_type="key").order_by("-pk")
        by_request = rows.exclude(management_key=None).get(after__name="from a console")
        by_command = rows.exclude(command="").first()
        of_code = AuditRecord.objects.get(object_type="authorization_code", agent="app/1")
    assert as_json(made)["data"]["name"] == "from a console"
    assert by_request.address == "127.0.0.1"
    assert by_request.agent == ("console/7 " + "x" * 300)[:200]
    assert (of_code.action, of_code.address, of_code.agent) == (
        "exchange refused",
        "127.0.0.1",
        "app/1",
    )
    assert by_command is not None
    assert (by_command.address, by_command.agent) == (None, None)
