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


def ask(desk: Desk, method: str, path: str = "", body: Any = None) -> requests.Response:
    options = {} if body is None else {"json": body}
    key = desk.account.management_key
    return desk.server.request(method, WORKSPACES + path, key=key, **options)


def data_of(response: requests.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return as_json(response)["data"]


def create(desk: Desk, **changes: Any) -> requests.Response:
    return ask(desk, "POST", body=PRODUCTION | changes)


def test_a_new_workspace(desk: Desk) -> None:
    data = data_of(create(desk), 201)

    assert data["slug"] == "production"
    assert data["updated_at"] is None
    assert data["io_logging_sampling_rate"] == 1
    assert data["created_by"] == desk.account.user_id
    shown = data_of(ask(desk, "GET", f"/{data['id']}"))
    assert shown == data
    assert shown["default_guardrail_id"] not in {data["id"], None}


def test_an_inference_key_makes_none(desk: Desk) -> None:
    refused = desk.server.post(WORKSPACES, key=desk.account.api_key, json=PRODUCTION)

    error = error_of(refused, 403)
    assert error["message"] == "Only management keys can perform this operation"
    error_of(ask(desk, "GET", "/production"), 404)


@pytest.mark.parametrize("slug", ["-bad", "a--b", "Ab", "a" * 51])
def test_a_slug_that_is_none(desk: Desk, slug: str) -> None:
    error = error_of(create(desk, name="x", slug=slug), 400)

    assert [issue["path"] for issue in error["metadata"]["issues"]] == ["slug"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"name": "x"}, "slug"),
        ({"name": "n" * 101, "slug": "x"}, "name"),
        (PRODUCTION | {"description": "d" * 501}, "description"),
    ],
)
def test_bounds_of_a_new_workspace(desk: Desk, body: dict[str, Any], path: str) -> None:
    error = error_of(ask(desk, "POST", body=body), 400)

    assert [issue["path"] for issue in error["metadata"]["issues"]] == [path]


@pytest.mark.parametrize(("rate", "status"), [(0, 400), (0.0001, 201), (1.1, 400)])
def test_the_sampling_rate(desk: Desk, rate: float, status: int) -> None:
    answer = create(desk, io_logging_sampling_rate=rate)

    if status == 201:
        assert data_of(answer, 201)["io_logging_sampling_rate"] == rate
    else:
        error_of(answer, status)


def test_server_tools_to_switch_off(desk: Desk) -> None:
    error = error_of(create(desk, disabled_server_tools=["router:nope"]), 400)
    assert error["message"].startswith("disabled_server_tools.0: Invalid option: expected one of ")

    made = data_of(create(desk, disabled_server_tools=["router:bash"]), 201)
    assert made["disabled_server_tools"] == ["router:bash"]


def test_no_tools_are_null(desk: Desk) -> None:
    data_of(create(desk, disabled_server_tools=["router:bash"]), 201)

    changed = data_of(ask(desk, "PATCH", "/production", {"disabled_server_tools": []}))

    assert changed["disabled_server_tools"] is None
    assert changed["updated_at"] is not None
    assert data_of(ask(desk, "GET", "/production/")) == changed


@pytest.mark.parametrize("kind", [SEARCH, "web_search"])
def test_a_tool_that_is_switched_off(desk: Desk, kind: str) -> None:
    tools = [{"type": kind}]
    assert desk.post(tools=tools).status_code == 400  # Nothing here could run it.

    data_of(ask(desk, "PATCH", "/main", {"disabled_server_tools": [SEARCH]}))
    desk.server.wait_until(lambda: desk.post(tools=tools).status_code == 403, within_s=PATIENCE_S)

    error = desk.refused(403, "permission_denied", tools=tools)
    assert error["message"] == f'Server tool "{SEARCH}" is disabled in this workspace'
    assert desk.paid_nano(desk.ok()) > 0


def test_a_slug_twice(desk: Desk) -> None:
    data_of(create(desk), 201)

    assert error_of(create(desk), 400)["message"] == "Workspace slug already exists"


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


def test_the_default_workspace_stays(desk: Desk) -> None:
    error = error_of(ask(desk, "DELETE", "/default"), 403)

    assert error["message"] == "Deleting the default workspace is not supported"


@pytest.mark.parametrize("query", ["limit=101", "offset=-1"])
def test_a_page_out_of_range(desk: Desk, query: str) -> None:
    error_of(ask(desk, "GET", f"?{query}"), 400)


def test_a_change_with_a_trailing_slash_keeps_its_body(desk: Desk) -> None:
    data_of(create(desk), 201)

    assert data_of(ask(desk, "PATCH", "/production/", {"name": "P"}))["name"] == "P"


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


def test_a_default_model_serves_at_once(desk: Desk) -> None:
    body = {"default_text_model": "acme/small", "default_provider_sort": "price"}
    data_of(ask(desk, "PATCH", "/main", body))
    asked = b'{"messages": [{"role": "user", "content": "Hello"}]}'
    desk.server.wait_until(lambda: desk.raw(asked).status_code == 200, within_s=PATIENCE_S)

    assert as_json(desk.raw(asked))["model"] == "acme/small"
