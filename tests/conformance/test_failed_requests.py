"""Refused and failed requests are on record, and their callers find them by the request id."""

from typing import Any

import pytest
from django.db.models import Q

from tests.conformance.desk import CHAT, HELLO, Desk
from tests.support.server import as_json


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ({"model": "nobody/knows"}, 400, "unknown_model"),
        ({"temperature": 99}, 400, "invalid_request"),
        ({"provider": {"only": ["nobody"]}}, 404, "no_endpoint"),
    ],
)
def test_a_refused_request_is_found_by_its_request_id(
    own_wide_desk: Desk, asked: dict[str, Any], status: int, reason: str
) -> None:
    desk = own_wide_desk
    response = desk.post(**{"model": "acme/small", **asked})
    assert response.status_code == status, response.text

    record = desk.wait_record(response.headers["X-Request-Id"])

    error = as_json(response)["error"]
    assert (record["id"], record["total_cost"]) == (None, 0)
    assert record["request_id"] == response.headers["X-Request-Id"]
    assert record["model"] == asked.get("model", "acme/small")
    assert (record["format"], record["workspace_id"]) == ("chat", desk.account.workspace_id)
    assert (record["error"]["code"], record["error"]["reason"]) == (status, reason)
    assert record["error"]["message"] == error["message"]


def test_a_refusal_has_the_tags_of_its_request(own_wide_desk: Desk) -> None:
    desk, only = own_wide_desk, {"only": ["nobody"]}
    refused = desk.post(
        model="acme/small", provider=only, headers={"X-Tags": "team=blue"}, metadata={"run": "7"}
    )
    odd = desk.post(model="acme/small", headers={"X-Tags": "team"}, metadata={"run": "7"})

    record = desk.wait_record(refused.headers["X-Request-Id"])

    assert record["tags"] == {"team": "blue", "run": "7"}
    assert odd.status_code == 400
    message = as_json(odd)["error"]["message"]
    assert message == "X-Tags: Invalid input: expected name=value pairs with commas between"


def test_a_request_that_every_upstream_failed_is_found_by_either_id(own_wide_desk: Desk) -> None:
    desk = own_wide_desk
    desk.upstream.script("alpha", {"status": 500}, repeat=True)
    response = desk.post(model="acme/small", provider={"only": ["alpha"]})
    assert response.status_code == 502

    request_id = response.headers["X-Request-Id"]
    desk.wait_record(request_id)
    # The generation's own record says more.
    desk.server.wait_until(lambda: "message" in desk.generation(request_id)["error"])
    record = desk.generation(request_id)

    assert record["id"] == response.headers["X-Generation-Id"]
    told = as_json(response)["error"]
    assert record["error"].pop("metadata")["provider_name"] == told["metadata"]["provider_name"]
    assert record["error"] == {
        "code": 502,
        "error_type": "provider_unavailable",
        "reason": "provider_unavailable",
        "message": told["message"],
    }


def test_nobody_else_finds_it(own_wide_desk: Desk, own_desk: Desk) -> None:
    request_id = own_desk.post(model="nobody/knows").headers["X-Request-Id"]
    own_desk.wait_record(request_id)

    stranger = own_wide_desk.server.get(
        f"/api/v1/generation?id={request_id}",
        key=own_wide_desk.account.api_key,
    )

    assert stranger.status_code == 404


def test_wrong_keys_are_counted_by_address_and_first_characters(
    own_desk: Desk, orm_of: Any
) -> None:
    wrong = own_desk.account.api_key[:-1] + "x"
    for key in (wrong, wrong, wrong, "hunter2"):
        sent = own_desk.server.post(CHAT, key=key, json={"model": "acme/solo", "messages": HELLO})
        assert sent.status_code == 401

    from routing.reports.models import FailedRequestCount

    with orm_of(own_desk.server):
        # Of a short one less than half is kept.
        counts = FailedRequestCount.objects.filter(
            Q(key_prefix=wrong[:12]) | Q(key_prefix__startswith="hun"), status=401
        )
        own_desk.server.wait_until(lambda: sum(counts.values_list("requests", flat=True)) >= 4)
        rows = list(counts.order_by("key_prefix"))

    assert [(row.key_prefix, row.requests) for row in rows] == [("hun", 1), (wrong[:12], 3)]
    for row in rows:
        assert (row.address, row.reason, row.account_id) == ("127.0.0.1", "invalid_key", None)


def test_a_known_key_that_may_not_come_in_is_on_record_for_its_team(own_wide_desk: Desk) -> None:
    desk, asked = own_wide_desk, {"model": "acme/small", "messages": HELLO}
    manager = desk.server.post(CHAT, key=desk.account.management_key, json=asked)
    made = as_json(desk.manage("POST", "/keys", {"name": "elsewhere"}))
    change = {"allowed_ips": ["203.0.113.9"]}
    desk.manage("PATCH", f"/keys/{made['data']['hash']}", change)
    elsewhere = desk.server.post(CHAT, key=made["key"], json=asked)
    desk.manage("PATCH", f"/keys/{made['data']['hash']}", {"disabled": True})
    disabled = desk.server.post(CHAT, key=made["key"], json=asked)
    its_workspace = made["data"]["workspace_id"]

    for refused, status, reason, workspace in (
        (manager, 401, "management_key", None),
        (elsewhere, 403, "key_address", its_workspace),
        (disabled, 401, "key_disabled", its_workspace),
    ):
        assert refused.status_code == status, refused.text
        record = desk.wait_record(refused.headers["X-Request-Id"])
        assert (record["error"]["code"], record["error"]["reason"]) == (status, reason)
        assert record["workspace_id"] == workspace


@pytest.mark.parametrize("own_id", [None, "of-my-own"])
def test_an_answered_request_is_found_by_its_request_id(
    own_wide_desk: Desk, own_id: str | None
) -> None:
    headers = {} if own_id is None else {"X-Request-Id": own_id}
    response = own_wide_desk.post(headers=headers, model="acme/small")
    assert response.status_code == 200

    record = own_wide_desk.wait_record(response.headers["X-Request-Id"])

    assert record["id"] == response.headers["X-Generation-Id"]
    assert record["request_id"] == response.headers["X-Request-Id"]
