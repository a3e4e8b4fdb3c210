"""How /presets is described in the OpenAPI document."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from accounts.views.managed import PAGE
from gateway.http.jsonio import JsonObject
from gateway.openapi.components import (
    TEXT,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import error_responses
from routing.presets.schema import SCHEMAS, SLUG_PATTERN
from routing.views.openapi import chat as chat_parameters
from routing.views.openapi import messages as messages_parameters
from routing.views.openapi import responses as responses_parameters
from routing.views.openapi.inference import request_component

F = TypeVar("F", bound=Callable[..., object])
_ID: Final = {"type": "string", "format": "uuid"}
_MOMENT: Final = {"type": "string", "format": "date-time"}

VERSION: Final = Component(
    "PresetVersion",
    obj(
        {
            "id": _ID,
            "preset_id": _ID,
            "version": {"type": "integer", "minimum": 1},
            "config": {
                "type": "object",
                "additionalProperties": True,
                "description": "The settings kept, under one name for all formats.",
            },
            "system_prompt": described(TEXT, "Empty when there is none."),
            "creator_id": described(TEXT, "A user's id."),
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
        }
    ),
)
_PRESET: Final[JsonObject] = {
    "id": _ID,
    "name": TEXT,
    "slug": {"type": "string", "pattern": SLUG_PATTERN},
    "description": nullable(TEXT),
    "status": words("active", "disabled", "archived"),
    "status_updated_at": nullable(described(_MOMENT, "Null until the status changes.")),
    "created_at": _MOMENT,
    "updated_at": _MOMENT,
    "creator_user_id": described(TEXT, "A user's id."),
    "workspace_id": _ID,
    "designated_version_id": described(_ID, "The version in force."),
}
PRESET: Final = Component("Preset", obj(_PRESET))
WHOLE_PRESET: Final = Component(
    "PresetWithVersion", obj({**_PRESET, "designated_version": VERSION})
)
_ONE: Final = Component("PresetAnswer", obj({"data": WHOLE_PRESET}))
_MANY: Final = Component("PresetList", obj({"data": array(PRESET), "total_count": WHOLE}))
_VERSION_ANSWER: Final = Component("PresetVersionAnswer", obj({"data": VERSION}))
_VERSIONS: Final = Component(
    "PresetVersionList", obj({"data": array(VERSION), "total_count": WHOLE})
)

_SLUG: Final = OpenApiParameter(
    "slug",
    {"type": "string", "pattern": SLUG_PATTERN},
    OpenApiParameter.PATH,
    description="The preset's slug.",
)
_NUMBER: Final = OpenApiParameter(
    "version", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH
)
_WORKSPACE: Final = OpenApiParameter(
    "workspace_id",
    _ID,
    description="For management keys: a workspace of the account. Others have their own.",
)
_CACHE: Final = {
    "cache_enabled": "Whether answers may come from the response cache.",
    "cache_ttl_seconds": "How long answers are kept there.",
}


def _described(
    operation_id: str,
    summary: str,
    description: str,
    answer: Component,
    *statuses: int,
    parameters: list[OpenApiParameter],
    body: Component | None = None,
    example: Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    examples = [OpenApiExample("Settings", value=example, request_only=True)] if example else None
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        tags=["Presets"],
        parameters=[*parameters, _WORKSPACE],
        request=None if body is None else {"application/json": body},
        examples=examples,
        responses={
            200: OpenApiResponse(answer, description=description),
            **error_responses(400, 401, 403, 500, *statuses),
        },
    )
    return decorate


def _making(
    operation_id: str,
    name: str,
    format: str,
    meanings: Mapping[str, str],
    example: Mapping[str, Any],
) -> Callable[[F], F]:
    body = request_component(name, SCHEMAS[format], {**meanings, **_CACHE})
    return _described(
        operation_id,
        f"Make a preset from a {format} body",
        "The preset with its new version in force: version 1 of a new preset, else the next one. "
        "What presets do not keep, the conversation itself among it, is ignored.",
        _ONE,
        *(404, 409, 413),
        parameters=[_SLUG],
        body=body,
        example=example,
    )


listing = _described(
    "listPresets",
    "List presets",
    "The workspace's presets, most recently updated first; with a management key those of all "
    "workspaces of the account.",
    _MANY,
    *(404, 503),
    parameters=PAGE,
)
retrieval = _described(
    "getPreset",
    "Get a preset",
    "The preset with the version in force.",
    _ONE,
    *(404, 503),
    parameters=[_SLUG],
)
versions = _described(
    "listPresetVersions",
    "List versions of a preset",
    "Its versions, the first one first.",
    _VERSIONS,
    404,
    parameters=[_SLUG, *PAGE],
)
version = _described(
    "getPresetVersion",
    "Get a version of a preset",
    "The version of that number.",
    _VERSION_ANSWER,
    404,
    parameters=[_SLUG, _NUMBER],
)
from_chat = _making(
    "createPresetFromChat",
    "ChatPresetRequest",
    "chat",
    chat_parameters.CHAT_MEANINGS,
    {
        "model": "simulated/small",
        "temperature": 0.7,
        "messages": [{"role": "system", "content": "You write short mails."}],
    },
)
from_responses = _making(
    "createPresetFromResponses",
    "ResponsesPresetRequest",
    "responses",
    responses_parameters.RESPONSES_MEANINGS,
    {"model": "simulated/small", "instructions": "You write short mails."},
)
from_messages = _making(
    "createPresetFromMessages",
    "MessagesPresetRequest",
    "messages",
    messages_parameters.MESSAGES_MEANINGS,
    {"model": "simulated/small", "max_tokens": 1024, "system": "You write short mails."},
)
