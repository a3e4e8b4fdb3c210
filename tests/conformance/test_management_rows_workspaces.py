"""Rows 6 to 16 and 20 of the management reference's section 19, and 18 and 19 of the inference
reference's section 12."""

from typing import Any

import pytest
import requests

from tests.conformance.desk import PATIENCE_S, Desk
from tests.conformance.test_management_rows import error_of
from tests.support.server import as_json

pytestmark = pytest.mark.both
WORKSPACES = "/api/v1/workspaces"
PRODUCTION = {"name": "Production", "slug": "production"}
SEARCH = "router:web_search"


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


def ask(desk: Desk, method: str, path: str = "", body: Any = None) -> requests.Response:
    return desk.manage(method, f"/workspaces{path}", body)


def data_of(response: requests.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return as_json(response)["data"]


def create(desk: Desk, **changes: Any) -> requests.Response:
    return ask(desk, "POST", body=PRODUCTION | changes)


def test_a_new_workspace(desk: Desk) -> None:
    data = data_of(create(desk), 201)

    assert (data["slug"], data["updated_at"]) == ("production", None)
    assert data["io_logging_sampling_rate"] == 1
    assert data["created_by"] == desk.account.user_id
    shown = data_of(ask(desk, "GET", f"/{data['id']}"))
    assert shown == data
    assert shown["default_guardrail_id"] not in {data["id"], None}
    assert error_of(create(desk), 400)["message"] == "Workspace slug already exists"
    # A trailing slash keeps the body.
    assert data_of(ask(desk, "PATCH", "/production/", {"name": "P"}))["name"] == "P"


def test_an_inference_key_makes_none(desk: Desk) -> None:
    refused = desk.server.post(WORKSPACES, key=desk.account.api_key, json=PRODUCTION)

    error = error_of(refused, 403)
    assert error["message"] == "Only management keys can perform this operation"
    error_of(ask(desk, "GET", "/production"), 404)


def test_bounds_of_a_new_workspace(desk: Desk) -> None:
    bodies: list[tuple[dict[str, Any], str]] = [
        *(({"name": "x", "slug": slug}, "slug") for slug in ("-bad", "a--b", "Ab", "a" * 51)),
        ({"name": "x"}, "slug"),
        ({"name": "n" * 101, "slug": "x"}, "name"),
        (PRODUCTION | {"description": "d" * 501}, "description"),
        (PRODUCTION | {"io_logging_sampling_rate": 0}, "io_logging_sampling_rate"),
        (PRODUCTION | {"io_logging_sampling_rate": 1.1}, "io_logging_sampling_rate"),
    ]
    for body, path in bodies:
        error = error_of(ask(desk, "POST", body=body), 400)
        assert [issue["path"] for issue in error["metadata"]["issues"]] == [path]
    for query in ("limit=101", "offset=-1"):
        error_of(ask(desk, "GET", f"?{query}"), 400)

    made = data_of(create(desk, io_logging_sampling_rate=0.0001), 201)
    assert made["io_logging_sampling_rate"] == 0.0001


def test_server_tools_to_switch_off(desk: Desk) -> None:
    error = error_of(create(desk, disabled_server_tools=["router:nope"]), 400)
    assert error["message"].startswith("disabled_server_tools.0: Invalid option: expected one of ")

    made = data_of(create(desk, disabled_server_tools=["router:bash"]), 201)
    assert made["disabled_server_tools"] == ["router:bash"]
    # None are null.
    changed = data_of(ask(desk, "PATCH", "/production", {"disabled_server_tools": []}))
    assert changed["disabled_server_tools"] is None
    assert changed["updated_at"] is not None
    assert data_of(ask(desk, "GET", "/production/")) == changed


def test_a_tool_that_is_switched_off(desk: Desk) -> None:
    assert desk.post(tools=[{"type": SEARCH}]).status_code == 400  # Nothing here could run it.

    data_of(ask(desk, "PATCH", "/main", {"disabled_server_tools": [SEARCH]}))
    search: dict[str, Any] = {"tools": [{"type": SEARCH}]}
    desk.server.wait_until(lambda: desk.post(**search).status_code == 403, within_s=PATIENCE_S)
    for kind in (SEARCH, "web_search"):
        error = desk.refused(403, "permission_denied", tools=[{"type": kind}])
        assert error["message"] == f'Server tool "{SEARCH}" is disabled in this workspace'
    assert desk.paid_nano(desk.ok()) > 0


def test_deleting_a_workspace(desk: Desk) -> None:
    made = data_of(create(desk), 201)
    body = {"name": "k", "workspace_id": made["id"]}
    answer = desk.server.post("/api/v1/keys", key=desk.account.management_key, json=body)
    key = data_of(answer, 201)

    error = error_of(ask(desk, "DELETE", "/production"), 400)
    assert error["message"] == "Workspace has active API keys. Delete the keys first."
    assert data_of(ask(desk, "GET", "/production")) == made

    path = f"/api/v1/keys/{key['hash']}"
    gone = desk.server.request("DELETE", path, key=desk.account.management_key)
    assert as_json(gone) == {"deleted": True}
    deleted = ask(desk, "DELETE", "/production")
    assert (deleted.status_code, as_json(deleted)) == (200, {"deleted": True})
    error_of(ask(desk, "GET", f"/{made['id']}"), 404)
    error = error_of(ask(desk, "DELETE", "/default"), 403)
    assert error["message"] == "Deleting the default workspace is not supported"


def test_members_come_and_go(desk: Desk) -> None:
    data_of(create(desk), 201)
    body = {"user_ids": [desk.account.user_id]}

    added = ask(desk, "POST", "/production/members/add", body)

    assert as_json(added)["added_count"] == 1
    (member,) = data_of(added)
    assert member["role"] == "admin"
    listed = as_json(ask(desk, "GET", "/production/members"))
    assert listed == {"data": [member], "total_count": 1}
    removed = ask(desk, "POST", "/production/members/remove", body)
    assert as_json(removed) == {"removed_count": 1}
    assert as_json(ask(desk, "GET", "/production/members"))["total_count"] == 0
