"""Workspaces and their members as the API shows them (management reference 5.3, 5.7)."""

from typing import Any

from accounts.services.workspace_members import WorkspaceMember
from gateway.http.jsonio import format_optional_time, format_time


def workspace_object(row: Any) -> dict[str, Any]:
    """A workspace with its `creator_public_id`; every field is present."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "slug": row.slug,
        "description": row.description,
        "default_text_model": row.default_text_model or None,
        "default_image_model": row.default_image_model or None,
        "default_provider_sort": row.default_provider_sort,
        "default_guardrail_id": str(row.default_guardrail_id),
        "disabled_server_tools": row.disabled_server_tools or None,
        "include_byok_in_budgets": row.include_byok_in_budgets,
        "io_logging_api_key_ids": row.io_logging_api_key_ids,
        "io_logging_sampling_rate": _number(row.io_logging_sampling_rate),
        "is_data_discount_logging_enabled": row.is_data_discount_logging_enabled,
        "is_observability_broadcast_enabled": row.is_observability_broadcast_enabled,
        "is_observability_io_logging_enabled": row.is_observability_io_logging_enabled,
        "created_at": format_time(row.created_at),
        "created_by": row.creator_public_id,
        "updated_at": format_optional_time(row.updated_at),
    }


def member_object(member: WorkspaceMember) -> dict[str, Any]:
    return {
        "id": str(member.id),
        "workspace_id": str(member.workspace_id),
        "user_id": member.user_id,
        "role": member.role,
        "created_at": format_time(member.created_at),
    }


def _number(rate: float) -> float | int:
    """1 rather than 1.0."""
    return int(rate) if rate == int(rate) else rate
