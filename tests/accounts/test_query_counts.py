"""No endpoint asks the database more than six times: every row of the access table, for every
caller who gets an answer, past the cache of keys, with lists of many; nor where there is much to
look at (requests under way, budgets, guardrails, a full workspace); nor, beside what an
`Idempotency-Key` itself asks, with one."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.authentication import forget_keys
from accounts.models import ApiKey, Guardrail, Workspace
from accounts.services.guardrail_assignments import assign_keys, assign_members
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.keys import create_key
from accounts.services.organization import open_workspace
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from accounts.services.workspace_members import add_members
from interns.models import Vault
from interns.vault.secrets import SecretInput, put_secret
from interns.vault.service import get_workspace_vault
from routing.catalogue.files import parse
from routing.catalogue.load import load_catalogue
from routing.catalogue.snapshot import catalogue
from tests.accounts.office import hold
from tests.support.access_table import TABLE
from tests.support.catalogue import CONFORMANCE
from tests.support.tenants import THINGS, Tenant, asked_of, expected, new_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.thorough]
QUERIES_MAX = 6
# Making an intern locks its workspace, and makes its key, its vault and the first line of its
# history.
_MORE = {("POST", "api/v1/interns"): 14}
# Memberships of workspaces follow a mapping in one go, whatever their number.
_MAPPINGS = {route for route in TABLE if "scim/group-mappings" in route}
_MORE |= dict.fromkeys(itertools.product(("POST", "PATCH", "DELETE"), _MAPPINGS), 10)
# It takes what is secret with it, each kind by a statement.
_MORE[("DELETE", "api/v1/workspaces/(?P<workspace>[^/]+)$")] = 7
# Which machines are alive decides where an intern boots, and where it is taken down.
_MORE[("DELETE", "api/v1/interns/(?P<intern_id>[^/]+)$")] = 7
_MORE[("POST", "api/v1/interns/(?P<intern_id>[^/]+)/provision$")] = 7
# It erases in as many tables: requests, figures, sessions of interns, budgets, events, keys.
_MORE[("POST", "api/v1/privacy/erasures")] = 14
# Its claim before, and what was answered behind.
ONCE = 2
# What begins and ends transactions asks nothing, nor does the event that a deed records.
_MARKS = (
    "BEGIN",
    "COMMIT",
    "SAVEPOINT",
    "RELEASE",
    "ROLLBACK",
    'INSERT INTO "accounts_event"',
    'INSERT OR IGNORE INTO "accounts_event"',
)
# Enough to tell a query for each from one for all.
OBJECTS = 8
USD = 1_000_000_000


@pytest.fixture(autouse=True)
def loaded(db: None) -> Iterator[None]:
    """With a catalogue."""
    load_catalogue(parse(CONFORMANCE.read_text(encoding="utf-8")))
    catalogue.forget()
    catalogue.current()
    yield
    catalogue.forget()


def counted(
    tenant: Tenant, kind: str, method: str, path: str, body: str, **headers: str
) -> tuple[Any, list[str]]:
    """The answer, and what the database was asked for it."""
    forget_keys()
    if kind:
        headers["Authorization"] = f"Bearer {tenant.keys[kind]}"
    client = Client(raise_request_exception=False, headers=headers)
    sent: dict[str, Any] = {"content_type": "application/json"}
    sent["CONTENT_LENGTH"] = str(len(body.encode()))
    with CaptureQueriesContext(connection) as captured:
        answer = client.generic(method, path, body, **sent)
    queries = [each["sql"] for each in captured.captured_queries]
    return answer, [sql for sql in queries if not sql.startswith(_MARKS)]


@contextmanager
def undone() -> Iterator[None]:
    """What is changed within is as it was behind it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def tenant(settings: Settings) -> Tenant:
    """With several objects of every kind."""
    settings.INTERNS_MAX_PER_MEMBER = 100
    found = new_tenant("counted")
    for thing in THINGS.values():
        for _ in range(OBJECTS):
            thing.make(found)
    return found


