"""Pages of interns and of what belongs to them."""

from interns.admin import archives, chat, histories, intern, vault

__all__ = ["archives", "chat", "histories", "intern", "vault"]
