"""Paths of the app: the API, the page for apps that want a key, and the SCIM connector."""

from django.urls import URLPattern, URLResolver, include, path, re_path

from accounts.views.authorization_page import authorize
from accounts.views.byok import ByokViewSet
from accounts.views.credits import CreditsViewSet, PaymentsViewSet
from accounts.views.guardrails import (
    GuardrailKeysViewSet,
    GuardrailMembersViewSet,
    GuardrailsViewSet,
)
from accounts.views.keys import KeysViewSet, KeyViewSet
from accounts.views.notifications import ChannelsViewSet, DeliveriesViewSet, EventsViewSet
from accounts.views.oauth import AppsViewSet, CodesViewSet, ExchangeViewSet
from accounts.views.organization import (
    GroupMappingsViewSet,
    OrganizationViewSet,
    ScimGroupsViewSet,
    SyncJobsViewSet,
)
from accounts.views.scim import DiscoveryViewSet, GroupsViewSet, UsersViewSet
from accounts.views.statement import StatementViewSet
from accounts.views.workloads import PublicKeysViewSet, TokensViewSet
from accounts.views.workspace_budgets import WorkspaceBudgetsViewSet
from accounts.views.workspaces import WorkspaceMembersViewSet, WorkspacesViewSet

_APP = r"^v1/auth/apps/(?P<app>[^/]+)"
_GUARDRAIL = r"^v1/guardrails/(?P<guardrail>[^/]+)"
_CHANNEL = r"^v1/notifications/channels/(?P<channel>[^/]+)"
_KEY = r"^v1/keys/(?P<key_hash>[^/]+)"
_WORKSPACE = r"^v1/workspaces/(?P<workspace>[^/]+)"

