"""Storing, listing, copying and deleting secrets. Every change leaves an
audit record, without the value. Values are never read here but to be copied."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, F, FilteredRelation, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Collate

from accounts.services.records import Actor, read_fields, record_row
from gateway.http.errors import GatewayError, NotFound
from gateway.http.jsonio import JsonObject
from gateway.http.paging import Page
from interns.models import Vault, VaultSecret
from interns.vault.sealing import open_data_key, open_value, seal_value

_record: Final = partial(record_row, "vault_secret")

NAME_PATTERN: Final = r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$"
NAME_CHARS_MAX: Final = 255
HOST_CHARS_MAX: Final = 253
_NAME: Final = re.compile(NAME_PATTERN[1:-1])
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_secret_name(text: str) -> bool:
    """Whether a secret can have this name."""
    return len(text) <= NAME_CHARS_MAX and _NAME.fullmatch(text) is not None


def canonicalize_host(text: str) -> str | None:
    """An exact DNS name in lower case without its last dot; None for anything else."""
    if not text.isascii():
        return None
    host = text.lower().removesuffix(".")
    if len(host) > HOST_CHARS_MAX or not all(map(_LABEL.fullmatch, host.split("."))):
        return None
    return host


class VaultWritesOff(GatewayError):
    status, error_type, message = 503, "provider_overloaded", "Vault writes are not enabled"


class VaultConflict(GatewayError):
    status, error_type = 409, "invalid_request"
    message = "Vault request conflicts with existing secrets"


class VaultFull(GatewayError):
    status, error_type = 400, "invalid_request"
    message = "The vault holds as many secrets as it can"


# A list can be read up to there.
SECRETS_MAX: Final = 10_100
_FACTS: Final = ("vault_id", "name", "hosts", "fingerprint")
_WRITTEN: Final = ("sealed", "fingerprint", "hosts", "updated_at")


class SecretInput(NamedTuple):
    """What is to be in a vault under a name."""

    name: str
    value: str
    hosts: list[str]


def filter_secrets(vaults: "QuerySet[Vault]") -> "QuerySet[VaultSecret]":
    """The secrets of callers in these vaults, without their values."""
    return VaultSecret.objects.filter(vault__in=vaults, managed=False).defer("sealed")


def read_secrets_page(
    secrets: "QuerySet[VaultSecret]", page: Page
) -> tuple[list[VaultSecret], bool]:
    """One page, sorted by name, and whether there are more."""
    # A database's own collation may pass over underscores.
    by_bytes = Collate(F("name"), "C") if connection.vendor == "postgresql" else F("name")
    found = list(secrets.order_by(by_bytes)[page.offset : page.offset + page.limit + 1])
    return found[: page.limit], len(found) > page.limit


def put_secret(
    *, vaults: "QuerySet[Vault]", stored: SecretInput, account_id: UUID, by: Actor
) -> VaultSecret:
    """Store or replace one in the one vault of these. Raises `NotFound` where it is not there, and
    `VaultFull`."""
    with transaction.atomic():
        vault, now = _lock_vault(vaults, stored.name), datetime.now(UTC)
        row, before = _build_row(vault, stored.name, now), None
        if vault.same_id is None:
            _check_room(vault.held, more=1)
        else:
            row.pk, row.created_at = vault.same_id, vault.same_since
            previous = {"hosts": vault.same_hosts, "fingerprint": vault.same_fingerprint}
            before = read_fields(row, _FACTS) | previous
        _fill_row(row, stored, open_data_key(vault), now)
        if before is None:
            row.save(force_insert=True)
        else:
            row.save(force_update=True, update_fields=_WRITTEN)
        action = "created" if before is None else "updated"
        _record(by, action, row, before, read_fields(row, _FACTS), account_id=account_id)
    return row


def rebind_secret(*, row: VaultSecret, hosts: list[str], account_id: UUID, by: Actor) -> None:
    """Let it go to these hosts from now on, and to no others. Raises `NotFound`."""
    with transaction.atomic():
        rows = VaultSecret.objects.filter(pk=row.pk, managed=False).defer("sealed")
        found = rows.select_for_update(of=("self",)).first()
        if found is None:
            raise NotFound
        before = read_fields(found, _FACTS)
        found.hosts, found.updated_at = hosts, datetime.now(UTC)
        found.save(update_fields=["hosts", "updated_at"])
        _record(by, "updated", found, before, read_fields(found, _FACTS), account_id=account_id)


def delete_secret(
    *, secrets: "QuerySet[VaultSecret]", name: str, account_id: UUID, by: Actor
) -> None:
    """Raises `NotFound`."""
    with transaction.atomic():
        row = secrets.select_for_update(of=("self",)).filter(name=name).first()
        if row is None:
            raise NotFound
        before = read_fields(row, _FACTS)
        VaultSecret.objects.filter(pk=row.pk).delete()
        _record(by, "deleted", row, before, None, account_id=account_id)


def copy_secrets(
    *,
    source: "QuerySet[Vault]",
    vault: Vault,
    names: Sequence[str],
    account_id: UUID,
    by: Actor,
) -> list[VaultSecret]:
    """Store these of the source's secrets in another vault, with their values and hosts: all of
    them or none, and one record for all. Raises `NotFound`, `VaultConflict`, `VaultFull`."""
    of_both = VaultSecret.objects.filter(Q(vault__in=source) | Q(vault=vault.pk), managed=False)
    rows: Any = of_both.annotate(held=_count_held(vault.pk)).select_related("vault")
    existing: dict[str, VaultSecret] = {}
    found: JsonObject = {}
    for row in rows.filter(name__in=names):
        (existing if row.vault_id == vault.pk else found)[row.name] = row
    if len(found) != len(names):
        raise NotFound
    if any(row.hosts is None for row in found.values()):
        raise VaultConflict
    sources = [found[name] for name in names]
    _check_room(sources[0].held, more=len(names) - len(existing))
    copies = _build_copies(vault, sources, existing)
    try:
        with transaction.atomic():
            VaultSecret.objects.bulk_create(
                copies,
                update_conflicts=True,
                unique_fields=["vault", "name"],
                update_fields=_WRITTEN,
            )
            copied = {row.name: read_fields(row, ("hosts", "fingerprint")) for row in copies}
            facts = {"secrets": copied}
            record_row("vault", by, "copied", vault, None, facts, account_id=account_id)
    except IntegrityError as error:
        # The vault was removed meanwhile.
        raise NotFound from error
    return copies


def _build_copies(
    vault: Vault, sources: Sequence[VaultSecret], existing: Mapping[str, VaultSecret]
) -> list[VaultSecret]:
    keys = {row.vault_id: row.vault for row in sources}
    opened = {vault_id: open_data_key(each) for vault_id, each in keys.items()}
    key, now = open_data_key(vault), datetime.now(UTC)
    copies = []
    for row in sources:
        value = open_value(opened[row.vault_id], row.name, row.sealed)
        # What is there keeps its id: only the name's uniqueness is to be met in the statement.
        since = existing[row.name].created_at if row.name in existing else now
        stored = SecretInput(row.name, value, row.hosts or [])
        copies.append(_fill_row(_build_row(vault, row.name, since), stored, key, now))
    return copies


def _build_row(vault: Vault, name: str, now: datetime) -> VaultSecret:
    return VaultSecret(vault=vault, name=name, created_at=now)


def _fill_row(row: VaultSecret, stored: SecretInput, key: bytes, now: datetime) -> VaultSecret:
    row.hosts, row.updated_at = stored.hosts, now
    for name, value in seal_value(key, stored.name, stored.value).items():
        setattr(row, name, value)
    return row


def _lock_vault(vaults: "QuerySet[Vault]", name: str) -> Any:
    """The vault, with how many secrets are `held` in it and what is the `same` by name. Nobody else
    changes it before the transaction ends. Raises `NotFound`."""
    found = (
        vaults.annotate(
            same=FilteredRelation("secrets", condition=Q(secrets__name=name)),
            same_id=F("same__id"),
            same_hosts=F("same__hosts"),
            same_fingerprint=F("same__fingerprint"),
            same_since=F("same__created_at"),
            held=_count_held(OuterRef("pk")),
        )
        .select_for_update(of=("self",))
        .first()
    )
    if found is None:
        raise NotFound
    return found


def _count_held(vault: Any) -> Subquery:
    """How many secrets are in it; null for none."""
    counted = VaultSecret.objects.filter(vault=vault).order_by().values("vault")
    return Subquery(counted.annotate(held=Count("pk")).values("held"))


def _check_room(held: int | None, *, more: int) -> None:
    if more and (held or 0) + more > SECRETS_MAX:
        raise VaultFull
