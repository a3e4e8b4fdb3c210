"""The admin of accounts, keys and the books."""

from accounts.admin import (
    account,
    books,
    budgets,
    byok,
    guardrail,
    identity,
    key,
    notification,
    user,
    workspace,
)

__all__ = [
    "account",
    "books",
    "budgets",
    "byok",
    "guardrail",
    "identity",
    "key",
    "notification",
    "user",
    "workspace",
]
