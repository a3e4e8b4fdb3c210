"""rotate_master_key: everything sealed under a former VAULT_MASTER_KEY, under the current one."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import CommandParser
from django.db.models import QuerySet

from accounts import byok
from accounts.events import senders
from accounts.models import ByokCredential, Channel, RepeatableRequest
from accounts.services import repeatable
from gateway.commands import JsonCommand
from gateway.http.jsonio import JsonObject
from gateway.sealing import UnsealError, master_key_id, reseal, reseal_bytes
from interns.models import Vault
from interns.vault.sealing import rewrap_key
from routing.catalogue import models as catalogue
from routing.catalogue.credentials import ProviderCredential
from routing.destinations import config as destination_config
from routing.destinations.models import Destination
from routing.history import contents
from routing.history.models import GenerationContent

_CHUNK = 200


class Kind(NamedTuple):
    """What is sealed. `renewed` gives the columns of a row that change, None where none do."""

    name: str
    rows: "QuerySet[Any]"
    renewed: Callable[[Any], JsonObject | None]


def _reseal_text(column: str, purpose: str, named: Callable[[Any], str], row: object) -> Any:
    sealed = reseal(getattr(row, column), purpose=purpose, row=named(row))
    return None if sealed is None else {column: sealed}


def _reseal_bytes(row: Any) -> Any:
    kept = bytes(row.sealed)
    sealed = reseal_bytes(kept, purpose=contents.PURPOSE, row=row.pk)
    return None if sealed is None else {"sealed": sealed}


def _list_kinds() -> Iterator[Kind]:
    def key(row: Any) -> str:
        return str(row.pk)

    yield Kind("vaults", Vault.objects.all(), rewrap_key)
    yield Kind(
        "provider_credentials",
        catalogue.Provider.objects.filter(credential_sealed__isnull=False),
        partial(_reseal_text, "credential_sealed", catalogue.PURPOSE, lambda row: row.slug),
    )
    yield Kind(
        "pooled_credentials",
        ProviderCredential.objects.select_related("provider"),
        partial(_reseal_text, "sealed", catalogue.PURPOSE, lambda row: row.seal_row),
    )
    yield Kind(
        "byok_credentials",
        ByokCredential.objects.exclude(sealed=""),
        partial(_reseal_text, "sealed", byok.PURPOSE, key),
    )
    yield Kind(
        "kept_answers",
        RepeatableRequest.objects.filter(sealed_answer__isnull=False),
        partial(_reseal_text, "sealed_answer", repeatable.PURPOSE, key),
    )
    yield Kind(
        "channel_urls",
        Channel.objects.exclude(sealed_url=""),
        partial(_reseal_text, "sealed_url", senders.URL_PURPOSE, key),
    )
    yield Kind(
        "channel_secrets",
        Channel.objects.exclude(sealed_secret=""),
        partial(_reseal_text, "sealed_secret", senders.SECRET_PURPOSE, key),
    )
    yield Kind(
        "destinations",
        Destination.objects.all(),
        partial(_reseal_text, "sealed", destination_config.PURPOSE, key),
    )
    yield Kind("generation_contents", GenerationContent.objects.all(), _reseal_bytes)


class Command(JsonCommand):
    help = (
        "Seal everything under the VAULT_MASTER_KEY of now that VAULT_FORMER_MASTER_KEYS still "
        "open. The gateway may run meanwhile; afterwards the former keys can go."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only count what is left to do")

    def run(self, **options: object) -> tuple[JsonObject, int]:
        counts = {kind.name: _rotate(kind, write=not options["check"]) for kind in _list_kinds()}
        unreadable = sum(lost for _, lost in counts.values())
        return {
            "master_key_id": master_key_id(),
            "former_keys": len(settings.VAULT_FORMER_MASTER_KEYS),
            **{name: moved for name, (moved, _) in counts.items()},
            "unreadable": unreadable,
        }, 1 if unreadable else 0


def _rotate(kind: Kind, *, write: bool) -> tuple[int, int]:
    """How many rows moved, or are to, and how many no key opens."""
    moved = lost = 0
    for row in kind.rows.order_by("pk").iterator(_CHUNK):
        try:
            columns = kind.renewed(row)
        except UnsealError:
            lost += 1
            continue
        if columns is not None:
            # Where it changed meanwhile it was sealed under the current key already.
            old = {name: getattr(row, name) for name in columns}
            same = kind.rows.model._default_manager.filter(pk=row.pk, **old)
            moved += same.update(**columns) if write else 1
    return moved, lost
