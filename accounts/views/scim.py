"""/scim/v2: a directory (identity provider) fills an account's people and groups by SCIM 2.0."""

from collections.abc import Callable
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from accounts.authentication import authenticate_management
from accounts.caller import Caller
from accounts.models import Account, ScimGroup, ScimUser
from accounts.services.directory import groups as scim_groups
from accounts.services.directory import users as scim_users
from accounts.services.directory.filter import (
    Column,
    InvalidFilter,
    build_condition,
    parse_filter,
)
from accounts.services.directory.patch import apply_operations
from accounts.services.records import Actor, key_actor
from accounts.views.schemas.scim import (
    GROUP_COLUMNS,
    GROUP_NAMES,
    MESSAGES,
    RESULTS_MAX,
    USER_COLUMNS,
    USER_NAMES,
    InvalidValue,
    build_version,
    read_group,
    read_operations,
    read_resource,
    read_user,
    says,
    select_attributes,
    serialize_group,
    serialize_user,
)
from accounts.views.schemas.scim_discovery import (
    build_config,
    build_resource_types,
    build_schemas,
)
from gateway.database.db import Lane, run_queries
from gateway.http.body import read_object
from gateway.http.errors import GatewayError, NotFound
from gateway.http.jsonio import JsonObject, dumps
from gateway.http.viewset import LeanViewSet

_ROOT: Final = "/scim/v2"


class VersionDiffers(GatewayError):
    """Somebody changed the resource since it was read."""

    status, error_type = 412, "invalid_request"
    message = "The resource was changed meanwhile: read it again"


class SearchesOneType(GatewayError):
    status, error_type = 501, "invalid_request"
    message = "Search people (/Users/.search) or groups (/Groups/.search)"


class ScimViewSet(LeanViewSet):
    """Answers and refusals as SCIM has them. Takes a management key."""

    once_by_key = False
    schema = None

    def open(self, request: HttpRequest) -> Caller:
        """The caller, and the connector's URL in `self.root`. A personal account has no directory.
        Raises what `authenticate_management` raises, and `NotFound`."""
        caller = authenticate_management(request)
        self.root = f"{request.scheme}://{request.META.get('HTTP_HOST', '')}{_ROOT}"
        return caller

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        body = {
            "schemas": [f"{MESSAGES}:Error"],
            "status": str(error.status),
            "detail": error.text,
        }
        if scim_type := getattr(error, "scim_type", None):
            body["scimType"] = scim_type
        return answer(body, status=error.status, headers=error.headers)


def answer(
    value: JsonObject | None, *, status: int = 200, headers: dict[str, str] | None = None
) -> HttpResponse:
    """JSON of SCIM's own media type; nothing for None."""
    response = HttpResponse(
        b"" if value is None else dumps(value),
        status=status,
        content_type="application/scim+json",
        headers=headers or {},
    )
    response["Content-Length"] = str(len(response.content))
    return response


def list_response(resources: list[JsonObject], total: int, start: int = 1) -> JsonObject:
    return {
        "schemas": [f"{MESSAGES}:ListResponse"],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": resources,
    }


class DiscoveryViewSet(ScimViewSet):
    """What the connector can do."""

    def config(self, request: HttpRequest) -> HttpResponseBase:
        self.open(request)
        return answer(build_config(self.root))

    def types(self, request: HttpRequest, name: str = "") -> HttpResponseBase:
        self.open(request)
        return self._show(build_resource_types(self.root), name)

    def schemas(self, request: HttpRequest, name: str = "") -> HttpResponseBase:
        self.open(request)
        return self._show(build_schemas(self.root), name)

    def search(self, request: HttpRequest) -> HttpResponseBase:
        self.open(request)
        raise SearchesOneType

    def unknown(self, request: HttpRequest, path: str = "") -> HttpResponseBase:
        self.open(request)
        raise NotFound

    @staticmethod
    def _show(resources: list[JsonObject], name: str) -> HttpResponseBase:
        """All, or the one of that id. Raises `NotFound`."""
        if not name:
            return answer(list_response(resources, len(resources)))
        found = next((each for each in resources if each["id"] == name), None)
        if found is None:
            raise NotFound
        return answer(found)


