"""SCIM 2.0 (RFC 7643): what people and groups are to a directory, and what the connector says of
itself."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field

from accounts.models import ScimGroup, ScimUser
from accounts.services.directory.filter import Column, remove_urn
from accounts.services.directory.patch import InvalidSyntax
from gateway.http.errors import InvalidRequest
from gateway.http.jsonio import JsonObject, format_time
from gateway.http.resources import Body

CORE: Final = "urn:ietf:params:scim:schemas:core:2.0"
MESSAGES: Final = "urn:ietf:params:scim:api:messages:2.0"
USER: Final = f"{CORE}:User"
GROUP: Final = f"{CORE}:Group"
RESULTS_MAX: Final = 200
_TEXT_CHARS_MAX: Final = 255
_VALUES_MAX: Final = 50
MEMBERS_MAX: Final = 50_000
# Of people, kept as the directory sent them.
_KEPT: Final = ("name", "displayName", "emails")
USER_NAMES: Final = {name.lower(): name for name in ("userName", "externalId", "active", *_KEPT)}
GROUP_NAMES: Final = {name.lower(): name for name in ("displayName", "externalId", "members")}
_MOMENTS: Final = {
    "meta.created": Column("created_at", "other"),
    "meta.lastmodified": Column("updated_at", "other"),
}
USER_COLUMNS: Final = {
    "id": Column("pk", "other"),
    "username": Column("user_name"),
    "externalid": Column("external_id", exact=True),
    "active": Column("active", "bool"),
    "displayname": Column("attributes__displayName"),
    "name.givenname": Column("attributes__name__givenName"),
    "name.familyname": Column("attributes__name__familyName"),
    "emails": Column("user__email"),
    "emails.value": Column("user__email"),
    **_MOMENTS,
}
GROUP_COLUMNS: Final = {
    "id": Column("pk", "other"),
    "displayname": Column("display_name"),
    "externalid": Column("external_id", exact=True),
    "members.value": Column("members__pk", "other"),
    "members": Column("members__pk", "other"),
    **_MOMENTS,
}


class InvalidValue(InvalidRequest):
    scim_type, message = "invalidValue", "A value is of another kind, missing, or too long"


_Text = Annotated[str, Field(min_length=1, max_length=_TEXT_CHARS_MAX)]


class UserFields(Body):
    """What is read of a person; directories send more, which is passed over."""

    userName: _Text
    externalId: Annotated[str, Field(max_length=_TEXT_CHARS_MAX)] | None = None
    name: JsonObject | None = None
    displayName: Annotated[str, Field(max_length=_TEXT_CHARS_MAX)] | None = None
    emails: Annotated[list[JsonObject], Field(max_length=_VALUES_MAX)] | None = None
    active: bool | None = None


class GroupMember(Body):
    """Its other attributes follow from the person."""

    value: str


class GroupFields(Body):
    """What is read of a group."""

    displayName: _Text
    externalId: Annotated[str, Field(max_length=_TEXT_CHARS_MAX)] | None = None
    members: Annotated[list[GroupMember], Field(max_length=MEMBERS_MAX)] | None = None


def read_resource(body: Mapping[str, Any], names: Mapping[str, str]) -> JsonObject:
    """The attributes of a body that are known, by their own names: SCIM has them in any case."""
    return {names[name.lower()]: value for name, value in body.items() if name.lower() in names}


def read_user(resource: Mapping[str, Any], *, active: bool) -> JsonObject:
    """The columns of a person; `active` where it does not say. Raises `InvalidValue`."""
    resource = dict(resource)
    if isinstance(resource.get("active"), str) and resource["active"].lower() in _FLAGS:
        # Some directories write flags as texts.
        resource["active"] = _FLAGS[resource["active"].lower()]
    fields = _check(UserFields, resource)
    return {
        "user_name": fields.userName,
        "external_id": fields.externalId or None,
        "active": active if fields.active is None else fields.active,
        "attributes": {name: value for name in _KEPT if (value := getattr(fields, name))},
    }


_FLAGS: Final = {"true": True, "false": False}


def read_group(resource: Mapping[str, Any]) -> tuple[str, str | None, list[UUID]]:
    """Name, the directory's id, ids of members. Raises `InvalidValue`."""
    fields = _check(GroupFields, resource)
    try:
        members = [UUID(each.value) for each in fields.members or []]
    except ValueError:
        raise InvalidValue("members: no such user") from None
    return fields.displayName, fields.externalId or None, list(dict.fromkeys(members))


def _check(model: Any, resource: Mapping[str, Any]) -> Any:
    try:
        return model.read(resource)
    except InvalidRequest as error:
        raise InvalidValue(error.text) from error


