"""The admin of accounts, keys and the books."""

from accounts.admin import (
    account,
    books,
    budgets,
    byok,
    fees,
    guardrail,
    guardrail_assignments,
    key,
    records,
    repeatable,
    sign_in,
    user,
    workspace,
)

__all__ = [
    "account",
    "books",
    "budgets",
    "byok",
    "fees",
    "guardrail",
    "guardrail_assignments",
    "key",
    "records",
    "repeatable",
    "sign_in",
    "user",
    "workspace",
]
