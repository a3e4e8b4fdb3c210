"""How /keys is described in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.services.keys import GRACE_S_MAX
from accounts.views.bodies.key_body import EXTERNAL_USER_CHARS_MAX
from accounts.views.openapi.key_description import MOMENT, SPENDING
from gateway.openapi.components import (
    FLAG,
    TEXT,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import error_responses

_TAGS: Final = ["Keys and credits"]
_UUID: Final = {"type": "string", "format": "uuid"}
KEY: Final = Component(
    "Key",
    obj(
        {
            "hash": described(TEXT, "SHA-256 of the key string: its public identifier."),
            "name": TEXT,
            "label": described(TEXT, "The key, masked."),
            "disabled": FLAG,
            **SPENDING,
            "created_at": MOMENT,
            "updated_at": nullable(MOMENT),
            "expires_at": nullable(MOMENT),
            "last_used_at": nullable(
                described(MOMENT, "When its last call was booked; known some seconds later.")
            ),
            "external_user": nullable(described(TEXT, "`external.user` of its making.")),
            "creator_user_id": nullable(TEXT),
            "workspace_id": nullable(TEXT),
        }
    ),
)
_STRING: Final = described(TEXT, "The key, shown this once.")
KEY_ANSWER: Final = Component("KeyAnswer", obj({"data": KEY}))
NEW_KEY_ANSWER: Final = Component("NewKeyAnswer", obj({"data": KEY, "key": _STRING}))
KEY_LIST: Final = Component("KeyList", obj({"data": array(KEY)}))
KEY_DELETED: Final = Component("KeyDeleted", obj({"deleted": {"type": "boolean", "enum": [True]}}))
_LIMITS: Final[dict[str, Any]] = {
    "limit": nullable({"type": "number", "minimum": 0, "description": "USD; null for no limit."}),
    "limit_reset": words("daily", "weekly", "monthly", None),
    "include_byok_in_limit": {"type": "boolean", "default": False},
}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 100}
KEY_BODY: Final = Component(
    "NewKey",
    {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": _NAME,
            **_LIMITS,
            "expires_at": nullable(
                described(MOMENT, "UTC with seconds, `...:SSZ`; in the future.")
            ),
            "creator_user_id": nullable(described(TEXT, "A member of the account.")),
            "workspace_id": nullable(described(_UUID, "The default workspace when absent.")),
            "external": nullable(
                {
                    "type": "object",
                    "description": "Whom of the account's own users the key is for.",
                    "required": ["user"],
                    "properties": {
                        "user": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": EXTERNAL_USER_CHARS_MAX,
                        },
                        "api_key": {"type": "null", "description": "Keys are made here alone."},
                    },
                }
            ),
        },
    },
)
KEY_CHANGES: Final = Component(
    "KeyChanges",
    {
        "type": "object",
        "minProperties": 1,
        "properties": {
            "name": _NAME,
            **_LIMITS,
            "disabled": FLAG,
            "workspace_id": described(_UUID, "Moves the key; its string and spending stay."),
        },
    },
)
KEY_ROTATION: Final = Component(
    "KeyRotation",
    {
        "type": "object",
        "properties": {
            "grace_seconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": GRACE_S_MAX,
                "default": 86_400,
                "description": "For how long the old string works beside the new one.",
            }
        },
    },
)
_HASH: Final = OpenApiParameter(
    "key_hash", TEXT, OpenApiParameter.PATH, description="The key's `hash`."
)


def _flag(name: str, description: str) -> OpenApiParameter:
    schema = {"type": "string", "enum": ["true", "false"], "default": "false"}
    return OpenApiParameter(name, schema, description=description)


describe_key_list = extend_schema(
    operation_id="listKeys",
    summary="List inference keys",
    description="Needs a management key. Newest first, 100 to a page; management keys are not "
    "among them.",
    tags=_TAGS,
    parameters=[
        OpenApiParameter("offset", {"type": "integer", "minimum": 0, "default": 0}),
        _flag("include_disabled", "Disabled keys as well."),
        _flag("include_expired", "Expired keys as well."),
        OpenApiParameter("workspace_id", _UUID, description="The default workspace when absent."),
    ],
    responses={
        200: OpenApiResponse(KEY_LIST, description="A page of keys."),
        **error_responses(400, 401, 403, 429, 500),
    },
)
describe_key_creation = extend_schema(
    operation_id="createKey",
    summary="Create an inference key",
    description="Needs a management key. The key string is in this answer and never again.",
    tags=_TAGS,
    request={"application/json": KEY_BODY},
    responses={
        201: OpenApiResponse(NEW_KEY_ANSWER, description="The key."),
        **error_responses(400, 401, 403, 413, 429, 500),
    },
)
describe_one_key = extend_schema(
    operation_id="getKey",
    summary="Get an inference key",
    description="Needs a management key. Its limit, and what it spent in each UTC window.",
    tags=_TAGS,
    parameters=[_HASH],
    responses={
        200: OpenApiResponse(KEY_ANSWER, description="The key."),
        **error_responses(401, 403, 404, 429, 500),
    },
)
describe_key_change = extend_schema(
    operation_id="updateKey",
    summary="Change an inference key",
    description=(
        "Needs a management key. Fields that are not sent stay as they are. A changed limit "
        "applies at once to what is counted already; disabling takes effect within a second."
    ),
    tags=_TAGS,
    parameters=[_HASH],
    request={"application/json": KEY_CHANGES},
    responses={
        200: OpenApiResponse(KEY_ANSWER, description="The key as it is now."),
        **error_responses(400, 401, 403, 404, 409, 413, 429, 500),
    },
)
describe_key_deletion = extend_schema(
    operation_id="deleteKey",
    summary="Delete an inference key",
    description="Needs a management key. It stops working within a second; its history stays.",
    tags=_TAGS,
    parameters=[_HASH],
    responses={
        200: OpenApiResponse(KEY_DELETED, description="The key is deleted."),
        **error_responses(401, 403, 404, 429, 500),
    },
)
describe_key_rotation = extend_schema(
    operation_id="rotateKey",
    summary="Give an inference key a new string",
    description=(
        "Needs a management key. Hash and label change; limits and spending stay. The old string "
        "works until its grace period ends, and no string before it works any longer than it. "
        "The new string is in this answer and never again."
    ),
    tags=_TAGS,
    parameters=[_HASH],
    request={"application/json": KEY_ROTATION},
    responses={
        200: OpenApiResponse(NEW_KEY_ANSWER, description="The key and its new string."),
        **error_responses(400, 401, 403, 404, 413, 429, 500),
    },
)
