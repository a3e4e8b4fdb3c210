"""Which secrets an intern has: its own before those of the vault it borrows before those of its
workspace. The winner under a name is the only one, also for hosts that another would match."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from django.db.models import Q

from gateway.http.errors import NotFound
from interns.models import Intern, Vault, VaultSecret
from interns.vault.sealing import open_data_key, open_value

Scope = Literal["intern", "attached", "workspace"]
_ORDER: Final[dict[Scope, int]] = {"intern": 0, "attached": 1, "workspace": 2}


class AttachedVaultGone(NotFound):
    """The vault that the intern borrows is no more: it gets no secrets at all."""


class EffectiveSecret(NamedTuple):
    """A secret as an intern has it; its value is not among what is read."""

    secret_id: UUID
    name: str
    hosts: list[str] | None
    fingerprint: str | None
    created_at: datetime
    scope: Scope


def read_effective_secrets(intern: Intern) -> list[EffectiveSecret]:
    """One for each name, sorted by name. Raises `AttachedVaultGone`."""
    attached = intern.attached_vault_id
    if attached is not None and not _is_there(attached):
        raise AttachedVaultGone
    mine = Q(vault__intern=intern.pk)
    shared = Q(vault__workspace=intern.workspace_id, vault__intern__isnull=True)
    wanted = mine | shared if attached is None else mine | shared | Q(vault=attached)
    rows: Any = VaultSecret.objects.filter(wanted, managed=False).values_list(
        "id", "name", "hosts", "fingerprint", "created_at", "vault_id", "vault__intern_id"
    )
    return pick_by_scope(_told(row, intern) for row in rows.iterator())


def _told(row: Any, intern: Intern) -> EffectiveSecret:
    *facts, vault_id, owner_id = row
    return EffectiveSecret._make((*facts, _find_scope(intern, vault_id, owner_id)))


def pick_by_scope(candidates: Iterable[EffectiveSecret]) -> list[EffectiveSecret]:
    """The first in the order of scopes under each name, sorted by name."""
    best: dict[str, EffectiveSecret] = {}
    for each in candidates:
        current = best.get(each.name)
        if current is None or _ORDER[each.scope] < _ORDER[current.scope]:
            best[each.name] = each
    return [best[name] for name in sorted(best)]


def filter_by_host(
    secrets: Iterable[EffectiveSecret], hosts: Collection[str]
) -> list[EffectiveSecret]:
    """Those that one of these hosts may receive."""
    return [each for each in secrets if not set(hosts).isdisjoint(each.hosts or ())]


def open_values(secrets: Collection[EffectiveSecret]) -> dict[str, str]:
    """Their values by name; what was removed meanwhile is left out. Raises `UnsealError`."""
    rows = VaultSecret.objects.filter(pk__in=[each.secret_id for each in secrets])
    keys: dict[UUID, bytes] = {}
    found: dict[str, str] = {}
    for row in rows.select_related("vault"):
        key = keys.get(row.vault_id) or keys.setdefault(row.vault_id, open_data_key(row.vault))
        found[row.name] = open_value(key, row.name, row.sealed)
    return found


def read_released_values(intern: Intern, host: str) -> dict[str, str]:
    """All that a request to this host may carry. Raises `AttachedVaultGone`, `UnsealError`."""
    return open_values(filter_by_host(read_effective_secrets(intern), [host]))


def _is_there(vault_id: UUID) -> bool:
    return Vault.objects.filter(pk=vault_id).exists()


def _find_scope(intern: Intern, vault_id: UUID, owner_id: UUID | None) -> Scope:
    if owner_id == intern.pk:
        return "intern"
    return "attached" if vault_id == intern.attached_vault_id else "workspace"
