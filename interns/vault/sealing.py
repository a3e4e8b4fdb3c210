"""How a vault keeps values: each under the vault's own data key, that under the master key.

A value opens under its own name and in its own vault only.
"""

import hmac
from uuid import UUID

from gateway.sealing import (
    master_key_id,
    new_data_key,
    reseal,
    seal,
    seal_under,
    unseal,
    unseal_under,
)
from interns.models import Vault

_PURPOSE = "vault-data-key"


def wrap_new_key(vault_id: UUID) -> dict[str, str]:
    """The columns of a new vault that hold its data key."""
    wrapped = seal(new_data_key().hex(), purpose=_PURPOSE, row=str(vault_id))
    return {"sealed_data_key": wrapped, "master_key_id": master_key_id()}


def open_data_key(vault: Vault) -> bytes:
    """The vault's data key, in the clear. Raises `UnsealError`."""
    return bytes.fromhex(unseal(vault.sealed_data_key, purpose=_PURPOSE, row=str(vault.pk)))


def rewrap_key(vault: Vault) -> dict[str, str] | None:
    """The same data key under the current master key; None where it is. Raises `UnsealError`."""
    wrapped = reseal(vault.sealed_data_key, purpose=_PURPOSE, row=str(vault.pk))
    if wrapped is None:
        return None
    return {"sealed_data_key": wrapped, "master_key_id": master_key_id()}


def seal_value(key: bytes, name: str, value: str) -> dict[str, str]:
    """The columns of a secret that come from its value."""
    return {
        "sealed": seal_under(key, value, name=name),
        # Equal within a vault for equal values; it says nothing of other vaults.
        "fingerprint": "sha256:" + hmac.digest(key, value.encode(), "sha256").hex(),
    }


def open_value(key: bytes, name: str, sealed: str) -> str:
    """The value itself. Raises `UnsealError`."""
    return unseal_under(key, sealed, name=name)
