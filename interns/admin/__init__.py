"""Pages of interns and of what belongs to them."""

from interns.admin import archives, intern, records, vault

__all__ = ["archives", "intern", "records", "vault"]
