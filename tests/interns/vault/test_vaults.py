"""Vaults of interns: what the gateway keeps in them for itself, and what is copied between them.
Also which secret counts where there are several of a name."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from accounts.models import ApiKey
from accounts.services.records import command_actor
from accounts.services.workspaces import clear_deleted_workspaces, delete_workspace
from gateway.http.errors import PermissionDenied
from interns.models import Vault, VaultSecret
from interns.vault import service
from tests.accounts.dump import database_text
from tests.interns.vault.team import (
    FIELDS,
    SHARED,
    Team,
    open_team,
    read_effective_secret,
    vault_of,
    vault_path,
)

pytestmark = [pytest.mark.both, pytest.mark.django_db]
TOKEN = f"{SHARED}/github_token"


def test_what_the_gateway_keeps_is_nobody_else_s(team: Team) -> None:
    intern = team.intern()
    service.put_managed(intern.pk, "router_api_key", "canary-one", [])
    service.put_managed(intern.pk, "router_api_key", "canary-two", [])
    assert service.read_managed(intern.pk, "router_api_key") == "canary-two"
    assert team.names(vault_path(intern)) == []
    assert team.ok("GET", vault_path(intern, "/effective-secrets"))["data"] == []
    # A caller may use the same name for something of its own.
    team.put(f"{vault_path(intern)}/router_api_key", "mine")
    assert service.read_managed(intern.pk, "router_api_key") == "canary-two"
    assert team.ask("DELETE", f"{vault_path(intern)}/router_api_key")[0] == 204
    assert service.read_managed(intern.pk, "router_api_key") == "canary-two"
    assert "canary" not in database_text()
    VaultSecret.objects.filter(vault__intern=intern.pk, managed=True).delete()
    assert service.read_managed(intern.pk, "router_api_key") is None


def test_an_intern_has_one_vault_and_loses_all_of_it(team: Team) -> None:
    intern, stranger = team.intern(), open_team("theirs").intern()
    vault, path = vault_of(intern), vault_path(intern, "/connections")
    assert service.create_intern_vault(intern) == vault
    # Others of its workspace may attach it, and connections are told by their keys.
    assert service.is_attachable(team.workspace.pk, vault.pk)
    for other in (vault_of(stranger), service.get_workspace_vault(team.workspace.pk)):
        assert not service.is_attachable(team.workspace.pk, other.pk)
    assert team.ok("GET", path) == {"data": []}
    service.put_managed(intern.pk, "slack_tokens", "canary", ["slack.com"])
    service.put_managed(intern.pk, "router_api_key", "canary", [])
    assert team.ok("GET", path) == {"data": [{"key": "slack"}]}
    assert service.list_connections(intern.pk) == ["slack"]
    team.put(f"{vault_path(intern)}/a")
    service.delete_intern_vault(intern.pk)
    service.delete_intern_vault(intern.pk)
    assert not Vault.objects.filter(pk=vault.pk).exists()
    assert not VaultSecret.objects.exists()


def test_a_value_is_released_to_its_exact_host(team: Team) -> None:
    intern = team.intern()
    team.put(f"{SHARED}/token", "value", ["api.example.com"])
    assert read_effective_secret(intern, "token", "api.example.com") == "value"
    for host in ("example.com", "a.api.example.com", "api.example.com.", "API.example.com"):
        assert read_effective_secret(intern, "token", host) is None
    assert read_effective_secret(intern, "other", "api.example.com") is None


def test_a_deleted_workspace_takes_its_secrets_along(team: Team) -> None:
    made = team.another_workspace()
    team.put(f"{SHARED}/token", key="elsewhere")
    team.put(f"{SHARED}/token")
    ApiKey.objects.filter(workspace=made).update(disabled=True)
    delete_workspace(account_id=team.account.pk, reference=str(made.pk), by=command_actor("test"))
    secrets = VaultSecret.objects.values_list("vault__workspace_id", flat=True)
    assert list(secrets) == [team.workspace.pk]
    with pytest.raises(PermissionDenied):
        service.get_workspace_vault(made.pk)
    # The empty vault goes with the schedule.
    clear_deleted_workspaces()
    assert list(Vault.objects.values_list("workspace_id", flat=True)) == [team.workspace.pk]


@pytest.mark.django_db(transaction=True)
def test_a_workspace_has_one_vault_however_many_begin_it() -> None:
    team = open_team("crowd")
    barrier = Barrier(4)

    def begin(_: int) -> object:
        barrier.wait()
        try:
            return service.get_workspace_vault(team.workspace.pk).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(begin, range(4)))) == 1


def test_copies_keep_value_and_hosts_and_stand_alone(team: Team) -> None:
    intern = team.intern()
    team.put(f"{SHARED}/a", "one", ["x.y", "z.y"])
    team.put(f"{SHARED}/b", "two")
    mine = team.put(f"{vault_path(intern)}/b", "older")
    said = team.ok("POST", vault_path(intern, "/secrets/copy"), {"names": ["b", "a"]})["data"]
    assert team.queries <= 6
    assert read_effective_secret(intern, "b", "api.example.com") == "two"
    assert read_effective_secret(intern, "a", "z.y") == "one"
    assert [each["name"] for each in said] == ["b", "a"]
    assert all(set(each) == FIELDS for each in said)
    assert said[1]["hosts"] == ["x.y", "z.y"]
    assert said[0]["created_at"] == mine["created_at"]
    assert said[0]["fingerprint"] != mine["fingerprint"]
    team.ask("DELETE", f"{SHARED}/a")
    assert team.names(vault_path(intern)) == ["a", "b"]
    team.ask("DELETE", f"{vault_path(intern)}/b")
    assert team.names() == ["b"]


def test_a_copy_is_all_or_nothing(team: Team) -> None:
    intern = team.intern()
    team.put(f"{SHARED}/a")
    said = team.expect_refusal(
        404, "POST", vault_path(intern, "/secrets/copy"), {"names": ["a", "none"]}
    )
    assert said == "Resource not found"
    assert team.names(vault_path(intern)) == []
    team.put(f"{SHARED}/old")
    VaultSecret.objects.filter(name="old").update(hosts=None, fingerprint=None)
    listed = team.ok("GET", SHARED)["data"][1]
    assert (listed["hosts"], listed["fingerprint"]) == (None, None)
    said = team.expect_refusal(
        409, "POST", vault_path(intern, "/secrets/copy"), {"names": ["a", "old"]}
    )
    assert said == "Vault request conflicts with existing secrets"
    assert team.names(vault_path(intern)) == []


def test_copies_name_1_to_100_different_secrets(team: Team) -> None:
    path = vault_path(team.intern(), "/secrets/copy")
    many = [f"a{number}" for number in range(101)]
    for names in ([], ["a", "a"], ["A"], [1], ["a"] * 101, many):
        team.expect_refusal(400, "POST", path, {"names": names})
    bodies: Any = ({}, [], "{", {"names": ["a"], "hosts": ["a.b"]})
    for body in bodies:
        team.expect_refusal(400, "POST", path, body)


def test_the_intern_s_own_comes_before_the_attached_before_the_workspace_s(team: Team) -> None:
    lender = team.intern("lender")
    intern = team.intern(attached_vault_id=vault_of(lender).pk)
    for name in ("a", "b", "c"):
        team.put(f"{SHARED}/{name}", "shared", ["w.y"])
    for name in ("b", "c", "d"):
        team.put(f"{vault_path(lender)}/{name}", "lent", ["l.y"])
    team.put(f"{vault_path(intern)}/c", "own", ["o.y"])
    path = vault_path(intern, "/effective-secrets")
    said = team.ok("GET", path)
    told = [(each["name"], each["scope"], each["hosts"]) for each in said["data"]]
    assert told == [
        ("a", "workspace", ["w.y"]),
        ("b", "attached", ["l.y"]),
        ("c", "intern", ["o.y"]),
        ("d", "attached", ["l.y"]),
    ]
    assert all(set(each) == FIELDS | {"scope"} for each in said["data"])
    assert said["has_more"] is False
    page = team.ok("GET", f"{path}?limit=1&offset=2")
    assert ([each["name"] for each in page["data"]], page["has_more"]) == (["c"], True)
    # The lender itself borrows nothing.
    scopes = {
        each["scope"] for each in team.ok("GET", vault_path(lender, "/effective-secrets"))["data"]
    }
    assert scopes == {"intern", "workspace"}


def test_when_the_attached_vault_is_gone_there_are_none(team: Team) -> None:
    intern = team.intern(attached_vault_id=uuid.uuid4())
    team.put(TOKEN)
    team.put(f"{vault_path(intern)}/a")
    path = vault_path(intern, "/effective-secrets")
    assert team.expect_refusal(404, "GET", path) == "Resource not found"
    # Its own are still to be seen.
    assert team.names(vault_path(intern)) == ["a"]


def test_a_vault_that_is_not_there_takes_nothing(team: Team) -> None:
    intern = team.intern(vault=False)
    assert team.names(vault_path(intern)) == []
    team.expect_refusal(404, "PUT", f"{vault_path(intern)}/a", {"value": "v", "hosts": ["a.b"]})
    team.put(TOKEN)
    team.expect_refusal(
        404, "POST", vault_path(intern, "/secrets/copy"), {"names": ["github_token"]}
    )
