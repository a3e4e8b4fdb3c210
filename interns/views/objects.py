"""Interns as the API shows them (management reference 6.2)."""

from datetime import UTC, datetime
from typing import Any

from gateway.http.jsonio import format_time
from interns.leases import is_pickup_overdue
from interns.machine import build_progress
from interns.models import Intern, Vault


def serialize_intern(intern: Intern) -> dict[str, Any]:
    """Every field is present."""
    waits = is_pickup_overdue(intern, datetime.now(UTC))
    return {
        "id": str(intern.pk),
        "name": intern.name,
        "description": intern.description,
        "instructions": intern.instructions,
        "model": intern.model,
        "hostname": intern.hostname,
        "status": str(intern.status),
        "progress": build_progress(intern.progress_step, waits=waits),
        "last_failure_message": intern.last_failure_message,
        "vault_id": _read_vault_id(intern),
        "attached_vault_id": _text_or_none(intern.attached_vault_id),
        "workspace_id": str(intern.workspace_id),
        "created_at": format_time(intern.created_at),
        "updated_at": format_time(intern.updated_at),
    }


def _read_vault_id(intern: Intern) -> str | None:
    try:
        return str(intern.vault.pk)
    except Vault.DoesNotExist:
        return None


def _text_or_none(value: object | None) -> str | None:
    return None if value is None else str(value)
