"""Paths of the app, below /api/."""

from django.urls import URLPattern, path, re_path

from interns.views.chat import InternChatViewSet
from interns.views.hosts import METHODS
from interns.views.interns import InternsViewSet
from interns.views.outbound import FetchViewSet
from interns.views.tunnel import TunnelViewSet
from interns.views.vault import CopyViewSet, InternSecretsViewSet, WorkspaceSecretsViewSet

_INTERN = r"^v1/interns/(?P<intern_id>[^/]+)"
_VAULT = r"^v1/vault/interns/(?P<intern_id>[^/]+)"

urlpatterns: list[URLPattern] = [
    re_path(
        r"^internal/interns/(?P<intern_id>[0-9a-f-]{36})/(?P<way>agent|page|log|disk)(?P<rest>/.*)?$",
        TunnelViewSet.as_view(dict.fromkeys(METHODS, "answer")),
    ),
    path("v1/interns", InternsViewSet.as_view({"get": "list", "post": "create"})),
    re_path(
        rf"{_INTERN}$",
        InternsViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
    ),
    re_path(rf"{_INTERN}/provision$", InternsViewSet.as_view({"post": "provision"})),
    re_path(rf"{_INTERN}/suspend$", InternsViewSet.as_view({"post": "suspend"})),
    re_path(rf"{_INTERN}/chat/completions$", InternChatViewSet.as_view({"post": "create"})),
    re_path(rf"{_INTERN}/fetch$", FetchViewSet.as_view({"post": "create"})),
    path("v1/vault/secrets", WorkspaceSecretsViewSet.as_view({"get": "list"})),
    re_path(
        r"^v1/vault/secrets/(?P<name>[^/]+)$",
        WorkspaceSecretsViewSet.as_view({"put": "update", "delete": "destroy"}),
    ),
    re_path(rf"{_VAULT}/secrets$", InternSecretsViewSet.as_view({"get": "list"})),
    re_path(rf"{_VAULT}/secrets/copy$", CopyViewSet.as_view({"post": "copy"})),
    re_path(
        rf"{_VAULT}/secrets/(?P<name>[^/]+)$",
        InternSecretsViewSet.as_view({"put": "update", "delete": "destroy"}),
    ),
    re_path(rf"{_VAULT}/effective-secrets$", InternSecretsViewSet.as_view({"get": "effective"})),
    re_path(rf"{_VAULT}/connections$", InternSecretsViewSet.as_view({"get": "connections"})),
]
