"""Presets and their versions: the fields of their objects."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import orjson
from pydantic import ConfigDict, Field

from accounts.views.schemas.fields import UserId
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.resources import OpenObject, ResourceObject
from routing.presets.models import Preset, PresetVersion
from routing.presets.schema import SLUG_PATTERN


class PresetVersionObject(ResourceObject):
    """What a preset was at a time. It never changes."""

    model_config = ConfigDict(title="PresetVersion")

    id: UUID
    preset_id: UUID
    version: int = Field(ge=1)
    config: OpenObject = Field(description="The settings kept, under one name for all formats.")
    system_prompt: str = Field(description="Empty when there is none.")
    creator_id: UserId
    created_at: datetime
    updated_at: datetime


class PresetObject(ResourceObject):
    """Settings of requests, kept under a name."""

    model_config = ConfigDict(title="Preset")

    id: UUID
    name: str
    slug: str = Field(json_schema_extra={"pattern": SLUG_PATTERN})
    description: str | None
    status: Literal["active", "disabled", "archived"]
    status_updated_at: datetime | None = Field(description="Null until the status changes.")
    created_at: datetime
    updated_at: datetime
    creator_user_id: UserId
    workspace_id: UUID
    designated_version_id: UUID = Field(description="The version in force.")


class PresetWithVersion(PresetObject):
    """A preset with the version in force."""

    model_config = ConfigDict(title="PresetWithVersion")

    designated_version: PresetVersionObject


def serialize_preset(row: Preset) -> JsonObject:
    """The JSON of a `PresetObject`; `creator` must have been selected."""
    return PresetObject.from_row(row, creator_user_id=row.creator.public_id if row.creator else "")


def serialize_preset_with_version(row: Preset) -> JsonObject:
    """The JSON of a `PresetWithVersion`."""
    version = serialize_version(row.designated_version)
    return {**serialize_preset(row), "designated_version": version}


def serialize_version(row: PresetVersion) -> JsonObject:
    """The JSON of a `PresetVersionObject`. It never changes, so its two times are one."""
    return PresetVersionObject.from_row(
        row,
        config=orjson.Fragment(row.config),
        creator_id=row.creator.public_id if row.creator else "",
        updated_at=format_time(row.created_at),
    )
