"""The admin of accounts, keys and the books."""

from accounts.admin import (
    account,
    app,
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
    "app",
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