def test_no_endpoint_asks_more_than_six_times(tenant: Tenant) -> None:
    for route in (route for route in TABLE if route.startswith("api/")):
        with undone():
            for method, rows in TABLE[route].items():
                most = _MORE.get((method, route), QUERIES_MAX)
                for row, kind in itertools.product(rows, ("", *tenant.keys)):
                    asked = asked_of(row, tenant)
                    answer, queries = counted(tenant, kind, method, asked.path, asked.body)
                    assert answer.status_code == expected(row, kind), (method, asked.path, kind)
                    assert len(queries) <= most, (method, asked.path, kind, queries)


# --- Where much is going on -----------------------------------------------------------------------


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
def scene() -> Scene:
    tenant = new_tenant("busy")
    whose: dict[str, Any] = {"account_id": tenant.account.pk, "by": SYSTEM}
    owner: dict[str, Any] = {"account": tenant.account, "workspace": tenant.workspace}
    limit: dict[str, Any] = {"limit_nano": USD, "limit_reset": "daily"}
    key, _ = create_key(**owner, name="busy", creator=tenant.admin, **limit)
    for usd, interval in ((1, "daily"), (2, "weekly"), (3, "monthly")):
        budget: dict[str, Any] = {"interval": interval, "limit_nano": usd * USD}
        set_budget(**whose, reference="default", **budget, include_byok=None)
    first, second = (_guardrail(whose) for _ in range(2))
    assigned: dict[str, Any] = {**whose, "guardrail_id": first.pk, "assigner": None}
    assign_keys(**assigned, key_hashes=[key.hash])
    assign_members(**assigned, user_ids=[tenant.admin.public_id])
    budget = {"limit_nano": USD, "reset_interval": "daily"}
    default = tenant.workspace.default_guardrail_id
    change_guardrail(**whose, guardrail_id=default, changes=budget)
    THINGS["credential"].make(tenant)
    for number in range(5):
        hold(key, 5, f"gen-{number}", datetime.now(UTC) + timedelta(minutes=15))
    full = _full_workspace(tenant, whose)
    return Scene(tenant, key, tenant.admin.public_id, str(first.pk), str(second.pk), full)


def _guardrail(whose: dict[str, Any]) -> Guardrail:
    settings = {"name": "g", "limit_nano": USD, "reset_interval": "monthly"}
    return create_guardrail(**whose, workspace_id=None, settings=settings)


def _full_workspace(tenant: Tenant, whose: dict[str, Any]) -> Workspace:
    made = open_workspace(account=tenant.account, slug="full")
    create_key(account=tenant.account, name="k", workspace=made)
    ApiKey.objects.filter(workspace=made).update(disabled=True)
    for name in ("preset", "credential", "guardrail"):
        rows = THINGS[name].make(tenant)[1]
        assert rows is not None
        rows.update(workspace=made)
    vaults = Vault.objects.filter(pk=get_workspace_vault(made.pk).pk)
    put_secret(vaults=vaults, stored=SecretInput("token", "value", ["api.example.com"]), **whose)
    add_members(**whose, reference="full", user_ids=[tenant.admin.public_id])
    set_budget(**whose, reference="full", interval="daily", limit_nano=USD, include_byok=None)
    return made


