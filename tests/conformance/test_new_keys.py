"""POST /keys over HTTP: the new key works, and only its maker ever saw it."""

import hashlib
import re


def test_a_new_key_is_shown_once_and_opens_the_door(gateway, account):
    owner = account(credits_usd="1")

    made = gateway.post("/api/v1/keys", key=owner.management_key, json={"name": "k", "limit": 0.5})
    again = gateway.get("/api/v1/key", key=made.json()["key"])

    assert made.status_code == 201
    string, data = made.json()["key"], made.json()["data"]
    assert re.fullmatch(r"sk-[a-z]+-v1-[0-9a-f]{64}", string)
    assert data["hash"] == hashlib.sha256(string.encode()).hexdigest()
    assert (data["limit"], data["limit_remaining"], data["updated_at"]) == (0.5, 0.5, None)
    assert string not in str(data)
    assert again.json()["data"]["limit"] == 0.5


def test_an_inference_key_makes_no_keys(gateway, account):
    refused = gateway.post("/api/v1/keys", key=account().api_key, json={"name": "k"})

    assert refused.status_code == 403


def test_another_accounts_workspace_is_none(gateway, account):
    mine, other = account(), account()

    body = {"name": "k", "workspace_id": other.workspace_id}
    refused = gateway.post("/api/v1/keys", key=mine.management_key, json=body)

    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("workspace_id: ")
