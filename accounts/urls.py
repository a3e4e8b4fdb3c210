"""Paths of the app, below /api/."""

from django.urls import URLPattern, path, re_path

from accounts.views.credits import CreditsViewSet
from accounts.views.key import KeyViewSet
from accounts.views.keys import KeysViewSet
from accounts.views.workspaces import WorkspaceMembersViewSet, WorkspacesViewSet

_KEY = r"^v1/keys/(?P<key_hash>[^/]+)"
_WORKSPACE = r"^v1/workspaces/(?P<workspace>[^/]+)"

urlpatterns: list[URLPattern] = [
    path("v1/key", KeyViewSet.as_view({"get": "retrieve"})),
    path("v1/keys", KeysViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_KEY}$",
        KeysViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    re_path(rf"{_KEY}/rotate$", KeysViewSet.as_view({"post": "rotate"})),
    path("v1/credits", CreditsViewSet.as_view({"get": "retrieve"})),
    path("v1/credits/coinbase", CreditsViewSet.as_view({"post": "coinbase"})),
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
]
