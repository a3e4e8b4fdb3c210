"""The admin of accounts, keys and the books."""

from accounts.admin import account, books, key, records, user, workspace

__all__ = ["account", "books", "key", "records", "user", "workspace"]
