"""Operators store, rebind and delete secrets, and never see a value."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import AuditRecord
from interns.models import Intern, Status, Vault, VaultSecret, WorkspaceArchive
from interns.vault.service import get_workspace_vault, put_managed
from tests.interns.vault.team import SHARED, Team, read_effective_secret

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NEW = {"name": "token", "value": "canary-value", "hosts": "API.example.com.\na.b"}


def page(kind: str, *args: Any, model: str = "vaultsecret") -> str:
    return reverse(f"admin:interns_{model}_{kind}", args=args)


def test_a_secret_is_stored_by_hand(admin_client: Client, team: Team) -> None:
    vault = get_workspace_vault(team.workspace.pk)
    answer = admin_client.post(page("add"), NEW | {"vault": str(vault.pk)}, follow=True)
    assert answer.status_code == 200
    row = VaultSecret.objects.get()
    assert (row.name, row.hosts) == ("token", ["api.example.com", "a.b"])
    assert read_effective_secret(team.intern(), "token", "a.b") == "canary-value"
    record = AuditRecord.objects.get(object_type="vault_secret")
    assert (record.action, record.operator_id is not None) == ("created", True)
    for path in (page("changelist"), page("change", row.pk), page("history", row.pk)):
        shown = admin_client.get(path).content.decode()
        assert "canary" not in shown
        assert row.sealed not in shown


def test_the_same_rules_hold(admin_client: Client, team: Team) -> None:
    vault = get_workspace_vault(team.workspace.pk)
    for wrong in (
        *({"name": "Token"}, {"name": "a__b"}, {"value": ""}),
        *({"hosts": ""}, {"hosts": "https://a.b"}, {"hosts": "*.a.b"}),
    ):
        answer = admin_client.post(page("add"), NEW | {"vault": str(vault.pk)} | wrong)
        assert answer.status_code == 200
        assert "canary" not in answer.content.decode()
    assert not VaultSecret.objects.exists()


def test_hosts_change_and_the_value_stays(admin_client: Client, team: Team) -> None:
    team.put(f"{SHARED}/token", "canary-value", ["a.b"])
    row, intern = VaultSecret.objects.get(), team.intern()
    admin_client.post(page("change", row.pk), {"value": "", "hosts": "c.d"})
    assert read_effective_secret(intern, "token", "a.b") is None
    assert read_effective_secret(intern, "token", "c.d") == "canary-value"
    admin_client.post(page("change", row.pk), {"value": "other ", "hosts": "c.d"})
    assert read_effective_secret(intern, "token", "c.d") == "other "
    assert VaultSecret.objects.get().pk == row.pk
    admin_client.post(page("delete", row.pk), {"post": "yes"})
    assert not VaultSecret.objects.exists()
    records = AuditRecord.objects.filter(object_type="vault_secret").order_by("pk")
    assert [each.action for each in records] == ["created", "updated", "updated", "deleted"]
    assert "canary" not in repr([(each.before, each.after) for each in records])


def test_the_gateway_s_own_are_not_to_be_touched(admin_client: Client, team: Team) -> None:
    intern = team.intern()
    put_managed(intern.pk, "router_api_key", "canary", [])
    row = VaultSecret.objects.get()
    admin_client.post(page("change", row.pk), {"value": "mine", "hosts": "c.d"})
    admin_client.post(page("delete", row.pk), {"post": "yes"})
    assert VaultSecret.objects.get().sealed == row.sealed


def test_vaults_tell_which_master_key_wraps_them(admin_client: Client, team: Team) -> None:
    team.put(f"{SHARED}/token")
    vault = Vault.objects.get()
    for path in (page("changelist", model="vault"), page("change", vault.pk, model="vault")):
        shown = admin_client.get(path).content.decode()
        assert vault.master_key_id in shown
        assert vault.sealed_data_key not in shown


def test_a_borrowed_vault_that_is_gone_is_detached(admin_client: Client, team: Team) -> None:
    intern = team.intern(attached_vault_id=uuid.uuid4())
    team.put(f"{SHARED}/token")
    body = {"action": "detach_vault", "_selected_action": [str(intern.pk)]}
    admin_client.post(page("changelist", model="intern"), body)
    assert Intern.objects.get().attached_vault_id is None
    assert read_effective_secret(Intern.objects.get(), "token", "api.example.com") == "v"
    assert AuditRecord.objects.filter(object_type="intern").exists()


def test_an_archive_is_added_by_hand(admin_client: Client, team: Team) -> None:
    intern = team.intern()
    body = {"intern": str(intern.pk), "uri": "file:///mine.tar", "sha256": "A" * 64, "bytes": "5"}
    admin_client.post(page("add", model="workspacearchive"), body)
    assert not WorkspaceArchive.objects.exists()
    Intern.objects.update(
        status=Status.DESTROY_FAILED, last_failure_message="workspace_archive_failed: x"
    )
    admin_client.post(page("add", model="workspacearchive"), body | {"sha256": "x"})
    assert not WorkspaceArchive.objects.exists()
    answer = admin_client.post(page("add", model="workspacearchive"), body, follow=True)
    assert answer.status_code == 200
    row = WorkspaceArchive.objects.get()
    assert (row.sha256, row.bytes, row.source) == ("a" * 64, 5, "operator")
    admin_client.post(page("delete", row.pk, model="workspacearchive"), {"post": "yes"})
    assert not WorkspaceArchive.objects.exists()
