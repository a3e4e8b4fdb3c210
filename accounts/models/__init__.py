"""Who calls, what they own, and the books."""

from accounts.models.account import Account, Membership, User, Workspace
from accounts.models.key import ApiKey
from accounts.models.ledger import Hold, LedgerEntry, SpendCounter

__all__ = [
    "Account",
    "ApiKey",
    "Hold",
    "LedgerEntry",
    "Membership",
    "SpendCounter",
    "User",
    "Workspace",
]
