"""Paths of the vault, below /api/."""

from django.urls import URLPattern, path, re_path

from interns.vault.views import CopyViewSet, InternSecretsViewSet, WorkspaceSecretsViewSet

_INTERN = r"^v1/vault/interns/(?P<intern_id>[^/]+)"

urlpatterns: list[URLPattern] = [
    path("v1/vault/secrets", WorkspaceSecretsViewSet.as_view({"get": "list"})),
    re_path(
        r"^v1/vault/secrets/(?P<name>[^/]+)$",
        WorkspaceSecretsViewSet.as_view({"put": "update", "delete": "destroy"}),
    ),
    re_path(rf"{_INTERN}/secrets$", InternSecretsViewSet.as_view({"get": "list"})),
    re_path(rf"{_INTERN}/secrets/copy$", CopyViewSet.as_view({"post": "copy"})),
    re_path(
        rf"{_INTERN}/secrets/(?P<name>[^/]+)$",
        InternSecretsViewSet.as_view({"put": "update", "delete": "destroy"}),
    ),
    re_path(rf"{_INTERN}/effective-secrets$", InternSecretsViewSet.as_view({"get": "effective"})),
    re_path(rf"{_INTERN}/connections$", InternSecretsViewSet.as_view({"get": "connections"})),
]
