"""The admin of accounts, keys and the books."""

from accounts.admin import account, books, key, user, workspace

__all__ = ["account", "books", "key", "user", "workspace"]