class ResourceViewSet(ScimViewSet):
    """What people and groups have in common: reading them, and versions."""

    columns: ClassVar[dict[str, Column]]

    def select(self, account_id: UUID) -> QuerySet[Any]:
        """All of the account."""
        raise NotImplementedError

    def find(self, account_id: UUID, resource_id: UUID) -> Any:
        """One of them. Raises `NotFound`."""
        raise NotImplementedError

    def serialize(self, row: Any) -> JsonObject:
        raise NotImplementedError

    def delete(self, row: Any, by: Actor) -> None:
        raise NotImplementedError

    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.open(request)
        return answer(self._search(caller, request.GET.dict()))

    def search(self, request: HttpRequest) -> HttpResponseBase:
        caller, body = self.open(request), self.read(request)
        query = {
            name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
            for name, value in body.items()
        }
        return answer(self._search(caller, query))

    def retrieve(self, request: HttpRequest, resource: str) -> HttpResponseBase:
        caller, resource_id = self.open(request), read_id(resource)
        row = run_queries(Lane.READ, lambda: self.find(caller.account_id, resource_id))
        if request.META.get("HTTP_IF_NONE_MATCH") in {build_version(row), "*"}:
            return answer(None, status=304, headers={"ETag": build_version(row)})
        return self.show(request, row)

    def destroy(self, request: HttpRequest, resource: str) -> HttpResponseBase:
        caller = self.open(request)
        self.change(request, caller, resource, lambda row: self.delete(row, key_actor(caller)))
        return answer(None, status=204)

    def change(
        self, request: HttpRequest, caller: Caller, resource: str, work: Callable[[Any], Any]
    ) -> Any:
        """What `work` makes of the resource, alone with the account. Raises `NotFound` and
        `VersionDiffers`."""
        resource_id = read_id(resource)

        def run() -> Any:
            with transaction.atomic():
                scim_groups.lock_account(caller.account_id)
                row = self.find(caller.account_id, resource_id)
                wanted = request.META.get("HTTP_IF_MATCH", "*")
                if wanted not in {"*", build_version(row)}:
                    raise VersionDiffers
                return work(row)

        return run_queries(Lane.OPERATOR, run)

    def show(self, request: HttpRequest, row: Any, *, status: int = 200) -> HttpResponseBase:
        """The resource with its version, as far as the query wants it."""
        whole = self.serialize(row)
        headers = {"ETag": build_version(row), "Location": whole["meta"]["location"]}
        query = request.GET
        selected = select_attributes(
            whole, query.get("attributes", ""), query.get("excludedAttributes", "")
        )
        return answer(selected, status=status, headers=headers)

    def read(self, request: HttpRequest) -> JsonObject:
        return read_object(request, bytes_max=settings.MANAGEMENT_MAX_BODY_BYTES)

    def _search(self, caller: Caller, query: dict[str, str]) -> JsonObject:
        """A page. Raises `InvalidFilter` and `InvalidValue`."""
        start = max(1, _read_number(query, "startIndex", 1))
        count = min(RESULTS_MAX, max(0, _read_number(query, "count", RESULTS_MAX)))
        condition = Q()
        if text := query.get("filter", ""):
            condition = build_condition(parse_filter(text), self.columns)

        def load() -> tuple[list[Any], int]:
            rows = self.select(caller.account_id).filter(condition).distinct()
            page = rows.order_by("created_at", "pk")[start - 1 : start - 1 + count]
            return list(page) if count else [], rows.count()

        try:
            found, total = run_queries(Lane.READ, load)
        except (ValidationError, ValueError) as error:
            raise InvalidFilter(
                "The filter compares with a text that is no id or moment"
            ) from error
        wanted, unwanted = query.get("attributes", ""), query.get("excludedAttributes", "")
        resources = [select_attributes(self.serialize(row), wanted, unwanted) for row in found]
        return list_response(resources, total, start)


