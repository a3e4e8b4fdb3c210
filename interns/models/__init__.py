"""Interns and what belongs to them: history, creations, archives, chat, vaults, machines."""

from interns.models.chat import ChatInteraction, ChatRun, ChatSession
from interns.models.intern import (
    Intern,
    InternCreation,
    InternHost,
    InternTransition,
    LeaseKind,
    Status,
)
from interns.models.storage import Vault, VaultSecret, WorkspaceArchive

__all__ = [
    "ChatInteraction",
    "ChatRun",
    "ChatSession",
    "Intern",
    "InternCreation",
    "InternHost",
    "InternTransition",
    "LeaseKind",
    "Status",
    "Vault",
    "VaultSecret",
    "WorkspaceArchive",
]