_API: list[URLPattern] = [
    path("v1/key", KeyViewSet.as_view({"get": "retrieve"})),
    path("v1/keys", KeysViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_KEY}$",
        KeysViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    re_path(rf"{_KEY}/rotate$", KeysViewSet.as_view({"post": "rotate"})),
    path("v1/auth/keys", ExchangeViewSet.as_view({"post": "create"})),
    path("v1/auth/keys/code", CodesViewSet.as_view({"post": "create"})),
    path("v1/oauth/token", TokensViewSet.as_view({"post": "create"})),
    path("v1/oauth/jwks", PublicKeysViewSet.as_view({"get": "retrieve"})),
    path("v1/auth/apps", AppsViewSet.as_view({"get": "list"})),
    re_path(rf"{_APP}$", AppsViewSet.as_view({"get": "retrieve", "delete": "destroy"})),
    re_path(rf"{_APP}/keys$", AppsViewSet.as_view({"get": "list_keys"})),
    path("v1/credits", CreditsViewSet.as_view({"get": "retrieve"})),
    path("v1/credits/coinbase", CreditsViewSet.as_view({"post": "coinbase"})),
    path("v1/credits/payments", PaymentsViewSet.as_view({"post": "create"})),
    path("v1/credits/statement", StatementViewSet.as_view({"get": "retrieve"})),
    path("v1/workspaces", WorkspacesViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_WORKSPACE}$",
        WorkspacesViewSet.as_view(
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
        ),
    ),
    re_path(rf"{_WORKSPACE}/members$", WorkspaceMembersViewSet.as_view({"get": "list"})),
    re_path(rf"{_WORKSPACE}/members/add$", WorkspaceMembersViewSet.as_view({"post": "add"})),
    re_path(rf"{_WORKSPACE}/members/remove$", WorkspaceMembersViewSet.as_view({"post": "remove"})),
    re_path(rf"{_WORKSPACE}/budgets$", WorkspaceBudgetsViewSet.as_view({"get": "list"})),
    re_path(
        rf"{_WORKSPACE}/budgets/(?P<interval>[^/]+)$",
        WorkspaceBudgetsViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"}),
    ),
    path("v1/guardrails", GuardrailsViewSet.as_view({"get": "list", "post": "create"})),
    path("v1/guardrails/assignments/keys", GuardrailKeysViewSet.as_view({"get": "list_all"})),
    path("v1/guardrails/assignments/members", GuardrailMembersViewSet.as_view({"get": "list_all"})),
    re_path(
        rf"{_GUARDRAIL}$",
        GuardrailsViewSet.as_view(
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
        ),
    ),
    re_path(
        rf"{_GUARDRAIL}/assignments/keys$",
        GuardrailKeysViewSet.as_view({"get": "list", "post": "assign"}),
    ),
    re_path(
        rf"{_GUARDRAIL}/assignments/keys/remove$", GuardrailKeysViewSet.as_view({"post": "remove"})
    ),
    re_path(
        rf"{_GUARDRAIL}/assignments/members$",
        GuardrailMembersViewSet.as_view({"get": "list", "post": "assign"}),
    ),
    re_path(
        rf"{_GUARDRAIL}/assignments/members/remove$",
        GuardrailMembersViewSet.as_view({"post": "remove"}),
    ),
    path("v1/byok", ByokViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        r"^v1/byok/(?P<credential>[^/]+)$",
        ByokViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    path("v1/notifications/channels", ChannelsViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_CHANNEL}$",
        ChannelsViewSet.as_view(
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
        ),
    ),
    re_path(rf"{_CHANNEL}/rotate$", ChannelsViewSet.as_view({"post": "rotate"})),
    re_path(rf"{_CHANNEL}/test$", ChannelsViewSet.as_view({"post": "test"})),
    path("v1/notifications/events", EventsViewSet.as_view({"get": "list"})),
    path("v1/notifications/deliveries", DeliveriesViewSet.as_view({"get": "list"})),
    re_path(
        r"^v1/notifications/deliveries/(?P<delivery>[^/]+)/resend$",
        DeliveriesViewSet.as_view({"post": "resend"}),
    ),
    path("v1/organization/members", OrganizationViewSet.as_view({"get": "list_members"})),
    path(
        "v1/organization/settings",
        OrganizationViewSet.as_view({"get": "retrieve", "patch": "partial_update"}),
    ),
    path("v1/scim/groups", ScimGroupsViewSet.as_view({"get": "list"})),
    path(
        "v1/scim/group-mappings",
        GroupMappingsViewSet.as_view({"get": "list", "post": "create"}),
    ),
    re_path(
        r"^v1/scim/group-mappings/(?P<mapping>[^/]+)$",
        GroupMappingsViewSet.as_view(
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
        ),
    ),
    path("v1/scim/sync-jobs", SyncJobsViewSet.as_view({"post": "create"})),
    re_path(r"^v1/scim/sync-jobs/(?P<job>[^/]+)$", SyncJobsViewSet.as_view({"get": "retrieve"})),
]

_SCIM_RESOURCE = {
    "get": "retrieve",
    "put": "update",
    "patch": "partial_update",
    "delete": "destroy",
}
_SCIM: list[URLPattern] = [
    path("ServiceProviderConfig", DiscoveryViewSet.as_view({"get": "config"})),
    path("ResourceTypes", DiscoveryViewSet.as_view({"get": "types"})),
    path("ResourceTypes/<str:name>", DiscoveryViewSet.as_view({"get": "types"})),
    path("Schemas", DiscoveryViewSet.as_view({"get": "schemas"})),
    path("Schemas/<str:name>", DiscoveryViewSet.as_view({"get": "schemas"})),
    path(".search", DiscoveryViewSet.as_view({"post": "search"})),
    path("Users", UsersViewSet.as_view({"get": "list", "post": "create"})),
    path("Users/.search", UsersViewSet.as_view({"post": "search"})),
    path("Users/<str:resource>", UsersViewSet.as_view(_SCIM_RESOURCE)),
    path("Groups", GroupsViewSet.as_view({"get": "list", "post": "create"})),
    path("Groups/.search", GroupsViewSet.as_view({"post": "search"})),
    path("Groups/<str:resource>", GroupsViewSet.as_view(_SCIM_RESOURCE)),
    re_path(
        r"^(?P<path>.*)$",
        DiscoveryViewSet.as_view(
            dict.fromkeys(("get", "post", "put", "patch", "delete"), "unknown")
        ),
    ),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/", include(_API)),
    path("auth", authorize, name="authorize"),
    path("scim/v2/", include(_SCIM)),
]
