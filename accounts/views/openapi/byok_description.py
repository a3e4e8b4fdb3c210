"""How /byok is described in the OpenAPI document."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter

from accounts.byok import KEY_CHARS_MAX
from accounts.views.bodies.byok_body import HASH_PATTERN, LISTED_MAX, NAME_CHARS_MAX
from accounts.views.managed import managed
from gateway.http.paging import LIMIT_DEFAULT, LIMIT_MAX
from gateway.openapi.components import (
    FLAG,
    TEXT,
    WHOLE,
    Component,
    Schema,
    array,
    described,
    nullable,
    obj,
)

_ID: Final = {"type": "string", "format": "uuid"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_PROVIDER: Final = described(TEXT, "A slug of GET /providers.")
_HASH: Final = {"type": "string", "pattern": HASH_PATTERN}


def _list(items: Schema, *, least: int | None = None, said: str) -> Schema:
    bounds = {"maxItems": LISTED_MAX} | ({} if least is None else {"minItems": least})
    return nullable({**array(items), **bounds, "description": said})


def _filters(*, least: int | None) -> dict[str, Any]:
    return {
        "allowed_models": _list(TEXT, said="Models that it is for; null for all."),
        "allowed_api_key_hashes": _list(
            _HASH, least=least, said="Keys of the account that it is for; null for all."
        ),
        "allowed_user_ids": _list(
            TEXT, said="Users whose keys it is for; null for all keys, also those of nobody."
        ),
    }


_UNDECLARED: Final = {
    "type": "null",
    "description": "What the catalogue says of an endpoint holds for every credential.",
}
_SAID: Final[dict[str, Any]] = {
    "key": {
        "type": "string",
        "minLength": 1,
        "maxLength": KEY_CHARS_MAX,
        "writeOnly": True,
        "description": "The provider's key, or a JSON object as text; shown to nobody again. "
        "The provider is asked about it first: what it refuses is refused here.",
    },
    "name": nullable({"type": "string", "maxLength": NAME_CHARS_MAX}),
    "disabled": {"type": "boolean", "default": False},
    "is_fallback": {
        "type": "boolean",
        "default": False,
        "description": "Tried after the gateway's own credentials rather than before.",
    },
    "is_required": {
        "type": "boolean",
        "default": False,
        "description": "The models that it is for are not served on the gateway's own credential.",
    },
    "is_byok_only": {
        "type": "boolean",
        "default": False,
        "description": "Nothing of the provider is. Not for a fallback credential.",
    },
    "declared_zdr": _UNDECLARED,
    "declared_region": _UNDECLARED,
    **_filters(least=1),
}
CREDENTIAL: Final = Component(
    "ByokCredential",
    obj(
        {
            "id": _ID,
            "provider": TEXT,
            "name": nullable(TEXT),
            "label": described(TEXT, "The key, masked: `sk-...AbCd`."),
            "workspace_id": nullable(described(_ID, "Null: all workspaces of the account.")),
            "disabled": FLAG,
            "is_fallback": FLAG,
            "is_required": FLAG,
            "is_byok_only": FLAG,
            "declared_zdr": _UNDECLARED,
            "declared_region": _UNDECLARED,
            "sort_order": described(
                {"type": "integer", "minimum": 0}, "Its turn among the others of its section."
            ),
            **_filters(least=None),
            "created_at": _MOMENT,
        }
    ),
)
NEW_CREDENTIAL: Final = Component(
    "NewByokCredential",
    {
        "type": "object",
        "required": ["provider", "key"],
        "properties": {
            "provider": _PROVIDER,
            **_SAID,
            "workspace_id": nullable(described(_ID, "The default workspace unless named.")),
        },
    },
)
CHANGES: Final = Component(
    "ByokCredentialChanges", {"type": "object", "minProperties": 1, "properties": _SAID}
)
_ONE: Final = Component("ByokCredentialAnswer", obj({"data": CREDENTIAL}))
_MANY: Final = Component(
    "ByokCredentialList", obj({"data": array(CREDENTIAL), "total_count": WHOLE})
)
_DELETED: Final = Component("ByokCredentialDeleted", obj({"deleted": FLAG}))
_WHICH: Final = OpenApiParameter(
    "credential", _ID, OpenApiParameter.PATH, description="The credential's id."
)
_QUERY: Final = [
    OpenApiParameter("offset", {"type": "integer", "minimum": 0, "default": 0}),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    OpenApiParameter("workspace_id", _ID, description="The default workspace unless named."),
    OpenApiParameter("provider", str, description="A provider's slug; all providers without."),
]


_described = managed("BYOK", 400, path=[_WHICH])


listing = _described(
    "listByokCredentials",
    "List credentials",
    "What serves a workspace, credentials for all workspaces among them, newest first.",
    _MANY,
    parameters=_QUERY,
)
creation = _described(
    "createByokCredential",
    "Bring a credential",
    "The new credential, last in its section.",
    _ONE,
    success=201,
    body=NEW_CREDENTIAL,
    parameters=[],
)
retrieval = _described(
    "getByokCredential", "Get a credential", "The credential of that id.", _ONE, 404
)
change = _described(
    "updateByokCredential",
    "Change a credential",
    "The credential with the fields given changed; a new key takes the old one's place. "
    "Requests follow within a second.",
    _ONE,
    404,
    409,
    body=CHANGES,
)
deletion = _described(
    "deleteByokCredential", "Delete a credential", "Gone, its key for good.", _DELETED, 404
)
