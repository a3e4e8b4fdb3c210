"""A team's own provider credentials as requests see them, and how their keys are kept."""

import json
import re
import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from accounts.models import ApiKey, ByokCredential
from gateway.sealing import seal, unseal

# The files that cloud providers give out have some 2,500 characters.
KEY_CHARS_MAX: Final = 8_192
PURPOSE: Final = "byok-credential"
# What tells kinds of keys apart: `sk-`, `gsk_`.
_BEGINNING: Final = re.compile(r"[A-Za-z]{2,6}[-_]")
# The end of a shorter key would be too much of it.
_CHARS_WITH_AN_END: Final = 12
_VISIBLE: Final = re.compile(r"[!-~]+")


class InvalidProviderKey(ValueError):
    """What cannot travel in a header, so no provider gave it to anybody."""


@dataclass(frozen=True, slots=True)
class ByokEntry:
    """A credential that a caller may use. Its key is sealed until it is sent.

    `models` are the names it is for, None for all. `id` is the row's. Where it `is_required`, the
    gateway's own credential does not serve what this one is for; where it `is_byok_only`, nothing
    of the provider's.
    """

    id: str
    provider: str
    label: str
    is_fallback: bool
    sealed: str = field(repr=False)
    models: frozenset[str] | None = None
    is_required: bool = False
    is_byok_only: bool = False


def clean_key(text: str) -> str:
    """A provider's key as it is sent: no blanks around it, a JSON object on one line.

    Raises `InvalidProviderKey`.
    """
    key = text.strip()
    if key.startswith("{"):
        try:
            return json.dumps(json.loads(key), separators=(",", ":"))
        except (ValueError, RecursionError):
            raise InvalidProviderKey from None
    if not _VISIBLE.fullmatch(key):
        raise InvalidProviderKey
    return key


def mask_key(key: str) -> str:
    """`sk-...AbCd`: what tells a key from others without telling it."""
    if key.startswith("{"):
        return "{...}"
    beginning = _BEGINNING.match(key)
    long_enough = len(key) >= _CHARS_WITH_AN_END
    head = beginning.group() if beginning and long_enough else ""
    return f"{head}...{key[-4:] if long_enough else ''}"


def seal_key(credential_id: uuid.UUID, key: str) -> str:
    """The key as its row keeps it."""
    return seal(key, purpose=PURPOSE, row=str(credential_id))


def unseal_key(entry: ByokEntry) -> str:
    """The key itself, for one call. Raises `UnsealError`."""
    return unseal(entry.sealed, purpose=PURPOSE, row=entry.id)


def load_credentials(key: ApiKey) -> tuple[ByokEntry, ...]:
    """What this key may use: prioritised credentials first, each section by its order, the
    workspace's own before those of the whole account."""
    rows = (
        ByokCredential.objects.living()
        .reaching(key.workspace_id)
        .filter(account=key.account_id, disabled=False)
    )
    mine = [row for row in rows if _is_for(row, key)]
    mine.sort(
        key=lambda row: (
            *(row.is_fallback, row.sort_order),
            *(row.workspace_id is None, row.created_at, row.pk),
        )
    )
    return tuple(
        _deduplicate(
            ByokEntry(
                id=str(row.pk),
                provider=row.provider,
                label=row.label,
                is_fallback=row.is_fallback,
                sealed=row.sealed,
                models=None if row.allowed_models is None else frozenset(row.allowed_models),
                is_required=row.is_required,
                is_byok_only=row.is_byok_only,
            )
        )
        for row in mine
    )


def _is_for(row: ByokCredential, key: ApiKey) -> bool:
    keys, users = row.allowed_key_ids, row.allowed_user_ids
    if keys is not None and key.pk not in keys:
        return False
    return users is None or (key.creator is not None and key.creator.public_id in users)


@lru_cache(maxsize=4096)
def _deduplicate(entry: ByokEntry) -> ByokEntry:
    """The equal one that other callers hold already: of a large key one copy is enough."""
    return entry
