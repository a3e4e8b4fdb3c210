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
    if attached is not None and not Vault.objects.filter(pk=attached).exists():
        raise AttachedVaultGone
    private = Q(vault__intern=intern.pk)
    shared = Q(vault__workspace=intern.workspace_id, vault__intern__isnull=True)
    usable = private | shared if attached is None else private | shared | Q(vault=attached)
    rows: Any = VaultSecret.objects.filter(usable, managed=False).values_list(
        "id", "name", "hosts", "fingerprint", "created_at", "vault_id", "vault__intern_id"
    )
    candidates = []
    for *fields, vault_id, owner_id in rows.iterator():
        scope: Scope = "attached" if vault_id == attached else "workspace"
        candidates.append(
            EffectiveSecret._make((*fields, "intern" if owner_id == intern.pk else scope))
        )
    # The first in the order of scopes under each name.
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
