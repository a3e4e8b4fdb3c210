"""Guardrails and their assignments as the API shows them (management reference 12)."""

from typing import Any

from accounts.guard_rules import ZDR_GROUPS
from accounts.models import Guardrail, GuardrailKey, GuardrailMember
from accounts.views.bodies.guardrail_body import BUILTIN_LABELS
from gateway.http.jsonio import usd
from gateway.http.times import iso, iso_or_none


def guardrail_object(row: Guardrail) -> dict[str, Any]:
    """A guardrail; every field is present."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "description": row.description,
        "workspace_id": str(row.workspace_id),
        "limit_usd": None if row.limit_nano is None else usd(row.limit_nano),
        "reset_interval": row.reset_interval,
        "include_byok_in_budgets": row.include_byok_in_budgets,
        "allowed_models": row.allowed_models,
        "ignored_models": row.ignored_models,
        "allowed_providers": row.allowed_providers,
        "ignored_providers": row.ignored_providers,
        "enforce_zdr": _everywhere(row),
        "enforce_zdr_anthropic": row.enforce_zdr_anthropic,
        "enforce_zdr_openai": row.enforce_zdr_openai,
        "enforce_zdr_google": row.enforce_zdr_google,
        "enforce_zdr_xai": row.enforce_zdr_xai,
        "enforce_zdr_other": row.enforce_zdr_other,
        "enable_paid_model_training": row.enable_paid_model_training,
        "enable_free_model_training": row.enable_free_model_training,
        "enable_free_model_publication": row.enable_free_model_publication,
        "content_filters": row.content_filters,
        "content_filter_builtins": _builtins(row.content_filter_builtins),
        "allowed_data_regions": row.allowed_data_regions,
        "created_at": iso(row.created_at),
        "updated_at": iso_or_none(row.updated_at),
    }


def key_assignment_object(row: GuardrailKey) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "guardrail_id": str(row.guardrail_id),
        "key_hash": row.api_key.hash,
        "key_name": row.api_key.name,
        "key_label": row.api_key.label,
        "assigned_by": row.assigned_by.public_id if row.assigned_by else None,
        "created_at": iso(row.created_at),
    }


def member_assignment_object(row: GuardrailMember) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "guardrail_id": str(row.guardrail_id),
        "user_id": row.membership.user.public_id,
        "organization_id": str(row.membership.account_id),
        "assigned_by": row.assigned_by.public_id if row.assigned_by else None,
        "created_at": iso(row.created_at),
    }


def _everywhere(row: Guardrail) -> bool | None:
    """The older field that stood for all model groups; null where they differ."""
    said = {getattr(row, f"enforce_zdr_{group}") for group in ZDR_GROUPS}
    return said.pop() if len(said) == 1 else None


def _builtins(filters: Any) -> Any:
    if filters is None:
        return None
    return [{**each, "label": BUILTIN_LABELS[each["slug"]]} for each in filters]
