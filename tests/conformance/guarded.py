"""Guardrails over their API."""

from typing import Any

import requests

from tests.conformance.desk import Desk
from tests.support.server import as_json

GUARDRAILS = "/api/v1/guardrails"


def manage(desk: Desk, method: str, path: str = "", body: Any = None) -> requests.Response:
    return desk.manage(method, f"/guardrails{path}", body)


def read_ok(response: requests.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return as_json(response)


def make_guardrail(desk: Desk, **said: Any) -> str:
    """A new guardrail's id."""
    answer = read_ok(manage(desk, "POST", body={"name": "g", **said}), 201)
    its_id: str = answer["data"]["id"]
    return its_id


def make_assigned(desk: Desk, **said: Any) -> str:
    """A guardrail of the desk's own key."""
    its_id = make_guardrail(desk, **said)
    body = {"key_hashes": [desk.account.api_key_hash]}
    answer = read_ok(manage(desk, "POST", f"/{its_id}/assignments/keys", body))
    assert answer == {"assigned_count": 1}
    return its_id


def set_guardrail(desk: Desk, **filters: Any) -> None:
    """Hold all keys of the desk's workspace to these."""
    read_ok(manage(desk, "PATCH", f"/{default_id(desk)}", filters))


def default_id(desk: Desk) -> str:
    """The id of the default guardrail of the desk's workspace."""
    answer = read_ok(desk.manage("GET", f"/workspaces/{desk.account.workspace_id}"))
    its_id: str = answer["data"]["default_guardrail_id"]
    return its_id
