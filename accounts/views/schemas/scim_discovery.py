"""What the SCIM connector says of itself: its abilities, resource types and schemas."""

from typing import Final

from accounts.views.schemas.scim import CORE, GROUP, RESULTS_MAX, USER
from gateway.http.jsonio import JsonObject


def _attribute(name: str, description: str, **more: object) -> JsonObject:
    usual = {
        "name": name,
        "type": "string",
        "multiValued": False,
        "description": description,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
    }
    return usual | more


_FLAG: Final = {"type": "boolean"}
_READ_ONLY: Final = {"mutability": "readOnly"}
_USER_ATTRIBUTES: Final = [
    _attribute("userName", "Names the person at sign-in.", required=True, uniqueness="server"),
    _attribute(
        "name",
        "The person's name.",
        type="complex",
        subAttributes=[
            _attribute("formatted", "The whole name."),
            _attribute("familyName", "Last name."),
            _attribute("givenName", "First name."),
        ],
    ),
    _attribute("displayName", "The name as it is shown."),
    _attribute(
        "emails",
        "Addresses. The primary one, or the first, is the person's here.",
        type="complex",
        multiValued=True,
        subAttributes=[
            _attribute("value", "The address."),
            _attribute("display", "The address as it is shown."),
            _attribute("type", "Such as `work`."),
            _attribute("primary", "Whether it is the primary one.", **_FLAG),
        ],
    ),
    _attribute(
        "active",
        "False takes membership and keys away at once; true makes a member.",
        required=True,
        **_FLAG,
    ),
    _attribute(
        "groups",
        "Groups that the person is in.",
        type="complex",
        multiValued=True,
        **_READ_ONLY,
        subAttributes=[
            _attribute("value", "The group's id.", **_READ_ONLY),
            _attribute(
                "$ref",
                "The group.",
                type="reference",
                referenceTypes=["Group"],
                **_READ_ONLY,
            ),
            _attribute("display", "Its name.", **_READ_ONLY),
        ],
    ),
]
_GROUP_ATTRIBUTES: Final = [
    _attribute("displayName", "Its name, once per account.", required=True),
    _attribute(
        "members",
        "Who is in it.",
        type="complex",
        multiValued=True,
        subAttributes=[
            _attribute("value", "The person's id.", mutability="immutable"),
            _attribute(
                "$ref",
                "The person.",
                type="reference",
                referenceTypes=["User"],
                mutability="immutable",
            ),
            _attribute(
                "type",
                "Always `User`.",
                mutability="immutable",
                canonicalValues=["User"],
            ),
        ],
    ),
]


def build_config(root: str) -> JsonObject:
    """The ServiceProviderConfig."""
    no, yes = {"supported": False}, {"supported": True}
    return {
        "schemas": [f"{CORE}:ServiceProviderConfig"],
        "patch": yes,
        "bulk": {**no, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {**yes, "maxResults": RESULTS_MAX},
        "changePassword": no,
        "sort": no,
        "etag": yes,
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "Bearer token",
                "description": "A management key.",
                "primary": True,
            }
        ],
        "meta": {
            "resourceType": "ServiceProviderConfig",
            "location": f"{root}/ServiceProviderConfig",
        },
    }


def build_resource_types(root: str) -> list[JsonObject]:
    """People and groups."""
    return [
        {
            "schemas": [f"{CORE}:ResourceType"],
            "id": name,
            "name": name,
            "endpoint": f"/{name}s",
            "description": description,
            "schema": schema,
            "schemaExtensions": [],
            "meta": {
                "resourceType": "ResourceType",
                "location": f"{root}/ResourceTypes/{name}",
            },
        }
        for name, schema, description in (
            ("User", USER, "A person of the directory."),
            ("Group", GROUP, "A group of the directory."),
        )
    ]


def build_schemas(root: str) -> list[JsonObject]:
    """Their attributes."""
    return [
        {
            "schemas": [f"{CORE}:Schema"],
            "id": schema,
            "name": name,
            "description": description,
            "attributes": attributes,
            "meta": {"resourceType": "Schema", "location": f"{root}/Schemas/{schema}"},
        }
        for name, schema, description, attributes in (
            ("User", USER, "A person of the directory.", _USER_ATTRIBUTES),
            ("Group", GROUP, "A group of the directory.", _GROUP_ATTRIBUTES),
        )
    ]
