"""Keys whose requests are held to a guardrail."""

from typing import Any

from tests.conformance.desk import Desk


def set_guardrail(desk: Desk, **filters: Any) -> None:
    """Hold all keys of the account's workspace to these; the gateway reads its keys anew."""
    account = desk.account
    key: dict[str, Any] = {"key": account.management_key}
    workspace = desk.server.get(f"/api/v1/workspaces/{account.workspace_id}", **key).json()
    path = f"/api/v1/guardrails/{workspace['data']['default_guardrail_id']}"
    answer = desk.server.request("PATCH", path, json=filters, **key)
    assert answer.status_code == 200, answer.text
