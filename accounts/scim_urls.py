"""Paths of the SCIM connector, below /scim/v2/."""

from django.urls import URLPattern, path, re_path

from accounts.views.scim import DiscoveryViewSet, GroupsViewSet, UsersViewSet

_RESOURCE = {
    "get": "retrieve",
    "put": "update",
    "patch": "partial_update",
    "delete": "destroy",
}
urlpatterns: list[URLPattern] = [
    path("ServiceProviderConfig", DiscoveryViewSet.as_view({"get": "config"})),
    path("ResourceTypes", DiscoveryViewSet.as_view({"get": "types"})),
    path("ResourceTypes/<str:name>", DiscoveryViewSet.as_view({"get": "types"})),
    path("Schemas", DiscoveryViewSet.as_view({"get": "schemas"})),
    path("Schemas/<str:name>", DiscoveryViewSet.as_view({"get": "schemas"})),
    path(".search", DiscoveryViewSet.as_view({"post": "search"})),
    path("Users", UsersViewSet.as_view({"get": "list", "post": "create"})),
    path("Users/.search", UsersViewSet.as_view({"post": "search"})),
    path("Users/<str:resource>", UsersViewSet.as_view(_RESOURCE)),
    path("Groups", GroupsViewSet.as_view({"get": "list", "post": "create"})),
    path("Groups/.search", GroupsViewSet.as_view({"post": "search"})),
    path("Groups/<str:resource>", GroupsViewSet.as_view(_RESOURCE)),
    re_path(
        r"^(?P<path>.*)$",
        DiscoveryViewSet.as_view(
            dict.fromkeys(("get", "post", "put", "patch", "delete"), "unknown")
        ),
    ),
]
