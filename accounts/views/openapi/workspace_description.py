"""How /workspaces is described in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from accounts.models.account import SAMPLING_RATE_MIN, SERVER_TOOLS
from accounts.services.workspaces import SLUG_CHARS_MAX, SLUG_PATTERN
from accounts.views.bodies.workspace_body import LOGGED_KEYS_MAX
from accounts.views.managed import PAGE, managed
from gateway.openapi.components import (
    FLAG,
    TEXT,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)

_ID: Final = {"type": "string", "format": "uuid"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_RATE: Final = {"type": "number", "minimum": SAMPLING_RATE_MIN, "maximum": 1}
_SETTINGS: Final[dict[str, Any]] = {
    "name": {"type": "string", "minLength": 1, "maxLength": 100},
    "slug": {
        "type": "string",
        "minLength": 1,
        "maxLength": SLUG_CHARS_MAX,
        "pattern": SLUG_PATTERN,
        "description": "Once per account.",
    },
    "description": nullable({"type": "string", "maxLength": 500}),
    "default_text_model": nullable(
        described(TEXT, "Serves requests that name no model; a known one.")
    ),
    "default_image_model": nullable(
        described(TEXT, "Serves image requests that name no model; a known one.")
    ),
    "default_provider_sort": words("price", "throughput", "latency", "exacto", None),
    "disabled_server_tools": nullable(
        described(array(words(*SERVER_TOOLS)), "Requests that name one are refused. `[]` is null.")
    ),
    "io_logging_api_key_ids": nullable(
        described(array(WHOLE), "Numbers of the keys whose requests are logged; null for all.")
    ),
    "io_logging_sampling_rate": described(_RATE, "Share of the requests that are logged."),
    "is_data_discount_logging_enabled": FLAG,
    "is_observability_broadcast_enabled": FLAG,
    "is_observability_io_logging_enabled": described(FLAG, "Prompts and answers are kept."),
}
_KEYS_SAID: Final = nullable(
    {
        **array({"type": ["integer", "string"]}),
        "maxItems": LOGGED_KEYS_MAX,
        "description": "Numbers or hashes of keys of this workspace; null for all.",
    }
)
_SAID: Final = {**_SETTINGS, "io_logging_api_key_ids": _KEYS_SAID}

WORKSPACE: Final = Component(
    "Workspace",
    obj(
        {
            "id": _ID,
            **_SETTINGS,
            "default_guardrail_id": described(_ID, "The same for the workspace's life."),
            "include_byok_in_budgets": FLAG,
            "created_at": _MOMENT,
            "created_by": nullable(described(TEXT, "A user's id.")),
            "updated_at": nullable(described(_MOMENT, "Null until the first change.")),
        }
    ),
)
NEW_WORKSPACE: Final = Component(
    "NewWorkspace",
    {"type": "object", "required": ["name", "slug"], "properties": _SAID},
)
WORKSPACE_CHANGES: Final = Component(
    "WorkspaceChanges", {"type": "object", "minProperties": 1, "properties": _SAID}
)
MEMBER: Final = Component(
    "WorkspaceMember",
    obj(
        {
            "id": _ID,
            "workspace_id": _ID,
            "user_id": TEXT,
            "role": words("admin", "member"),
            "created_at": _MOMENT,
        }
    ),
)
USER_IDS: Final = Component(
    "WorkspaceUserIds",
    obj({"user_ids": {**array(TEXT), "minItems": 1, "maxItems": 100}}),
)
_ONE: Final = Component("WorkspaceAnswer", obj({"data": WORKSPACE}))
_MANY: Final = Component("WorkspaceList", obj({"data": array(WORKSPACE), "total_count": WHOLE}))
_DELETED: Final = Component("WorkspaceDeleted", obj({"deleted": FLAG}))
_MEMBERS: Final = Component(
    "WorkspaceMemberList", obj({"data": array(MEMBER), "total_count": WHOLE})
)
_ADDED: Final = Component(
    "WorkspaceMembersAdded", obj({"data": array(MEMBER), "added_count": WHOLE})
)
_REMOVED: Final = Component("WorkspaceMembersRemoved", obj({"removed_count": WHOLE}))

_WHICH: Final = OpenApiParameter(
    "workspace", str, OpenApiParameter.PATH, description="The workspace's id or slug."
)


_described = managed("Workspaces", path=[_WHICH])


listing = _described(
    "listWorkspaces",
    "List workspaces",
    "The account's workspaces, newest first.",
    _MANY,
    400,
    parameters=PAGE,
)
creation = _described(
    "createWorkspace",
    "Create a workspace",
    "The new workspace. A slug that the account uses already is refused.",
    _ONE,
    400,
    success=201,
    body=NEW_WORKSPACE,
    parameters=[],
)
retrieval = _described(
    "getWorkspace", "Get a workspace", "The workspace of that id or slug.", _ONE, 404
)
change = _described(
    "updateWorkspace",
    "Change a workspace",
    "The workspace with the fields given changed; requests follow within a second.",
    _ONE,
    400,
    404,
    body=WORKSPACE_CHANGES,
)
deletion = _described(
    "deleteWorkspace",
    "Delete a workspace",
    "Refused while a key of it is active, and for the default workspace. Records stay.",
    _DELETED,
    400,
    404,
)
members = _described(
    "listWorkspaceMembers",
    "List members of a workspace",
    "Its members, newest first; everybody of the account belongs to the default workspace.",
    _MEMBERS,
    400,
    404,
    parameters=[_WHICH, *PAGE],
)
adding = _described(
    "addWorkspaceMembers",
    "Add members to a workspace",
    "The members added, each with the role that it has in the account. All of them or nobody.",
    _ADDED,
    400,
    404,
    body=USER_IDS,
)
removal = _described(
    "removeWorkspaceMembers",
    "Remove members from a workspace",
    "How many were removed: nobody, where one of them has an active key there.",
    _REMOVED,
    400,
    404,
    body=USER_IDS,
)
