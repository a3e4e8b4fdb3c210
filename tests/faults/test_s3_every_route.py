"""S3: every route, every method, every kind of caller; a route without a row fails the build."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.authentication import forget_keys
from accounts.keystring import hash_of
from accounts.models import Account, ApiKey
from accounts.services.accounts import open_account
from accounts.services.credits import add_credits
from accounts.services.keys import create_key
from routing.catalogue.document import parse
from routing.catalogue.load import load
from routing.catalogue.snapshot import catalogue
from routing.metering.models import Generation
from tests.support.catalogue import CONFORMANCE
from tests.support.operations import generation

pytestmark = [pytest.mark.django_db, pytest.mark.both]
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
ADMIN = "admin/"
# For people: what it refuses is told in HTML.
PAGE = "/docs"


@dataclass(frozen=True)
class Row:
    """The status a method gives nobody, an inference key and a management key."""

    path: str
    nobody: int
    inference: int
    management: int
    body: str = ""


ANYONE = (200, 200, 200)
SHORT = '{"model": "nope/none", "messages": []}'
KEY = "api/^v1/keys/(?P<key_hash>[^/]+)"
# Hashes of two keys of `mine`, one to delete and one to rotate.
DOOMED, ROTATED = hash_of("doomed"), hash_of("rotated")
WORKSPACE = "api/^v1/workspaces/(?P<workspace>[^/]+)"
NOBODY = '{"user_ids": ["user_of_nobody"]}'
# Route → method → row. HEAD is as GET, other methods are 405 for everyone. Whoever adds a route
# says here who may use it.
TABLE: dict[str, dict[str, Row]] = {
    "healthz": {"GET": Row("/healthz", *ANYONE)},
    "readyz": {"GET": Row("/readyz", *ANYONE)},
    "api/v1/openapi.json": {"GET": Row("/api/v1/openapi.json", *ANYONE)},
    "^docs/?$": {"GET": Row("/docs", *ANYONE)},
    "api/v1/chat/completions": {
        "POST": Row("/api/v1/chat/completions", 401, 400, 401, SHORT),
    },
    "api/v1/messages": {"POST": Row("/api/v1/messages", 401, 400, 401, SHORT)},
    "api/v1/messages/count_tokens": {
        "POST": Row("/api/v1/messages/count_tokens", 401, 400, 401, SHORT),
    },
    "api/v1/responses": {"POST": Row("/api/v1/responses", 401, 400, 401, SHORT)},
    "api/v1/generation": {"GET": Row("/api/v1/generation?id={generation}", 401, 200, 200)},
    "api/v1/models": {"GET": Row("/api/v1/models", *ANYONE)},
    "api/v1/models/count": {"GET": Row("/api/v1/models/count", *ANYONE)},
    "api/v1/models/user": {"GET": Row("/api/v1/models/user", 401, 200, 200)},
    "api/^v1/models/(?P<author>[^/]+)/(?P<slug>[^/]+)/endpoints$": {
        "GET": Row("/api/v1/models/acme/small/endpoints", *ANYONE)
    },
    "api/^v1/model/(?P<author>[^/]+)/(?P<slug>[^/]+)$": {
        "GET": Row("/api/v1/model/acme/small", *ANYONE)
    },
    "api/v1/endpoints/zdr": {"GET": Row("/api/v1/endpoints/zdr", *ANYONE)},
    "api/v1/providers": {"GET": Row("/api/v1/providers", *ANYONE)},
    "api/v1/key": {"GET": Row("/api/v1/key", 401, 200, 200)},
    "api/v1/keys": {
        "GET": Row("/api/v1/keys", 401, 403, 200),
        "POST": Row("/api/v1/keys", 401, 403, 201, '{"name": "another"}'),
    },
    f"{KEY}$": {
        "GET": Row(f"/api/v1/keys/{DOOMED}", 401, 403, 200),
        "PATCH": Row(f"/api/v1/keys/{DOOMED}", 401, 403, 200, '{"name": "other"}'),
        "DELETE": Row(f"/api/v1/keys/{DOOMED}", 401, 403, 200),
    },
    f"{KEY}/rotate$": {"POST": Row(f"/api/v1/keys/{ROTATED}/rotate", 401, 403, 200, "{}")},
    "api/v1/workspaces": {
        "GET": Row("/api/v1/workspaces", 401, 403, 200),
        "POST": Row("/api/v1/workspaces", 401, 403, 201, '{"name": "Team", "slug": "team"}'),
    },
    f"{WORKSPACE}/members$": {"GET": Row("/api/v1/workspaces/team/members", 401, 403, 200)},
    f"{WORKSPACE}/members/add$": {
        "POST": Row("/api/v1/workspaces/team/members/add", 401, 403, 400, NOBODY),
    },
    f"{WORKSPACE}/members/remove$": {
        "POST": Row("/api/v1/workspaces/team/members/remove", 401, 403, 200, NOBODY),
    },
    # After the others, because it takes the workspace away that the first one made.
    f"{WORKSPACE}$": {
        "GET": Row("/api/v1/workspaces/team", 401, 403, 200),
        "PATCH": Row("/api/v1/workspaces/team", 401, 403, 200, '{"name": "Crew"}'),
        "DELETE": Row("/api/v1/workspaces/team", 401, 403, 200),
    },
    "api/v1/credits": {"GET": Row("/api/v1/credits", 401, 403, 200)},
    "api/v1/credits/coinbase": {"POST": Row("/api/v1/credits/coinbase", 410, 410, 410)},
}


def routes(patterns: Any, prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            assert isinstance(pattern, URLPattern)
            yield route


ALL = sorted(routes(get_resolver().url_patterns))
API = [route for route in ALL if not route.startswith("admin")]


@dataclass(frozen=True)
class Tenant:
    """An account with a generation, an inference key and a management key."""

    account: Account
    generation: Generation
    inference: str
    management: str


def tenant(name: str) -> Tenant:
    account = open_account(name=name)
    add_credits(account=account, amount_nano=10**9, source="test", source_ref=name)
    workspace = account.workspaces.get()
    key, inference = create_key(account=account, name="i", workspace=workspace)
    _, management = create_key(account=account, name="m", workspace=None)
    owner = {"account": account, "workspace": workspace, "api_key": key}
    asked = generation(id=f"gen-{name}", **owner, created_at=datetime.now(UTC))
    return Tenant(account, asked, inference, management)


def keys_of_hashes(account: Account, *hashes: str) -> None:
    for each in hashes:
        key, _ = create_key(account=account, name=each[:8], workspace=account.workspaces.get())
        ApiKey.objects.filter(pk=key.pk).update(hash=each)


@pytest.fixture
def mine() -> Iterator[Tenant]:
    forget_keys()
    load(parse(CONFORMANCE.read_text(encoding="utf-8")))
    catalogue.forget()
    catalogue.current()
    tenant_of_mine = tenant("mine")
    keys_of_hashes(tenant_of_mine.account, DOOMED, ROTATED)
    yield tenant_of_mine
    catalogue.forget()


def ask(method: str, row: Row, key: str, generation: str) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = Client(raise_request_exception=False)
    return client.generic(
        method,
        row.path.format(generation=generation),
        row.body,
        content_type="application/json",
        headers=headers,
    )


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert sorted(TABLE) == API


def test_each_caller_gets_what_the_table_says(mine: Tenant) -> None:
    for route in TABLE:
        _check_route(mine, route)


def _check_route(mine: Tenant, route: str) -> None:
    rows = TABLE[route]
    any_row = next(iter(rows.values()))
    for method in METHODS:
        row = rows.get(
            "GET" if method == "HEAD" else method, Row(any_row.path, 405, 405, 405, any_row.body)
        )
        callers = {"": row.nobody, mine.inference: row.inference, mine.management: row.management}
        for key, status in callers.items():
            response = ask(method, row, key, mine.generation.pk)
            assert response.status_code == status, (method, route, key[:12], response.content)
            if status == 405:
                assert response["Allow"], (method, route)
            if status >= 400 and method != "HEAD" and row.path != PAGE:
                assert response.json()["error"]["code"] == status


@pytest.mark.parametrize("kind", ["inference", "management"])
def test_what_belongs_to_another_tenant_is_not_there(mine: Tenant, kind: str) -> None:
    other = tenant("other")
    key = getattr(mine, kind)
    row = TABLE["api/v1/generation"]["GET"]

    theirs = ask("GET", row, key, other.generation.pk)
    nowhere = ask("GET", row, key, "gen-nowhere")

    assert theirs.status_code == nowhere.status_code == 404
    # Nothing tells an id of another tenant from one that never was.
    assert theirs.content == nowhere.content
    assert ask("GET", row, getattr(other, kind), other.generation.pk).status_code == 200


@pytest.mark.parametrize("route", [f"{KEY}$", f"{KEY}/rotate$"])
def test_keys_of_another_tenant_are_not_there(mine: Tenant, route: str) -> None:
    theirs, nowhere = hash_of("theirs"), hash_of("nowhere")
    keys_of_hashes(tenant("other").account, theirs)
    before = ApiKey.objects.values().get(hash=theirs)

    for method, row in TABLE[route].items():
        refused = []
        for each in (theirs, nowhere):
            path = re.sub("[0-9a-f]{64}", each, row.path)
            refused.append(ask(method, replace(row, path=path), mine.management, ""))
        assert [response.status_code for response in refused] == [404, 404]
        assert refused[0].content == refused[1].content
    assert ApiKey.objects.values().get(hash=theirs) == before


def test_ids_of_another_tenant_in_a_body_are_refused(mine: Tenant) -> None:
    other = tenant("other")
    for field, value in {
        "workspace_id": str(other.account.workspaces.get().pk),
        "creator_user_id": "user_of_nobody",
    }.items():
        body = f'{{"name": "another", "{field}": "{value}"}}'
        row = Row("/api/v1/keys", 401, 403, 400, body)
        response = ask("POST", row, mine.management, "")
        assert response.status_code == 400, response.content
        assert field in response.content.decode()


def test_money_is_each_tenants_own(mine: Tenant) -> None:
    other = tenant("other")
    add_credits(account=other.account, amount_nano=4 * 10**9, source="test", source_ref="more")
    row = TABLE["api/v1/credits"]["GET"]

    assert ask("GET", row, mine.management, "").json()["data"]["total_credits"] == 1
    assert ask("GET", row, other.management, "").json()["data"]["total_credits"] == 5


# The log-in form itself, and the words its scripts show.
_OPEN_PAGES = {"admin/login/", "admin/jsi18n/", "admin/logout/"}


def test_admin_pages_are_closed_to_keys(mine: Tenant) -> None:
    for route in (route for route in ALL if route.startswith(ADMIN)):
        for key in ("", mine.inference, mine.management):
            for method in ("GET", "POST"):
                _check_closed(route, ask(method, Row(_path_of(route), 0, 0, 0), key, ""))


def _path_of(route: str) -> str:
    """A path of the route, with something for each of its variables."""
    path = re.sub(r"<[^>]*>", "1", re.sub(r"\(\?P<[^>]*>[^)]*\)", "x", route))
    return "/" + re.sub(r"\^|\$|\\Z|\\", "", path)


def _check_closed(route: str, response: Any) -> None:
    allowed = {302, 301, 403, 404, 405} | ({200} if route in _OPEN_PAGES else set())
    assert response.status_code in allowed, route
    if response.status_code == 302:
        assert response["Location"].startswith("/admin/"), route
