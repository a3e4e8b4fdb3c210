"""Who calls, what they own, and the books."""

from accounts.models.account import Account, Membership, User, Workspace, WorkspaceMembership
from accounts.models.budget import WorkspaceBudget
from accounts.models.byok import ByokCredential
from accounts.models.directory import (
    DeletedScimUser,
    ScimGroup,
    ScimGroupMapping,
    ScimSyncJob,
    ScimUser,
)
from accounts.models.event import Alarm, Channel, Delivery, Event
from accounts.models.guardrail import Guardrail, GuardrailKey, GuardrailMember
from accounts.models.idempotency import RepeatableRequest
from accounts.models.identity import (
    ClaimMapping,
    PersonIdentity,
    SignInAttempts,
    TrustedIssuer,
    Workload,
)
from accounts.models.key import ApiKey, FormerHash
from accounts.models.ledger import Hold, LastAudit, LedgerEntry, PurchaseFee, SpendCounter
from accounts.models.oauth import App, AuthorizationCode
from accounts.models.record import AuditRecord

__all__ = [
    "Account",
    "Alarm",
    "ApiKey",
    "App",
    "AuditRecord",
    "AuthorizationCode",
    "ByokCredential",
    "Channel",
    "ClaimMapping",
    "DeletedScimUser",
    "Delivery",
    "Event",
    "FormerHash",
    "Guardrail",
    "GuardrailKey",
    "GuardrailMember",
    "Hold",
    "LastAudit",
    "LedgerEntry",
    "Membership",
    "PersonIdentity",
    "PurchaseFee",
    "RepeatableRequest",
    "ScimGroup",
    "ScimGroupMapping",
    "ScimSyncJob",
    "ScimUser",
    "SignInAttempts",
    "SpendCounter",
    "TrustedIssuer",
    "User",
    "Workload",
    "Workspace",
    "WorkspaceBudget",
    "WorkspaceMembership",
]
