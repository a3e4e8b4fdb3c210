"""Who calls, what they own, and the books."""

from accounts.models.account import Account, Membership, User, Workspace
from accounts.models.key import ApiKey, FormerHash
from accounts.models.ledger import Hold, LedgerEntry, SpendCounter
from accounts.models.record import AuditRecord
from accounts.models.workspace_membership import WorkspaceMembership

__all__ = [
    "Account",
    "ApiKey",
    "AuditRecord",
    "FormerHash",
    "Hold",
    "LedgerEntry",
    "Membership",
    "SpendCounter",
    "User",
    "Workspace",
    "WorkspaceMembership",
]
