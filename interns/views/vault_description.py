"""How /vault is described in the OpenAPI document."""

from collections.abc import Callable
from typing import Final, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import FLAG, TEXT, Component, array, described, nullable, obj, words
from gateway.openapi.errors import error_responses
from interns.vault.secrets import HOST_CHARS_MAX, NAME_CHARS_MAX, NAME_PATTERN
from interns.views.vault_body import LISTED_MAX, OFFSET_MAX, VALUE_CHARS_MAX

F = TypeVar("F", bound=Callable[..., object])
VAULT_ERROR: Final = Component(
    "VaultError",
    obj(
        {
            "error": obj(
                {
                    "code": {"type": "integer", "description": "The HTTP status."},
                    "message": TEXT,
                }
            )
        }
    ),
)
_NAME: Final = {"type": "string", "maxLength": NAME_CHARS_MAX, "pattern": NAME_PATTERN}
_HOSTS: Final = {
    "type": "array",
    "minItems": 1,
    "maxItems": LISTED_MAX,
    "items": {"type": "string", "maxLength": HOST_CHARS_MAX + 1},
}
_FIELDS: Final[JsonObject] = {
    "name": _NAME,
    "hosts": nullable(
        described(array(TEXT), "The hosts that may receive it, exactly; null for old entries.")
    ),
    "fingerprint": nullable(
        described(TEXT, "Equal for equal values in one vault; not comparable across vaults.")
    ),
    "created_at": {
        "type": "string",
        "format": "date-time",
        "description": "When something was first stored under this name.",
    },
}
SECRET: Final = Component("VaultSecret", obj(_FIELDS))
EFFECTIVE: Final = Component(
    "EffectiveSecret",
    obj(
        _FIELDS
        | {"scope": {**words("intern", "attached", "workspace"), "description": "Whose it is."}}
    ),
)
PUT: Final = Component(
    "VaultSecretValue",
    {
        "type": "object",
        "required": ["value", "hosts"],
        "additionalProperties": False,
        "properties": {
            "value": {
                "type": "string",
                "minLength": 1,
                "maxLength": VALUE_CHARS_MAX,
                "writeOnly": True,
                "description": "Shown to nobody again.",
            },
            "hosts": {
                **_HOSTS,
                "description": "Exact DNS names: no scheme, port, path or wildcard. Lowercased, "
                "one last dot removed, each kept once.",
            },
        },
    },
)
COPY: Final = Component(
    "VaultCopy",
    {
        "type": "object",
        "required": ["names"],
        "additionalProperties": False,
        "properties": {
            "names": {
                "type": "array",
                "minItems": 1,
                "maxItems": LISTED_MAX,
                "uniqueItems": True,
                "items": _NAME,
            }
        },
    },
)
_LIST: Final = Component("VaultSecretList", obj({"data": array(SECRET), "has_more": FLAG}))
_EFFECTIVE_LIST: Final = Component(
    "EffectiveSecretList", obj({"data": array(EFFECTIVE), "has_more": FLAG})
)
_ONE: Final = Component("VaultSecretAnswer", obj({"data": SECRET}))
_COPIED: Final = Component("VaultCopyAnswer", obj({"data": array(SECRET)}))
_CONNECTIONS: Final = Component(
    "InternConnectionList",
    obj({"data": array(Component("InternConnection", obj({"key": TEXT})))}),
)
_PAGE: Final = [
    OpenApiParameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": LISTED_MAX, "default": LISTED_MAX}
    ),
    OpenApiParameter(
        "offset", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0}
    ),
]
_INTERN: Final = OpenApiParameter(
    "intern_id", str, OpenApiParameter.PATH, description="The intern's id."
)
_SECRET: Final = OpenApiParameter(
    "name", _NAME, OpenApiParameter.PATH, description="The secret's name."
)


def _described(
    operation_id: str,
    summary: str,
    description: str,
    answer: Component | None,
    *statuses: int,
    body: Component | None = None,
    parameters: list[OpenApiParameter] | None = None,
) -> Callable[[F], F]:
    told = OpenApiResponse(answer, description=description)
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=f"{description} Takes an inference key.",
        tags=["Vault"],
        parameters=parameters or [],
        request=None if body is None else {"application/json": body},
        responses={
            204 if answer is None else 200: told,
            **error_responses(400, 401, 403, 404, 408, 500, 503, *statuses, body=VAULT_ERROR),
        },
    )
    return decorate


listing = _described(
    "listVaultSecrets",
    "List secrets",
    "The secrets of the key's workspace, sorted by name, without their values.",
    _LIST,
    parameters=_PAGE,
)
storing = _described(
    "putVaultSecret",
    "Store a secret",
    "The secret as it is now; one of the same name is replaced.",
    _ONE,
    413,
    body=PUT,
    parameters=[_SECRET],
)
deletion = _described(
    "deleteVaultSecret",
    "Delete a secret",
    "Gone, its value for good; copies in interns' vaults stay.",
    None,
    parameters=[_SECRET],
)
listing_of_intern = _described(
    "listInternSecrets",
    "List an intern's secrets",
    "The secrets in the intern's own vault, sorted by name, without their values.",
    _LIST,
    parameters=[_INTERN, *_PAGE],
)
storing_in_intern = _described(
    "putInternSecret",
    "Store a secret for an intern",
    "The secret as it is now; it comes before others of its name.",
    _ONE,
    413,
    body=PUT,
    parameters=[_INTERN, _SECRET],
)
deletion_in_intern = _described(
    "deleteInternSecret",
    "Delete an intern's secret",
    "Gone, its value for good.",
    None,
    parameters=[_INTERN, _SECRET],
)
copying = _described(
    "copyInternSecrets",
    "Copy secrets to an intern",
    "The workspace's secrets of these names as the intern has them now, all or none of them.",
    _COPIED,
    409,
    413,
    body=COPY,
    parameters=[_INTERN],
)
effective = _described(
    "listEffectiveSecrets",
    "List what an intern can use",
    "For each name the secret that counts: the intern's own, else that of the vault it borrows, "
    "else the workspace's.",
    _EFFECTIVE_LIST,
    parameters=[_INTERN, *_PAGE],
)
connections = _described(
    "listInternVaultConnections",
    "List an intern's connections",
    "The connections whose credentials the intern's vault holds.",
    _CONNECTIONS,
    parameters=[_INTERN],
)