BUDGETS, KEYS, MEMBERS = "/workspaces/default/budgets", "assignments/keys", "assignments/members"
ONE_KEY, ONE_MEMBER = '{"key_hashes": ["{key}"]}', '{"member_user_ids": ["{user}"]}'
ONE_USER = '{"user_ids": ["{user}"]}'
CALLS = {
    "a budget changed": f'PUT {BUDGETS}/daily {{"limit_usd": 0.5}}',
    "a budget made": f'PUT {BUDGETS}/lifetime {{"limit_usd": 9}}',
    "BYOK counted": f'PUT {BUDGETS}/daily {{"limit_usd": 0.5, "include_byok_in_budgets": true}}',
    "a budget deleted": f"DELETE {BUDGETS}/weekly ",
    "a guardrail's budget raised": 'PATCH /guardrails/{guardrail} {"limit_usd": 2}',
    "a guardrail's window moved": 'PATCH /guardrails/{guardrail} {"reset_interval": "daily"}',
    "a guardrail deleted": "DELETE /guardrails/{guardrail} ",
    "a default guardrail's budget": 'PATCH /guardrails/{default} {"reset_interval": "weekly"}',
    "a default guardrail reset": "DELETE /guardrails/{default} ",
    "a key under another guardrail": f"POST /guardrails/{{other}}/{KEYS} {ONE_KEY}",
    "a key under the same": f"POST /guardrails/{{guardrail}}/{KEYS} {ONE_KEY}",
    "a key set free": f"POST /guardrails/{{guardrail}}/{KEYS}/remove {ONE_KEY}",
    "a member under another guardrail": f"POST /guardrails/{{other}}/{MEMBERS} {ONE_MEMBER}",
    "a member set free": f"POST /guardrails/{{guardrail}}/{MEMBERS}/remove {ONE_MEMBER}",
    "a key's limit changed": 'PATCH /keys/{key} {"limit": 2}',
    "a key's window moved": 'PATCH /keys/{key} {"limit": 2, "limit_reset": "monthly"}',
    "a key moved": 'PATCH /keys/{key} {"workspace_id": "{full}", "limit": null}',
    "a key rotated": "POST /keys/{key}/rotate {}",
    "a key deleted": "DELETE /keys/{key} ",
    "a key of a member in a workspace": (
        'POST /keys {"name": "k", "workspace_id": "{full}", "creator_user_id": "{user}"}'
    ),
    "a full workspace changed": 'PATCH /workspaces/full {"io_logging_api_key_ids": null}',
    "members added": f"POST /workspaces/full/members/add {ONE_USER}",
    "members removed": f"POST /workspaces/full/members/remove {ONE_USER}",
    "a full workspace deleted": "DELETE /workspaces/full ",
    "the key that asks": "GET /key ",
}


def test_it_asks_no_more_where_much_is_going_on(scene: Scene) -> None:
    default = str(scene.tenant.workspace.default_guardrail_id)
    names = {"guardrail": scene.guardrail, "other": scene.other, "default": default}
    names |= {"key": scene.key.hash, "user": scene.user, "full": str(scene.full.pk)}
    for what, call in CALLS.items():
        for name, value in names.items():
            call = call.replace(f"{{{name}}}", value)
        method, path, body = call.split(" ", 2)
        kind = "management" if path != "/key" else "admin"
        for once in (False, True) if method == "POST" else (False,):
            headers = {"Idempotency-Key": "i"} if once else {}
            with undone():
                answer, queries = counted(
                    scene.tenant, kind, method, f"/api/v1{path}", body, **headers
                )
            assert answer.status_code in (200, 201), (what, answer.content)
            # What is secret goes with its workspace, each kind by a statement.
            most = QUERIES_MAX + (ONCE if once else method == "DELETE")
            assert len(queries) <= most, (what, queries)


def test_an_idempotency_key_adds_no_more_than_its_own(scene: Scene) -> None:
    # Pages know no such key.
    for route in (route for route in TABLE if route.startswith("api/")):
        for number, row in enumerate(TABLE[route].get("POST", ())):
            asked, once = asked_of(row, scene.tenant), {"Idempotency-Key": f"{route} {number}"}

            answer, queries = counted(
                scene.tenant, "management", "POST", asked.path, asked.body, **once
            )

            assert answer.status_code == expected(row, "management")
            most = _MORE.get(("POST", route), QUERIES_MAX) + ONCE
            assert len(queries) <= most, (route, queries)
