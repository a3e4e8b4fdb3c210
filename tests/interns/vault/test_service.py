"""Vaults of interns, and what the gateway keeps in them for itself."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from accounts.models import ApiKey
from accounts.services.records import by_command
from accounts.services.workspaces import clear_deleted, delete_workspace
from gateway.http.errors import PermissionDenied
from interns.models import Vault, VaultSecret
from interns.vault import service
from tests.accounts.dump import database_text
from tests.interns.vault.team import SHARED, Team, of, open_team, vault_of

pytestmark = [pytest.mark.both, pytest.mark.django_db]


def test_what_the_gateway_keeps_is_nobody_else_s(team: Team) -> None:
    intern = team.intern()
    service.put_managed(intern.pk, "router_api_key", "canary-one", [])
    service.put_managed(intern.pk, "router_api_key", "canary-two", [])
    assert service.read_managed(intern.pk, "router_api_key") == "canary-two"
    assert team.names(of(intern)) == []
    assert team.ok("GET", of(intern, "/effective-secrets"))["data"] == []
    # A caller may use the same name for something of its own.
    team.put(f"{of(intern)}/router_api_key", "mine")
    assert service.read_managed(intern.pk, "router_api_key") == "canary-two"
    assert team.ask("DELETE", f"{of(intern)}/router_api_key")[0] == 204
    assert service.read_managed(intern.pk, "router_api_key") == "canary-two"
    assert "canary" not in database_text()
    service.remove_managed(intern.pk, "router_api_key")
    assert service.read_managed(intern.pk, "router_api_key") is None


def test_an_intern_has_one_vault_and_loses_all_of_it(team: Team) -> None:
    intern, stranger = team.intern(), open_team("theirs").intern()
    vault, path = vault_of(intern), of(intern, "/connections")
    assert service.create_intern_vault(intern) == vault
    # Others of its workspace may attach it, and connections are told by their keys.
    assert service.attachable(team.workspace.pk, vault.pk)
    for other in (vault_of(stranger), service.workspace_vault(team.workspace.pk)):
        assert not service.attachable(team.workspace.pk, other.pk)
    assert team.ok("GET", path) == {"data": []}
    service.put_managed(intern.pk, "slack_tokens", "canary", ["slack.com"])
    service.put_managed(intern.pk, "router_api_key", "canary", [])
    assert team.ok("GET", path) == {"data": [{"key": "slack"}]}
    assert service.connections_of(intern.pk) == ["slack"]
    team.put(f"{of(intern)}/a")
    service.delete_intern_vault(intern.pk)
    service.delete_intern_vault(intern.pk)
    assert not Vault.objects.filter(pk=vault.pk).exists()
    assert not VaultSecret.objects.exists()


def test_a_value_is_released_to_its_exact_host(team: Team) -> None:
    intern = team.intern()
    team.put(f"{SHARED}/token", "value", ["api.example.com"])
    assert service.effective_secret(intern, "token", "api.example.com") == "value"
    for host in ("example.com", "a.api.example.com", "api.example.com.", "API.example.com"):
        assert service.effective_secret(intern, "token", host) is None
    assert service.effective_secret(intern, "other", "api.example.com") is None


def test_a_deleted_workspace_takes_its_secrets_along(team: Team) -> None:
    made = team.another_workspace()
    team.put(f"{SHARED}/token", key="elsewhere")
    team.put(f"{SHARED}/token")
    ApiKey.objects.filter(workspace=made).update(disabled=True)
    delete_workspace(account_id=team.account.pk, reference=str(made.pk), by=by_command("test"))
    secrets = VaultSecret.objects.values_list("vault__workspace_id", flat=True)
    assert list(secrets) == [team.workspace.pk]
    with pytest.raises(PermissionDenied):
        service.workspace_vault(made.pk)
    # The empty vault goes with the schedule.
    clear_deleted()
    assert list(Vault.objects.values_list("workspace_id", flat=True)) == [team.workspace.pk]


@pytest.mark.django_db(transaction=True)
def test_a_workspace_has_one_vault_however_many_begin_it() -> None:
    team = open_team("crowd")
    barrier = Barrier(4)

    def begin(_: int) -> object:
        barrier.wait()
        try:
            return service.workspace_vault(team.workspace.pk).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(begin, range(4)))) == 1