class UsersViewSet(ResourceViewSet):
    """People of the directory."""

    columns = USER_COLUMNS

    def select(self, account_id: UUID) -> QuerySet[ScimUser]:
        rows = ScimUser.objects.filter(account_id=account_id, account__is_personal=False)
        return rows.prefetch_related("groups")

    def find(self, account_id: UUID, resource_id: UUID) -> ScimUser:
        return scim_users.find_user(account_id, resource_id)

    def serialize(self, row: ScimUser) -> JsonObject:
        return serialize_user(row, self.root)

    def delete(self, row: ScimUser, by: Actor) -> None:
        scim_users.delete_user(row=row, by=by)

    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.open(request)
        fields = read_user(read_resource(self.read(request), USER_NAMES), active=True)

        def work() -> ScimUser:
            _refuse_personal(caller)
            return scim_users.create_user(
                account_id=caller.account_id,
                fields=fields,
                by=key_actor(caller),
                may_be_member=True,
            )

        return self.show(request, run_queries(Lane.OPERATOR, work), status=201)

    def update(self, request: HttpRequest, resource: str) -> HttpResponseBase:
        caller = self.open(request)
        body = read_resource(self.read(request), USER_NAMES)

        def work(row: ScimUser) -> ScimUser:
            fields = read_user(body, active=row.active)
            # What is as it was may be what we said before.
            says_active = fields["active"] != row.active
            fields = scim_users.keep_notes(row, fields, says_active=says_active)
            return scim_users.change_user(row=row, fields=fields, by=key_actor(caller))

        return self.show(request, self.change(request, caller, resource, work))

    def partial_update(self, request: HttpRequest, resource: str) -> HttpResponseBase:
        caller, operations = self.open(request), read_operations(self.read(request))

        def work(row: ScimUser) -> ScimUser:
            there = read_resource(serialize_user(row, self.root), USER_NAMES)
            changed = apply_operations(there, operations, names=USER_NAMES)
            fields = read_user(changed, active=False)
            says_active = says(operations, "active")
            fields = scim_users.keep_notes(row, fields, says_active=says_active)
            return scim_users.change_user(row=row, fields=fields, by=key_actor(caller))

        return self.show(request, self.change(request, caller, resource, work))


class GroupsViewSet(ResourceViewSet):
    """Groups of the directory."""

    columns = GROUP_COLUMNS

    def select(self, account_id: UUID) -> QuerySet[ScimGroup]:
        rows = ScimGroup.objects.filter(account_id=account_id)
        return rows.prefetch_related("members")

    def find(self, account_id: UUID, resource_id: UUID) -> ScimGroup:
        return scim_groups.find_group(account_id, resource_id)

    def serialize(self, row: ScimGroup) -> JsonObject:
        return serialize_group(row, self.root)

    def delete(self, row: ScimGroup, by: Actor) -> None:
        scim_groups.delete_group(group=row, by=by)

    def create(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.open(request)
        resource = read_resource(self.read(request), GROUP_NAMES)

        def work() -> ScimGroup:
            _refuse_personal(caller)
            with transaction.atomic():
                account = scim_groups.lock_account(caller.account_id)
                return _save(ScimGroup(account=account), resource, caller)

        return self.show(request, run_queries(Lane.OPERATOR, work), status=201)

    def update(self, request: HttpRequest, resource: str) -> HttpResponseBase:
        caller = self.open(request)
        body = read_resource(self.read(request), GROUP_NAMES)
        row = self.change(request, caller, resource, lambda row: _save(row, body, caller))
        return self.show(request, row)

    def partial_update(self, request: HttpRequest, resource: str) -> HttpResponseBase:
        caller, operations = self.open(request), read_operations(self.read(request))

        def work(row: ScimGroup) -> ScimGroup:
            there = read_resource(serialize_group(row, self.root), GROUP_NAMES)
            changed = apply_operations(there, operations, names=GROUP_NAMES)
            return _save(row, changed, caller)

        return self.show(request, self.change(request, caller, resource, work))


def _save(group: ScimGroup, resource: JsonObject, caller: Caller) -> ScimGroup:
    """The group with the attributes of the resource. Raises `InvalidValue`, `GroupNameTaken`."""
    group.display_name, group.external_id, ids = read_group(resource)
    members = list(ScimUser.objects.filter(account_id=caller.account_id, pk__in=ids))
    if len(members) != len(ids):
        raise InvalidValue("members: no such user")
    return scim_groups.save_group(group=group, members=members, by=key_actor(caller))


def _refuse_personal(caller: Caller) -> None:
    if Account.objects.filter(pk=caller.account_id, is_personal=True).exists():
        raise NotFound("A personal account has no directory")


def read_id(text: str) -> UUID:
    """Raises `NotFound` for what can be no id."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound from None


def _read_number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.lstrip("-").isdigit() or len(text) > 9:
        raise InvalidValue(f"{name}: expected a number")
    return int(text)