def serialize_user(row: ScimUser, root: str) -> JsonObject:
    """The person as SCIM has it; `root` is the connector's URL."""
    groups = [
        {"value": str(group.pk), "display": group.display_name, "$ref": f"{root}/Groups/{group.pk}"}
        for group in row.groups.all()
        if group.deleted_at is None
    ]
    resource = {
        "schemas": [USER],
        "id": str(row.pk),
        "externalId": row.external_id,
        "userName": row.user_name,
        **{name: row.attributes[name] for name in _KEPT if name in row.attributes},
        "active": row.active,
        "groups": groups,
        "meta": _build_meta(row, "User", f"{root}/Users/{row.pk}"),
    }
    return _without_empty(resource)


def serialize_group(row: ScimGroup, root: str) -> JsonObject:
    """The group as SCIM has it."""
    members = [
        {
            "value": str(each.pk),
            "$ref": f"{root}/Users/{each.pk}",
            "type": "User",
        }
        for each in row.members.all()
    ]
    resource = {
        "schemas": [GROUP],
        "id": str(row.pk),
        "externalId": row.external_id,
        "displayName": row.display_name,
        "members": members,
        "meta": _build_meta(row, "Group", f"{root}/Groups/{row.pk}"),
    }
    return _without_empty(resource)


def build_version(row: ScimUser | ScimGroup) -> str:
    """The ETag: another one after every change."""
    identity = f"{row.pk}:{row.updated_at.isoformat()}"
    return f'W/"{hashlib.sha256(identity.encode()).hexdigest()[:16]}"'


def _build_meta(row: ScimUser | ScimGroup, kind: str, location: str) -> JsonObject:
    return {
        "resourceType": kind,
        "created": format_time(row.created_at),
        "lastModified": format_time(row.updated_at),
        "location": location,
        "version": build_version(row),
    }


def _without_empty(resource: JsonObject) -> JsonObject:
    """What has no value is left out, as SCIM has it."""
    return {name: value for name, value in resource.items() if value not in (None, [], {})}


def select_attributes(resource: JsonObject, wanted: str, unwanted: str) -> JsonObject:
    """What `attributes` and `excludedAttributes` (lists with commas) leave; `id` and `schemas`
    always stay."""
    if wanted:
        return _pick(resource, _split(wanted) | {"id", "schemas"})
    names = _split(unwanted) - {"id", "schemas"}
    return {
        name: _drop(value, name.lower(), names)
        for name, value in resource.items()
        if name.lower() not in names
    }


def _split(text: str) -> set[str]:
    prefixes = (f"{USER}:".lower(), f"{GROUP}:".lower())
    names = {each.strip().lower() for each in text.split(",")}
    for prefix in prefixes:
        names = {each.removeprefix(prefix) for each in names}
    return names - {""}


def _pick(resource: JsonObject, names: set[str]) -> JsonObject:
    picked: JsonObject = {}
    for name, value in resource.items():
        subs = {each.partition(".")[2] for each in names if each.startswith(f"{name.lower()}.")}
        if name.lower() in names:
            picked[name] = value
        elif subs:
            picked[name] = _map_parts(
                value, lambda part, subs=subs: {k: v for k, v in part.items() if k.lower() in subs}
            )
    return picked


def _drop(value: object, name: str, names: set[str]) -> Any:
    subs = {each.partition(".")[2] for each in names if each.startswith(f"{name}.")}
    if not subs:
        return value
    return _map_parts(value, lambda part: {k: v for k, v in part.items() if k.lower() not in subs})


def _map_parts(value: Any, change: Any) -> Any:
    if isinstance(value, list):
        return [change(each) if isinstance(each, dict) else each for each in value]
    return change(value) if isinstance(value, dict) else value


def says(operations: Any, name: str) -> bool:
    """Whether an operation of a PATCH is about this attribute, whatever it does to it."""
    paths: list[Any] = []
    for each in operations:
        path, value = each.get("path"), each.get("value")
        paths += [path] if path or not isinstance(value, dict) else value
    return any(remove_urn(str(path)).lower() == name for path in paths)


def read_operations(body: Mapping[str, Any]) -> Any:
    """The operations of a PATCH. Raises `InvalidSyntax`."""
    names = {name.lower(): value for name, value in body.items()}
    if f"{MESSAGES}:PatchOp" not in (names.get("schemas") or [f"{MESSAGES}:PatchOp"]):
        raise InvalidSyntax
    operations = names.get("operations")
    if not isinstance(operations, list):
        raise InvalidSyntax
    return [
        {name.lower(): value for name, value in each.items()} if isinstance(each, dict) else each
        for each in operations
    ]
