"""The admin of accounts, keys and the books."""

from accounts.admin import (
    account,
    app,
    books,
    budgets,
    byok,
    directory,
    guardrail,
    identity,
    key,
    notification,
    second_factor,
    user,
    workspace,
)

__all__ = [
    "account",
    "app",
    "books",
    "budgets",
    "byok",
    "directory",
    "guardrail",
    "identity",
    "key",
    "notification",
    "second_factor",
    "user",
    "workspace",
]
