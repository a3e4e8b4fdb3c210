"""How /guardrails is described in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from accounts.models.guardrail import DATA_REGIONS
from accounts.patterns import PATTERN_CHARS_MAX
from accounts.views.bodies.guardrail_body import BUILTIN_LABELS
from accounts.views.openapi.managed_description import PAGE, managed
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
_SLUG: Final = {"type": "string", "minLength": 1, "maxLength": 200}
_WISH: Final = nullable({"type": "boolean"})
_ACTION: Final = words("redact", "block", "flag")
_PATTERN: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": PATTERN_CHARS_MAX,
    "description": "RE2: no lookaround, no backreferences, no nested endless repetition.",
}


def _slugs(text: str) -> Any:
    return nullable(described({**array(_SLUG), "minItems": 1}, text))


def _filters(items: Any) -> Any:
    return nullable(array(items))


_LABEL: Final = nullable({"type": "string", "maxLength": 100})
_FILTER: Final = Component(
    "ContentFilter",
    obj({"pattern": _PATTERN, "action": _ACTION, "label": _LABEL}, optional=("label",)),
)
_SAID_BUILTIN: Final[dict[str, Any]] = {
    "slug": words(*BUILTIN_LABELS),
    "action": _ACTION,
    "scan_scope": described(words("user_only", "all_messages"), "`all_messages` unless said."),
}
_NEW_BUILTIN: Final = Component(
    "NewBuiltinContentFilter", obj(_SAID_BUILTIN, optional=("scan_scope",))
)
_BUILTIN: Final = Component(
    "BuiltinContentFilter",
    obj({**_SAID_BUILTIN, "label": described(words(*BUILTIN_LABELS.values()), "Ours.")}),
)
_SETTINGS: Final[dict[str, Any]] = {
    "name": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": nullable({"type": "string", "maxLength": 1000}),
    "limit_usd": nullable(
        {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "What each holder may spend in an interval, at most 9 decimal places. "
            "Comes with `reset_interval`.",
        }
    ),
    "reset_interval": words("daily", "weekly", "monthly", None),
    "include_byok_in_budgets": FLAG,
    "allowed_models": _slugs("Canonical slugs of known models; others are filtered out."),
    "ignored_models": _slugs("Canonical slugs of known models that are filtered out."),
    "allowed_providers": _slugs("Slugs of providers; others are filtered out."),
    "ignored_providers": _slugs("Slugs of providers that are filtered out."),
    "enforce_zdr": described(_WISH, "Deprecated: fills those of the five that are not given."),
    "enforce_zdr_anthropic": _WISH,
    "enforce_zdr_openai": _WISH,
    "enforce_zdr_google": _WISH,
    "enforce_zdr_xai": _WISH,
    "enforce_zdr_other": _WISH,
    "enable_paid_model_training": described(_WISH, "False removes endpoints that do so."),
    "enable_free_model_training": described(_WISH, "Likewise, of what costs nothing."),
    "enable_free_model_publication": described(_WISH, "Likewise."),
    "content_filters": _filters(_FILTER),
    "content_filter_builtins": _filters(_BUILTIN),
    "allowed_data_regions": nullable(
        described({**array(words(*DATA_REGIONS)), "minItems": 1}, "Where requests may come in.")
    ),
}
_SAID: Final = {**_SETTINGS, "content_filter_builtins": _filters(_NEW_BUILTIN)}

GUARDRAIL: Final = Component(
    "Guardrail",
    obj(
        {
            "id": _ID,
            **_SETTINGS,
            "workspace_id": nullable(_ID),
            "created_at": _MOMENT,
            "updated_at": nullable(described(_MOMENT, "Null until the first change.")),
        }
    ),
)
NEW_GUARDRAIL: Final = Component(
    "NewGuardrail",
    {
        "type": "object",
        "required": ["name"],
        "properties": {
            **_SAID,
            "workspace_id": nullable(described(_ID, "The default workspace unless said.")),
        },
    },
)
GUARDRAIL_CHANGES: Final = Component(
    "GuardrailChanges", {"type": "object", "minProperties": 1, "properties": _SAID}
)
_BY: Final = nullable(described(TEXT, "A user's id."))
KEY_ASSIGNMENT: Final = Component(
    "GuardrailKeyAssignment",
    obj(
        {
            "id": _ID,
            "guardrail_id": _ID,
            "key_hash": TEXT,
            "key_name": TEXT,
            "key_label": TEXT,
            "assigned_by": _BY,
            "created_at": _MOMENT,
        }
    ),
)
MEMBER_ASSIGNMENT: Final = Component(
    "GuardrailMemberAssignment",
    obj(
        {
            "id": _ID,
            "guardrail_id": _ID,
            "user_id": TEXT,
            "organization_id": _ID,
            "assigned_by": _BY,
            "created_at": _MOMENT,
        }
    ),
)
_KEY_HASHES: Final = Component(
    "GuardrailKeyHashes", obj({"key_hashes": {**array(TEXT), "minItems": 1}})
)
_USER_IDS: Final = Component(
    "GuardrailMemberIds", obj({"member_user_ids": {**array(TEXT), "minItems": 1}})
)
_ONE: Final = Component("GuardrailAnswer", obj({"data": GUARDRAIL}))
_MANY: Final = Component("GuardrailList", obj({"data": array(GUARDRAIL), "total_count": WHOLE}))
_DELETED: Final = Component("GuardrailDeleted", obj({"deleted": FLAG}))
_KEYS: Final = Component(
    "GuardrailKeyList", obj({"data": array(KEY_ASSIGNMENT), "total_count": WHOLE})
)
_MEMBERS: Final = Component(
    "GuardrailMemberList", obj({"data": array(MEMBER_ASSIGNMENT), "total_count": WHOLE})
)
_ASSIGNED: Final = Component("GuardrailAssigned", obj({"assigned_count": WHOLE}))
_UNASSIGNED: Final = Component("GuardrailUnassigned", obj({"unassigned_count": WHOLE}))

_WHICH: Final = OpenApiParameter("guardrail", _ID, OpenApiParameter.PATH)
_WORKSPACE: Final = OpenApiParameter(
    "workspace_id", _ID, description="The default workspace unless said."
)


_described = managed("Guardrails", 400, which=[_WHICH])


listing = _described(
    "listGuardrails",
    "List guardrails",
    "The guardrails of a workspace, newest first; its default one once it has been configured.",
    _MANY,
    parameters=[*PAGE, _WORKSPACE],
)
creation = _described(
    "createGuardrail",
    "Create a guardrail",
    "The new guardrail. It does nothing until it is assigned to a key or a member.",
    _ONE,
    success=201,
    body=NEW_GUARDRAIL,
    parameters=[],
)
retrieval = _described("getGuardrail", "Get a guardrail", "The guardrail of that id.", _ONE, 404)
change = _described(
    "updateGuardrail",
    "Change a guardrail",
    "The guardrail with the fields given changed; requests follow within a second. The first "
    "change of a workspace's `default_guardrail_id` makes it.",
    _ONE,
    404,
    409,
    body=GUARDRAIL_CHANGES,
)
deletion = _described(
    "deleteGuardrail",
    "Delete a guardrail",
    "It governs nobody any more; a workspace's default one is as before its first change.",
    _DELETED,
    404,
)
keys = _described(
    "listGuardrailKeys",
    "List the keys under a guardrail",
    "Its keys, newest first.",
    _KEYS,
    404,
    parameters=[_WHICH, *PAGE],
)
all_keys = _described(
    "listAllGuardrailKeys",
    "List all keys under guardrails",
    "The account's keys that have a guardrail, newest first.",
    _KEYS,
    parameters=PAGE,
)
key_assignment = _described(
    "assignGuardrailToKeys",
    "Assign a guardrail to keys",
    "How many keys it governs from now on, each instead of the one before. All of them or none.",
    _ASSIGNED,
    404,
    body=_KEY_HASHES,
)
key_removal = _described(
    "unassignGuardrailFromKeys",
    "Take a guardrail from keys",
    "How many keys it governed and does no more.",
    _UNASSIGNED,
    404,
    body=_KEY_HASHES,
)
members = _described(
    "listGuardrailMembers",
    "List the members under a guardrail",
    "Its members, newest first. It governs all keys that they created.",
    _MEMBERS,
    404,
    parameters=[_WHICH, *PAGE],
)
all_members = _described(
    "listAllGuardrailMembers",
    "List all members under guardrails",
    "The account's members that have a guardrail, newest first.",
    _MEMBERS,
    parameters=PAGE,
)
member_assignment = _described(
    "assignGuardrailToMembers",
    "Assign a guardrail to members",
    "How many members it governs from now on, each instead of the one before. All or nobody.",
    _ASSIGNED,
    404,
    body=_USER_IDS,
)
member_removal = _described(
    "unassignGuardrailFromMembers",
    "Take a guardrail from members",
    "How many members it governed and does no more.",
    _UNASSIGNED,
    404,
    body=_USER_IDS,
)
