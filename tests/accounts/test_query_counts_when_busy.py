"""No endpoint asks more than six times where there is much to look at: requests under way, budgets,
guardrails, a full workspace; nor, beside what an `Idempotency-Key` itself asks, with one."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from accounts.models import ApiKey, Guardrail, Hold, Workspace
from accounts.services.accounts import open_workspace
from accounts.services.guardrail_assignments import assign_keys, assign_members
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.keys import create_key
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from accounts.services.workspace_members import add_members
from interns.models import Vault
from interns.vault.secrets import Stored, put_secret
from interns.vault.service import workspace_vault
from tests.accounts.test_query_counts import QUERIES_MAX, counted, loaded
from tests.support.access_table import TABLE
from tests.support.tenants import THINGS, Tenant, asked_of, expected, new_tenant, rows_of

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.thorough]
USD = 1_000_000_000
HOLDS = 5
# Its claim before, and what was answered behind.
ONCE = 2
_numbers = itertools.count(1)


class Scene(NamedTuple):
    """A tenant of whom requests are under way; `key` is under a guardrail with a budget, and so is
    `user`, whose key it is. `full` is a workspace that has one of everything."""

    tenant: Tenant
    key: ApiKey
    user: str
    guardrail: str
    other: str
    full: Workspace


@pytest.fixture
def scene() -> Iterator[Scene]:
    with loaded():
        tenant = new_tenant("busy")
        account = tenant.account.pk
        key, _ = create_key(
            account=tenant.account,
            name="busy",
            workspace=tenant.workspace,
            creator=tenant.admin,
            limit_nano=USD,
            limit_reset="daily",
        )
        for limit, interval in ((1, "daily"), (2, "weekly"), (3, "monthly")):
            set_budget(
                account_id=account,
                reference="default",
                interval=interval,
                limit_nano=limit * USD,
                include_byok=None,
                by=SYSTEM,
            )
        rails = [_guardrail(tenant) for _ in range(2)]
        assigned: dict[str, Any] = {
            "account_id": account,
            "guardrail_id": rails[0].pk,
            "by": SYSTEM,
        }
        assign_keys(**assigned, assigner=None, key_hashes=[key.hash])
        assign_members(**assigned, assigner=None, user_ids=[tenant.admin.public_id])
        default = tenant.workspace.default_guardrail_id
        budget = {"limit_nano": USD, "reset_interval": "daily"}
        change_guardrail(account_id=account, guardrail_id=default, by=SYSTEM, changes=budget)
        THINGS["credential"].make(tenant)
        for _ in range(HOLDS):
            _hold(tenant, key)
        full = _full_workspace(tenant)
        yield Scene(tenant, key, tenant.admin.public_id, str(rails[0].pk), str(rails[1].pk), full)


def _guardrail(tenant: Tenant) -> Guardrail:
    return create_guardrail(
        account_id=tenant.account.pk,
        workspace_id=None,
        by=SYSTEM,
        settings={"name": "g", "limit_nano": USD, "reset_interval": "monthly"},
    )


def _hold(tenant: Tenant, key: ApiKey) -> None:
    now = datetime.now(UTC)
    Hold.objects.create(
        generation_id=f"gen-{next(_numbers)}",
        account=tenant.account,
        workspace=tenant.workspace,
        api_key=key,
        amount_nano=5,
        counter_ids="0",
        model="acme/small",
        created_at=now,
        lease_expires_at=now + timedelta(minutes=15),
    )


def _full_workspace(tenant: Tenant) -> Workspace:
    made = open_workspace(account=tenant.account, slug="full")
    create_key(account=tenant.account, name="k", workspace=made)
    ApiKey.objects.filter(workspace=made).update(disabled=True)
    for name in ("preset", "credential", "guardrail"):
        rows = THINGS[name].make(tenant)[1]
        assert rows is not None
        rows.update(workspace=made)
    vault = workspace_vault(made.pk)
    put_secret(
        vaults=Vault.objects.filter(pk=vault.pk),
        stored=Stored("token", "value", ["api.example.com"]),
        account_id=tenant.account.pk,
        by=SYSTEM,
    )
    names: dict[str, Any] = {"account_id": tenant.account.pk, "reference": "full", "by": SYSTEM}
    add_members(**names, user_ids=[tenant.admin.public_id])
    set_budget(**names, interval="daily", limit_nano=USD, include_byok=None)
    return made


CALLS = {
    "a budget changed": ("PUT", "/workspaces/default/budgets/daily", '{"limit_usd": 0.5}'),
    "a budget made": ("PUT", "/workspaces/default/budgets/lifetime", '{"limit_usd": 9}'),
    "BYOK counted": (
        "PUT",
        "/workspaces/default/budgets/daily",
        '{"limit_usd": 0.5, "include_byok_in_budgets": true}',
    ),
    "a budget deleted": ("DELETE", "/workspaces/default/budgets/weekly", ""),
    "a guardrail's budget raised": ("PATCH", "/guardrails/{guardrail}", '{"limit_usd": 2}'),
    "a guardrail's window moved": (
        "PATCH",
        "/guardrails/{guardrail}",
        '{"limit_usd": 2, "reset_interval": "daily"}',
    ),
    "a guardrail deleted": ("DELETE", "/guardrails/{guardrail}", ""),
    "a default guardrail's budget": (
        "PATCH",
        "/guardrails/{default}",
        '{"limit_usd": 2, "reset_interval": "weekly"}',
    ),
    "a default guardrail reset": ("DELETE", "/guardrails/{default}", ""),
    "a key under another guardrail": (
        "POST",
        "/guardrails/{other}/assignments/keys",
        '{"key_hashes": ["{key}"]}',
    ),
    "a key under the same": (
        "POST",
        "/guardrails/{guardrail}/assignments/keys",
        '{"key_hashes": ["{key}"]}',
    ),
    "a key set free": (
        "POST",
        "/guardrails/{guardrail}/assignments/keys/remove",
        '{"key_hashes": ["{key}"]}',
    ),
    "a member under another guardrail": (
        "POST",
        "/guardrails/{other}/assignments/members",
        '{"member_user_ids": ["{user}"]}',
    ),
    "a member set free": (
        "POST",
        "/guardrails/{guardrail}/assignments/members/remove",
        '{"member_user_ids": ["{user}"]}',
    ),
    "a key's limit changed": ("PATCH", "/keys/{key}", '{"limit": 2}'),
    "a key's window moved": ("PATCH", "/keys/{key}", '{"limit": 2, "limit_reset": "monthly"}'),
    "a key moved": ("PATCH", "/keys/{key}", '{"workspace_id": "{full}", "limit": null}'),
    "a key rotated": ("POST", "/keys/{key}/rotate", "{}"),
    "a key deleted": ("DELETE", "/keys/{key}", ""),
    "a key of a member in a workspace": (
        "POST",
        "/keys",
        '{"name": "k", "workspace_id": "{full}", "creator_user_id": "{user}"}',
    ),
    "a full workspace changed": ("PATCH", "/workspaces/full", '{"io_logging_api_key_ids": null}'),
    "members added": ("POST", "/workspaces/full/members/add", '{"user_ids": ["{user}"]}'),
    "members removed": ("POST", "/workspaces/full/members/remove", '{"user_ids": ["{user}"]}'),
    "a full workspace deleted": ("DELETE", "/workspaces/full", ""),
    "the key that asks": ("GET", "/key", ""),
}


ONCE_TOO = [(what, True) for what, (method, _, _) in CALLS.items() if method == "POST"]


@pytest.mark.parametrize(("what", "once"), [*((what, False) for what in CALLS), *ONCE_TOO])
def test_it_asks_no_more_where_much_is_going_on(scene: Scene, what: str, once: bool) -> None:
    method, path, body = CALLS[what]
    names = {
        "guardrail": scene.guardrail,
        "other": scene.other,
        "default": str(scene.tenant.workspace.default_guardrail_id),
        "key": scene.key.hash,
        "user": scene.user,
        "full": str(scene.full.pk),
    }
    for name, value in names.items():
        path, body = path.replace(f"{{{name}}}", value), body.replace(f"{{{name}}}", value)
    headers = {"Idempotency-Key": "i"} if once else {}
    kind = "management" if what != "the key that asks" else "admin"

    answer, queries = counted(scene.tenant, kind, method, f"/api/v1{path}", body, headers)

    assert answer.status_code in (200, 201), answer.content
    assert len(queries) <= QUERIES_MAX + (ONCE if once else 0), queries


def test_an_idempotency_key_adds_no_more_than_its_own(scene: Scene) -> None:
    for route, methods in TABLE.items():
        for number, row in enumerate(rows_of(methods["POST"]) if "POST" in methods else ()):
            asked = asked_of(row, scene.tenant)
            headers = {"Idempotency-Key": f"{route} {number}"}

            answer, queries = counted(
                scene.tenant, "management", "POST", asked.path, asked.body, headers
            )

            assert answer.status_code == expected(row, "management")
            assert len(queries) <= QUERIES_MAX + ONCE, (route, queries)
