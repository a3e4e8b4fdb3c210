"""/presets: settings of requests, kept under a name. Any key may read and make them, an intern's
own may only read them."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, TypeVar
from uuid import UUID

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from pydantic import ConfigDict, Field

from accounts.authentication import authenticate_counted
from accounts.caller import Caller
from accounts.limit_words import describe_unknown_limit
from accounts.services.records import key_actor
from accounts.views.managed import PAGE
from accounts.views.schemas.fields import UserId
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, PermissionDenied, SchemaInvalid
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.paging import parse_page
from gateway.http.resources import OpenObject, ResourceObject
from gateway.http.responses import json_response
from gateway.http.validation import Issue
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import UUID_TEXT, Component, answer_of, list_of, obj
from routing.formats.chat.request import ChatInvalid
from routing.presets import read
from routing.presets.models import Preset, PresetVersion
from routing.presets.read import resolve_scope
from routing.presets.schema import SCHEMAS, SLUG_PATTERN, build_content, is_slug
from routing.presets.services import save_version
from routing.views.openapi.chat import CHAT_MEANINGS
from routing.views.openapi.inference import request_component
from routing.views.openapi.messages import MESSAGES_MEANINGS
from routing.views.openapi.operation import describe_operation
from routing.views.openapi.responses import RESPONSES_MEANINGS

F = TypeVar("F", bound=Callable[..., object])
# Leading zeros are a caller's own business, within reason.
_VERSION_NUMBER: Final = re.compile(r"[0-9]{1,30}")
# Of the words for limits those that are fields of requests.
_MODEL_LISTS: Final = frozenset({"models"})


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


_PRESET_ANSWER: Final = Component("PresetAnswer", obj({"data": PresetWithVersion}))
_SLUG: Final = OpenApiParameter(
    "slug",
    {"type": "string", "pattern": SLUG_PATTERN},
    OpenApiParameter.PATH,
    description="The preset's slug.",
)
_VERSION: Final = OpenApiParameter(
    "version", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH
)
_WORKSPACE: Final = OpenApiParameter(
    "workspace_id",
    UUID_TEXT,
    description="For management keys: a workspace of the account. Others have their own.",
)
_CACHE_MEANINGS: Final = {
    "cache_enabled": "Whether answers may come from the response cache.",
    "cache_ttl_seconds": "How long answers are kept there.",
}


def _operation(
    operation_id: str,
    summary: str,
    description: str,
    answer: Component,
    *statuses: int,
    parameters: Sequence[OpenApiParameter] = (_SLUG,),
    **body: Any,
) -> Callable[[F], F]:
    return describe_operation(
        "Presets",
        operation_id,
        summary,
        description,
        answer,
        *(400, 404, *statuses),
        parameters=[*parameters, _WORKSPACE],
        **body,
    )


def _creation(
    operation_id: str, body_format: str, meanings: Mapping[str, str], example: Mapping[str, Any]
) -> Callable[[F], F]:
    return _operation(
        operation_id,
        f"Make a preset from a {body_format} body",
        "The preset with its new version in force: version 1 of a new preset, else the next one. "
        "What presets do not keep, the conversation itself among it, is ignored.",
        _PRESET_ANSWER,
        *(409, 413),
        body=request_component(
            f"{body_format.capitalize()}PresetRequest",
            SCHEMAS[body_format],
            {**meanings, **_CACHE_MEANINGS},
        ),
        examples=[OpenApiExample("Settings", value=example, request_only=True)],
    )


class _PresetViews(LeanViewSet):
    def authenticate(self, request: HttpRequest) -> Caller:
        caller = authenticate_counted(request)
        self.beside = {"user_id": caller.creator_id}
        return caller


class PresetsViewSet(_PresetViews):
    """Presets of the key's workspace; a management key sees those of the whole account."""

    @_operation(
        "listPresets",
        "List presets",
        "The workspace's presets, most recently updated first; with a management key those of all "
        "workspaces of the account.",
        list_of(PresetObject),
        503,
        parameters=PAGE,
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.authenticate(request)
        scope, page = resolve_scope(caller, request.GET, lists=True), parse_page(request.GET)
        rows, total = run_queries(Lane.READ, lambda: read.list_presets(scope, page))
        return json_response({"data": list(map(serialize_preset, rows)), "total_count": total})

    @_operation(
        "getPreset", "Get a preset", "The preset with the version in force.", _PRESET_ANSWER, 503
    )
    def retrieve(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        caller = self.authenticate(request)
        _check_slug(slug)
        scope = resolve_scope(caller, request.GET)
        row = run_queries(Lane.READ, lambda: read.find_preset(scope, slug))
        return json_response({"data": serialize_preset_with_version(row)})


class _WithoutUnavailable(_PresetViews):
    """The lists of statuses have no 503, so a silent database is a 500."""

    outage_error = GatewayError


class PresetVersionsViewSet(_WithoutUnavailable):
    """What a preset was at any time. Versions never change."""

    @_operation(
        "listPresetVersions",
        "List versions of a preset",
        "Its versions, the first one first.",
        list_of(PresetVersionObject),
        parameters=[_SLUG, *PAGE],
    )
    def list(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        caller = self.authenticate(request)
        _check_slug(slug)
        scope, page = resolve_scope(caller, request.GET), parse_page(request.GET)
        rows, total = run_queries(Lane.READ, lambda: read.list_versions(scope, slug, page))
        return json_response({"data": list(map(serialize_version, rows)), "total_count": total})

    @_operation(
        "getPresetVersion",
        "Get a version of a preset",
        "The version of that number.",
        answer_of(PresetVersionObject),
        parameters=[_SLUG, _VERSION],
    )
    def retrieve(self, request: HttpRequest, slug: str, version: str) -> HttpResponseBase:
        caller = self.authenticate(request)
        _check_slug(slug)
        if not _VERSION_NUMBER.fullmatch(version):
            raise SchemaInvalid([Issue("version", "Invalid input: expected int, received string")])
        number = int(version)
        if number < 1:
            raise SchemaInvalid([Issue("version", "Too small: expected number to be >=1")])
        scope = resolve_scope(caller, request.GET)
        row = run_queries(Lane.READ, lambda: read.find_version(scope, slug, number))
        return json_response({"data": serialize_version(row)})


class _Creation(_WithoutUnavailable):
    """A preset, or its next version, from the body of a request."""

    body_format: ClassVar[str]

    def save(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        caller = self.authenticate(request)
        if caller.intern_id is not None:
            raise PermissionDenied
        _check_slug(slug)
        scope = resolve_scope(caller, request.GET)
        body = read_object(request, bytes_max=settings.ROUTER_MAX_BODY_BYTES)
        if text := describe_unknown_limit(body, _MODEL_LISTS):
            raise SchemaInvalid([Issue("", text)])
        try:
            content = build_content(self.body_format, body, models_max=settings.ROUTER_MAX_MODELS)
        except ChatInvalid as error:
            raise SchemaInvalid(error.issues, error_type=error.error_type) from None
        row = run_queries(
            Lane.OPERATOR,
            lambda: save_version(
                scope=scope,
                slug=slug,
                content=content,
                creator=caller.creator_id,
                by=key_actor(caller),
            ),
        )
        return json_response({"data": serialize_preset_with_version(row)})


class ChatPresetViewSet(_Creation):
    body_format = "chat"

    @_creation(
        "createPresetFromChat",
        "chat",
        CHAT_MEANINGS,
        {
            "model": "simulated/small",
            "temperature": 0.7,
            "messages": [{"role": "system", "content": "You write short mails."}],
        },
    )
    def create(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        return self.save(request, slug)


class ResponsesPresetViewSet(_Creation):
    body_format = "responses"

    @_creation(
        "createPresetFromResponses",
        "responses",
        RESPONSES_MEANINGS,
        {"model": "simulated/small", "instructions": "You write short mails."},
    )
    def create(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        return self.save(request, slug)


class MessagesPresetViewSet(_Creation):
    body_format = "messages"

    @_creation(
        "createPresetFromMessages",
        "messages",
        MESSAGES_MEANINGS,
        {"model": "simulated/small", "max_tokens": 1024, "system": "You write short mails."},
    )
    def create(self, request: HttpRequest, slug: str) -> HttpResponseBase:
        return self.save(request, slug)


def _check_slug(slug: str) -> None:
    if not is_slug(slug):
        text = f"Invalid string: must match pattern /{SLUG_PATTERN}/"
        raise SchemaInvalid([Issue("slug", text)])
