"""Presets and versions as the API shows them (management reference 4.1)."""

from typing import Any

import orjson

from gateway.http.times import format_optional_time, format_time
from routing.presets.models import Preset, PresetVersion


def preset_object(row: Preset) -> dict[str, Any]:
    """A preset in a list; its creator is at hand."""
    return {
        "id": str(row.pk),
        "name": row.name,
        "slug": row.slug,
        "description": row.description,
        "status": row.status,
        "status_updated_at": format_optional_time(row.status_updated_at),
        "created_at": format_time(row.created_at),
        "updated_at": format_time(row.updated_at),
        "creator_user_id": row.creator.public_id if row.creator else "",
        "workspace_id": str(row.workspace_id),
        "designated_version_id": str(row.designated_version_id),
    }


def whole_object(row: Preset) -> dict[str, Any]:
    """A preset with the version in force."""
    return {**preset_object(row), "designated_version": version_object(row.designated_version)}


def version_object(row: PresetVersion) -> dict[str, Any]:
    """A version. It never changes, so its two times are one."""
    return {
        "id": str(row.pk),
        "preset_id": str(row.preset_id),
        "version": row.version,
        "config": orjson.Fragment(row.config),
        "system_prompt": row.system_prompt,
        "creator_id": row.creator.public_id if row.creator else "",
        "created_at": format_time(row.created_at),
        "updated_at": format_time(row.created_at),
    }
