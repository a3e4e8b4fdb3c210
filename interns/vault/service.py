"""Vaults of interns, and what the gateway itself keeps in them.

All of it is database work without network, inside the caller's transaction where there is one.
"""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from accounts.models import Workspace
from accounts.services.records import Actor, record_row
from gateway.http.errors import PermissionDenied
from interns.models import Intern, Vault, VaultSecret
from interns.vault.sealing import open_data_key, open_value, seal_value, wrap_new_key

# No name of a caller's begins so.
_MANAGED: Final = "_"
# What the managed tokens of a connection are called behind its key.
_CONNECTION: Final = "_tokens"


def create_intern_vault(intern: Intern, *, at: datetime | None = None) -> Vault:
    """The intern's private vault; the one that it has, where it has one."""
    found = Vault.objects.filter(intern=intern).first()
    return found or _insert_vault(workspace_id=intern.workspace_id, intern=intern, at=at)


def delete_intern_vault(intern_id: UUID) -> None:
    """Remove the private vault with all that is in it. An intern that borrows it keeps its id."""
    with transaction.atomic():
        for vault in Vault.objects.select_for_update().filter(intern=intern_id):
            VaultSecret.objects.filter(vault=vault).delete()
            vault.delete()


def is_attachable(workspace_id: UUID, vault_id: UUID) -> bool:
    """Whether it is the vault of an intern of this workspace."""
    rows = Vault.objects.filter(pk=vault_id, workspace=workspace_id, intern__isnull=False)
    return rows.exists()


def detach_vault(intern_id: UUID, *, by: Actor) -> None:
    """Let the intern borrow no vault any more: while its lender is gone it has no secrets."""
    with transaction.atomic():
        rows = Intern.objects.select_related("workspace").select_for_update(of=("self",))
        intern = rows.get(pk=intern_id)
        before = {"attached_vault_id": intern.attached_vault_id}
        Intern.objects.filter(pk=intern_id).update(attached_vault_id=None)
        record_row("intern", by, "updated", intern, before, {"attached_vault_id": None})


def get_workspace_vault(workspace_id: UUID) -> Vault:
    """The workspace's vault, made where there is none. Raises `PermissionDenied` where the
    workspace was deleted meanwhile."""
    rows = Vault.objects.filter(workspace=workspace_id, intern__isnull=True)
    # One of a deleted workspace stays until the schedule takes it.
    found = rows.filter(workspace__deleted_at__isnull=True).first()
    if found is not None:
        return found
    with transaction.atomic():
        living = Workspace.objects.select_for_update(no_key=True).filter(pk=workspace_id)
        if not living.exists():
            raise PermissionDenied
        try:
            with transaction.atomic():
                return _insert_vault(workspace_id=workspace_id, intern=None)
        except IntegrityError:
            return rows.get()


def put_managed(intern_id: UUID, name: str, value: str, hosts: list[str]) -> None:
    """Keep a secret of the gateway's own; no caller sees it or meets its name."""
    vault = Vault.objects.select_for_update().get(intern=intern_id)
    now = datetime.now(UTC)
    stored_name = _MANAGED + name
    columns = {
        **seal_value(open_data_key(vault), stored_name, value),
        "hosts": hosts,
        "managed": True,
        "updated_at": now,
    }
    VaultSecret.objects.update_or_create(
        vault=vault,
        name=stored_name,
        defaults=columns,
        create_defaults={**columns, "created_at": now},
    )


def read_managed(intern_id: UUID, name: str) -> str | None:
    """The value of a managed secret; None where there is none. Raises `UnsealError`."""
    rows = VaultSecret.objects.filter(vault__intern=intern_id, name=_MANAGED + name, managed=True)
    row = rows.select_related("vault").first()
    return None if row is None else open_value(open_data_key(row.vault), row.name, row.sealed)


def list_connections(intern_id: UUID) -> list[str]:
    """The keys of the connections, such as `slack`, whose tokens the gateway keeps, sorted."""
    names = VaultSecret.objects.filter(
        vault__intern=intern_id, managed=True, name__endswith=_CONNECTION
    ).values_list("name", flat=True)
    return sorted(name.removeprefix(_MANAGED).removesuffix(_CONNECTION) for name in names)


def list_workspace_secrets() -> QuerySet[VaultSecret]:
    """Those in vaults of workspaces, each with its `workspace`."""
    rows = VaultSecret.objects.filter(vault__intern__isnull=True)
    return rows.annotate(workspace=F("vault__workspace"))


def _insert_vault(
    *, workspace_id: UUID, intern: Intern | None, at: datetime | None = None
) -> Vault:
    new_id = uuid4()
    return Vault.objects.create(
        id=new_id,
        workspace_id=workspace_id,
        intern=intern,
        created_at=at or datetime.now(UTC),
        **wrap_new_key(new_id),
    )
