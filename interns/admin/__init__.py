"""Pages of interns and of what belongs to them."""

from interns.admin import intern, records, vault

__all__ = ["intern", "records", "vault"]
