"""An end user's identity as others see it: never raw, and apart for every account."""

import hashlib
from typing import Final
from uuid import UUID

from django.conf import settings

SEPARATOR: Final = "\x1f"


def user_salt(account_id: UUID) -> str:
    """What is put before a user's name and hashed with it."""
    return SEPARATOR.join((settings.ROUTER_USER_HASH_SECRET, str(account_id), ""))


def hash_user(account_id: UUID, user: str) -> str:
    """SHA-256 hex: what a provider gets, and what history has."""
    return hashlib.sha256((user_salt(account_id) + user).encode()).hexdigest()
